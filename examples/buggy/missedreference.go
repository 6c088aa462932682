package buggy

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
)

// A gateway is a name in the cluster for a host outside. The ConfigMap that it names says in which
// domain the host is.
type gateway struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Network string `json:"network"`
	} `json:"spec"`
	Status gatewayStatus `json:"status"`
}

type gatewayStatus struct {
	Domain string `json:"domain"`
}

var gatewayOperator = config.Operator{
	Name:     "gateways",
	Parent:   kind("Gateway"),
	Children: []config.Child{{Type: k8s.Service, Strategy: config.Replace}},
	Related:  []config.Related{{Type: k8s.ConfigMap, Fields: []string{"spec.network"}}},
}

// gateways makes the Service, and notes in the status which domain it is in.
//
// The bug: once the domain is in the status, nobody looks at the ConfigMap any more, so that a
// change of it is missed. A status is for people and other programs to read. A handler asks the
// objects themselves: the request has them all, each time, and costs nothing.
var gateways = handler.Typed(nil, handler.TypedFuncs[*gateway]{
	SyncFunc: func(_ context.Context, g *gateway, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		status := g.Status
		if status.Domain == "" {
			var err error
			if status.Domain, err = g.domain(req.Related); err != nil {
				return nil, err
			}
		}
		return &handler.SyncResponse{Status: status, Children: []any{g.service(status.Domain)}}, nil
	},
})

func (g *gateway) domain(related handler.Objects) (string, error) {
	network, exists := related.OfType(k8s.ConfigMap).Get(g.Namespace, g.Spec.Network)
	if !exists {
		return "", fmt.Errorf("ConfigMap %s: doesn't exist", g.Spec.Network)
	}
	if domain, _ := network.Field("data", "domain"); domain != nil {
		return fmt.Sprint(domain), nil
	}
	return "", fmt.Errorf("ConfigMap %s: has no domain", g.Spec.Network)
}

func (g *gateway) service(domain string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: g.Name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: g.Name + "." + domain},
	}
}
