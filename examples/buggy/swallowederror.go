package buggy

import (
	"context"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
)

// A dns has a record for each host.
type dns interface {
	// Put creates a record, or changes it.
	Put(ctx context.Context, host, owner string) error
}

var hostOperator = config.Operator{
	Name:     "hosts",
	Parent:   kind("Host"),
	Children: []config.Child{{Type: k8s.Service, Strategy: config.Replace}},
}

// hosts is a handler that gives each Host a Service, and a record in the DNS.
//
// The bug: the error of the DNS ends in the log. The pass has succeeded, as far as the engine
// knows, so nothing calls Sync again, and the record is missing until something else changes.
// Return the error, with a response if the status shall tell of it. Or, if the rest of the work
// mustn't wait for it, name a Resync.
type hosts struct {
	dns dns
	log *slog.Logger
}

func (h hosts) handler() handler.Handler { return handler.SyncFunc(h.sync) }

func (h hosts) sync(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	name := req.Parent.Key().String()
	if !handler.IsPlan(ctx) {
		if err := h.dns.Put(ctx, name, name); err != nil {
			h.log.WarnContext(ctx, "record not set", "host", name, "error", err)
		}
	}
	return &handler.SyncResponse{Children: []any{hostService(req.Parent.Name())}}, nil
}

func hostService(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"host": name}, Ports: []corev1.ServicePort{{Port: 443}}},
	}
}
