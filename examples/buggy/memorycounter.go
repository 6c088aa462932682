package buggy

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
)

const firstPort = 30000

var tunnelOperator = config.Operator{
	Name:     "tunnels",
	Parent:   kind("Tunnel"),
	Children: []config.Child{{Type: k8s.Service, Strategy: config.Replace}},
}

// tunnels gives each Tunnel a Service with a port of its own on every node.
//
// The bug: which ports are taken is only known to the process. The next one, after a restart or
// with the lease, gives them out anew, in the order in which it happens to meet the Tunnels. What
// must stay has to follow from the request: from a field of the spec, from the name, or from what
// exists.
type tunnels struct {
	mu    sync.Mutex // guards all below
	ports map[types.UID]int32
	next  int32
}

func newTunnels() *tunnels { return &tunnels{ports: map[types.UID]int32{}, next: firstPort} }

// Sync is handler.Handler's.
func (t *tunnels) Sync(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	return &handler.SyncResponse{Children: []any{tunnelService(req.Parent.Name(), t.port(req.Parent.UID()))}}, nil
}

// Finalize is handler.Handler's.
func (t *tunnels) Finalize(_ context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.ports, req.Parent.UID())
	return &handler.FinalizeResponse{Finalized: true}, nil
}

func (t *tunnels) port(of types.UID) int32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.ports[of]; !known {
		t.ports[of] = t.next
		t.next++
	}
	return t.ports[of]
}

func tunnelService(name string, port int32) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"tunnel": name},
			Ports: []corev1.ServicePort{{Port: 443, NodePort: port}},
		},
	}
}
