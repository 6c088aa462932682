package scale

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
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
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

const (
	namespace = "scale"
	// children is how many a parent has, perParent the stored objects with it.
	children  = 3
	perParent = children + 1
	// sharing is how many parents refer to the same settings.
	sharing = 100
)

// A shape says what the operator makes use of, besides children and a status.
type shape struct {
	related bool // each parent refers to a ConfigMap of settings that it shares with others
	gates   bool // the Service waits for the ConfigMaps
	roll    bool // ConfigMaps are updated one after the other
}

// shapeOf reads what an environment variable names.
func shapeOf(t *testing.T, names string) (s shape) {
	t.Helper()
	for name := range strings.SplitSeq(names, ",") {
		switch name {
		case "":
		case "related":
			s.related = true
		case "gates":
			s.gates = true
		case "roll":
			s.roll = true
		default:
			require.Failf(t, "no such part", "%q is none of related, gates and roll", name)
		}
	}
	return s
}

func parentType() resource.Type {
	return resource.Type{APIVersion: "scale.example.com/v1", Kind: "App"}
}

// A world is an API server with parents, and what was asked of it.
type world struct {
	shape
	server  *fakeapi.Server
	parents int
	writes  atomic.Int64
	wrote   chan struct{} // has room for one, which says that there was a write
}

func newWorld(t *testing.T, parents int, of shape) *world {
	t.Helper()
	w := &world{shape: of, parents: parents, wrote: make(chan struct{}, 1), server: fakeapi.New(fakeapi.Custom(parentType(), "apps"),
		fakeapi.ConfigMaps(), fakeapi.Kind{Type: k8s.Service, Plural: "services"})}
	w.server.SetHooks(fakeapi.Hooks{After: func(r fakeapi.Request) error {
		if r.Writes() && r.Type != fakeapi.Events().Type {
			w.writes.Add(1)
			select {
			case w.wrote <- struct{}{}:
			default:
			}
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
	for i := 0; of.related && i*sharing < parents; i++ {
		_, err := w.server.Create(map[string]any{
			"apiVersion": k8s.ConfigMap.APIVersion, "kind": k8s.ConfigMap.Kind,
			"metadata": map[string]any{"namespace": namespace, "name": settingsName(i)},
			"data":     map[string]any{"setting": "first"},
		})
		require.NoError(t, err)
	}
	return w
}

// settingsName is the name of the settings that sharing parents refer to.
func settingsName(i int) string { return fmt.Sprintf("settings-%04d", i) }

// settingsOf is the name of the settings that a parent refers to.
func settingsOf(parent string) string {
	i, _ := strconv.Atoi(strings.TrimPrefix(parent, "app-"))
	return settingsName(i / sharing)
}

// changeSettings changes all settings.
func (w *world) changeSettings(t *testing.T, value string) {
	t.Helper()
	for i := 0; i*sharing < w.parents; i++ {
		_, err := w.server.Change(k8s.ConfigMap, types.NamespacedName{Namespace: namespace, Name: settingsName(i)}, func(object map[string]any) {
			object["data"] = map[string]any{"setting": value}
		})
		require.NoError(t, err)
	}
}

// change changes one parent.
func (w *world) change(t *testing.T, i int, value string) {
	t.Helper()
	_, err := w.server.Change(parentType(), types.NamespacedName{Namespace: namespace, Name: parentName(i)}, setValue(value))
	require.NoError(t, err)
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
	shape
	t       *testing.T
	manager *manager.Manager
	calls   atomic.Int64
	resync  atomic.Int64 // what the handler asks for, in ns
	cancel  context.CancelFunc
	ended   chan error
}

func start(t *testing.T, w *world) *operator {
	t.Helper()
	o := &operator{shape: w.shape, t: t, ended: make(chan error, 1)}
	cfg := config.Operator{
		Name: "scale", Parent: parentType(),
		Children: []config.Child{
			{Type: k8s.ConfigMap, Strategy: config.Replace},
			{Type: k8s.Service, Strategy: config.Replace},
		},
	}
	h := handler.Funcs{SyncFunc: o.sync}
	if o.roll {
		cfg.Children[0].Roll = &config.Roll{MaxUnavailable: "1"}
	}
	if o.related {
		cfg.Related = []config.Related{{Type: k8s.ConfigMap}}
		h.RelateFunc = func(parent *resource.Resource) ([]handler.Ref, error) {
			return []handler.Ref{{Type: k8s.ConfigMap, Namespace: namespace, Name: settingsOf(parent.Name())}}, nil
		}
	}
	var err error
	o.manager, err = manager.New(manager.Options{
		RESTConfig: w.server.RESTConfig(), Logger: slog.New(slog.DiscardHandler), Metrics: observe.NewRegistry(prometheus.NewRegistry()),
	}, manager.Spec{Handler: h, Config: cfg})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	o.cancel = cancel
	go func() { o.ended <- o.manager.Start(ctx) }()
	return o
}

// stop ends the operator, which must say that nothing was wrong.
func (o *operator) stop() {
	o.t.Helper()
	o.cancel()
	require.NoError(o.t, <-o.ended)
}

// sync wants two ConfigMaps and a headless Service, and says in the ConfigMaps what the settings are.
func (o *operator) sync(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	o.calls.Add(1)
	value, _ := req.Parent.Field("spec", "value")
	text, _ := value.(string)
	name := req.Parent.Name()
	labels := map[string]string{"app": name}
	setting := ""
	for settings := range req.Related.All() {
		value, _ := settings.Field("data", "setting")
		setting, _ = value.(string)
	}
	configMap := func(suffix string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name + suffix, Labels: labels},
			Data: map[string]string{
				"value": text, "which": suffix, "setting": setting,
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
	a, b, last := configMap("-a"), configMap("-b"), any(service)
	if o.gates {
		last = handler.After(service, a, b)
	}
	return &handler.SyncResponse{
		Status:   map[string]any{"children": req.Children.Len()},
		Children: []any{a, b, last},
		Resync:   time.Duration(o.resync.Load()),
	}, nil
}

// passes returns how many have ended.
func (o *operator) passes() int64 {
	if e := o.manager.Engine(); e != nil {
		return int64(e.Activity().Passes)
	}
	return 0
}

// settled says whether nothing is left to do.
func (o *operator) settled() bool {
	e := o.manager.Engine()
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
