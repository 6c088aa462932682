package related

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/resource/k8s"
)

// An operator is one that runs, in this process.
type operator struct {
	t       *testing.T
	manager *manager.Manager
	calls   atomic.Int64
	cancel  context.CancelFunc
	ended   chan error

	mu      sync.Mutex
	arrived arrival // newest
	updates []update
}

// An arrival says when something of the watches came last.
type arrival struct{ related, children time.Time }

// An update is a request by which the operator changes a child.
type update struct {
	left    time.Time
	arrived arrival // by then
}

// start starts an operator in the namespace, and returns when it is at rest. An operator gives
// an API server some seconds and ends then. As a Deployment would, start starts it again.
func start(w *world) *operator {
	w.t.Helper()
	for {
		o := begin(w)
		var err error
		until(w.t, "every parent was synced", func() bool {
			select {
			case err = <-o.ended:
				return true
			default:
				return o.calls.Load() >= int64(w.parents) && o.rests()
			}
		})
		if err == nil {
			return o
		}
		require.ErrorIs(w.t, err, context.DeadlineExceeded)
	}
}

// begin starts an operator.
func begin(w *world) *operator {
	w.t.Helper()
	o := &operator{t: w.t, ended: make(chan error, 1)}
	cfg := cluster.RESTConfig()
	cfg.Wrap(o.observe)
	var err error
	o.manager, err = manager.New(manager.Options{
		RESTConfig: cfg, Logger: slog.New(slog.DiscardHandler), Metrics: observe.NewRegistry(prometheus.NewRegistry()),
	}, manager.Spec{Handler: handler.SyncFunc(o.sync), Config: config.Operator{
		Name: "related", Parent: readerType(), Namespaces: []string{w.namespace},
		Children: []config.Child{{Type: k8s.Secret, Strategy: config.Replace}},
		Related:  []config.Related{{Type: k8s.Secret, Fields: []string{"spec.secret"}}},
	}})
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	o.cancel = cancel
	go func() { o.ended <- o.manager.Start(ctx) }() // until stop
	return o
}

// stop ends the operator, which must say that nothing was wrong.
func (o *operator) stop() {
	o.t.Helper()
	o.cancel()
	require.NoError(o.t, <-o.ended)
}

// sync wants a copy of the Secret.
func (o *operator) sync(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	o.calls.Add(1)
	data := map[string][]byte{}
	for secret, err := range handler.RelatedAs[*corev1.Secret](req, k8s.Secret) {
		if err != nil {
			return nil, err
		}
		data = secret.Data
	}
	return &handler.SyncResponse{Children: []any{&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: req.Parent.Name()}, Data: data, Type: corev1.SecretTypeOpaque,
	}}}, nil
}

// rests says whether nothing is left to do.
func (o *operator) rests() bool {
	e := o.manager.Engine()
	if e == nil {
		return false
	}
	a := e.Activity()
	return a.Running == 0 && a.Due == 0 && a.Events == 0
}

// holds says whether the operator knows the child of a parent in this version.
func (o *operator) holds(w *world, parent int, version string) bool {
	held, ok := o.manager.Engine().Observed(k8s.Secret, types.NamespacedName{Namespace: w.namespace, Name: parentName(parent)})
	return ok && held.ResourceVersion() == version
}

// observe notes when events arrive and updates leave.
func (o *operator) observe(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if !strings.Contains(req.URL.Path, "/secrets") {
			return next.RoundTrip(req)
		}
		if req.Method == http.MethodPut {
			o.mu.Lock()
			o.updates = append(o.updates, update{time.Now(), o.arrived})
			o.mu.Unlock()
		}
		resp, err := next.RoundTrip(req)
		if asked := req.URL.Query(); err == nil && asked.Get("watch") != "" {
			at := &o.arrived.related
			if asked.Get("labelSelector") != "" {
				at = &o.arrived.children
			}
			resp.Body = &arrivals{resp.Body, o, at}
		}
		return resp, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// arrivals notes when bytes of a watch come.
type arrivals struct {
	io.ReadCloser
	of *operator
	at *time.Time
}

func (a *arrivals) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	at := time.Now()
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	if n > 0 {
		*a.at = at
	}
	return n, err
}

// takeUpdates returns the updates of children since the last call.
func (o *operator) takeUpdates() []update {
	o.mu.Lock()
	defer o.mu.Unlock()
	taken := o.updates
	o.updates = nil
	return taken
}
