package scale

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/probe"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
)

const (
	namespace = "scale"
	// children is how many a parent has, perParent the stored objects with it.
	children  = 3
	perParent = children + 1
)

func parentType() resource.Type {
	return resource.Type{APIVersion: "scale.example.com/v1", Kind: "App"}
}

// A world is an API server with parents, and what was asked of it.
type world struct {
	server  *fakeapi.Server
	parents int
	writes  atomic.Int64
}

func newWorld(t *testing.T, parents int) *world {
	t.Helper()
	w := &world{parents: parents, server: fakeapi.New(fakeapi.Custom(parentType(), "apps"),
		fakeapi.ConfigMaps(), fakeapi.Kind{Type: k8s.Service, Plural: "services"})}
	w.server.SetHooks(fakeapi.Hooks{After: func(r fakeapi.Request) error {
		if r.Writes() && r.Type != fakeapi.Events().Type {
			w.writes.Add(1)
		}
		return nil
	}})
	w.server.NoteRequests(false)
	for i := range parents {
		_, err := w.server.Create(map[string]any{
			"apiVersion": parentType().APIVersion, "kind": parentType().Kind,
			"metadata": map[string]any{"namespace": namespace, "name": parentName(i)},
			"spec":     map[string]any{"value": "first"},
		})
		require.NoError(t, err)
	}
	return w
}

func parentName(i int) string { return fmt.Sprintf("app-%06d", i) }

// changeAll changes every parent.
func (w *world) changeAll(t *testing.T, change func(object map[string]any)) {
	t.Helper()
	for i := range w.parents {
		_, err := w.server.Change(parentType(), types.NamespacedName{Namespace: namespace, Name: parentName(i)},
			change)
		require.NoError(t, err)
	}
}

func setValue(value string) func(object map[string]any) {
	return func(object map[string]any) { object["spec"] = map[string]any{"value": value} }
}

func metaOf(object map[string]any) map[string]any {
	meta, _ := object["metadata"].(map[string]any)
	return meta
}

// An operator is one that runs.
type operator struct {
	t      *testing.T
	probe  *probe.Probe
	calls  atomic.Int64
	resync atomic.Int64 // what the handler asks for, in ns
	cancel context.CancelFunc
	ended  chan error
}

func start(t *testing.T, cfg *rest.Config) *operator {
	t.Helper()
	o := &operator{t: t, probe: &probe.Probe{}, ended: make(chan error, 1)}
	r, err := runner.New(config.Operator{
		Name: "scale", Parent: parentType(),
		Children: []config.Child{
			{Type: k8s.ConfigMap, Strategy: config.Replace},
			{Type: k8s.Service, Strategy: config.Replace},
		},
	}, handler.SyncFunc(o.sync), runner.Options{
		RESTConfig: cfg, Probe: o.probe, Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	o.cancel = cancel
	go func() { o.ended <- r.Start(ctx) }()
	return o
}

// stop ends the operator, which must say that nothing was wrong.
func (o *operator) stop() {
	o.t.Helper()
	o.cancel()
	require.NoError(o.t, <-o.ended)
}

// sync wants two ConfigMaps and a headless Service.
func (o *operator) sync(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	o.calls.Add(1)
	value, _ := req.Parent.Field("spec", "value")
	text, _ := value.(string)
	name := req.Parent.Name()
	labels := map[string]string{"app": name}
	configMap := func(suffix string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name + suffix, Labels: labels},
			Data: map[string]string{
				"value": text, "which": suffix,
				"comment": "Some lines of configuration, as operators write them: neither empty nor large. They are the same for every parent and never change.",
			},
		}
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: labels,
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
	return &handler.SyncResponse{
		Status:   map[string]any{"children": req.Children.Len()},
		Children: []any{configMap("-a"), configMap("-b"), service},
		Resync:   time.Duration(o.resync.Load()),
	}, nil
}

// passes returns how many have ended.
func (o *operator) passes() int64 {
	if e := o.probe.Engine(); e != nil {
		return int64(e.Activity().Passes)
	}
	return 0
}

// settled says whether nothing is left to do.
func (o *operator) settled() bool {
	e := o.probe.Engine()
	if e == nil {
		return false
	}
	a := e.Activity()
	return a.Running == 0 && a.Due == 0
}

// rested says whether nothing is left to do and no resync is to come: those
// asked for are due within a millisecond.
func (o *operator) rested() bool {
	calls := o.calls.Load()
	if !o.settled() {
		return false
	}
	<-time.After(100 * time.Millisecond)
	return o.settled() && o.calls.Load() == calls
}

// until waits until something is so.
func (o *operator) until(what string, so func() bool) {
	o.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(30 * time.Minute); !so(); {
		select {
		case <-tick.C:
		case <-limit:
			require.FailNow(o.t, "waited too long until "+what)
		}
	}
}
