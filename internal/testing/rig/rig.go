package rig

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// A Rig is an operator that runs against an API server in the process, in a
// synctest bubble.
type Rig struct {
	T        *testing.T
	Server   *fakeapi.Server
	Runner   *manager.Manager
	Registry *prometheus.Registry
	Logs     *Logs
	Cancel   context.CancelFunc
	Ended    chan error
}

// A Logs is what was logged so far.
type Logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *Logs) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *Logs) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func Server() *fakeapi.Server {
	return fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"), fakeapi.ConfigMaps(), fakeapi.Secrets(), fakeapi.Namespaces())
}

// Config is that of an operator whose parents have ConfigMaps.
func Config() config.Operator {
	return config.Operator{
		Name: "op", Parent: sample.ParentType(),
		Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}},
	}
}

// Start starts the operator and waits until it has nothing to do. What is
// still running when the test ends fails it: a bubble waits for its goroutines.
func Start(t *testing.T, server *fakeapi.Server, cfg config.Operator, h handler.Handler) *Rig {
	t.Helper()
	return StartWith(t, server, cfg, h, manager.Options{RESTConfig: server.RESTConfig()})
}

// StartWith is startRig with options of the test's own; the log and the
// metrics are the rig's.
func StartWith(t *testing.T, server *fakeapi.Server, cfg config.Operator, h handler.Handler, opts manager.Options) *Rig {
	t.Helper()
	r := &Rig{T: t, Server: server, Logs: &Logs{}, Ended: make(chan error, 1)}
	r.Registry = prometheus.NewRegistry()
	opts.KeepHistory, opts.Metrics = true, observe.NewRegistry(r.Registry)
	opts.Logger = slog.New(slog.NewTextHandler(r.Logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	r.Runner, err = manager.New(opts, manager.Spec{Config: cfg, Handler: h})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	r.Cancel = cancel
	go func() { r.Ended <- r.Runner.Start(ctx) }()
	t.Cleanup(cancel) // of a test that failed
	synctest.Wait()
	return r
}

// Stop ends the operator, which must say that nothing was wrong.
func (r *Rig) Stop() {
	r.T.Helper()
	r.Cancel()
	require.NoError(r.T, <-r.Ended)
}

// Elapse lets time pass, and the operator do what falls due.
func Elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// Create creates a parent whose spec says value.
func (r *Rig) Create(name, value string) *resource.Resource {
	r.T.Helper()
	return CreateParent(r.T, r.Server, name, value)
}

func CreateParent(t *testing.T, server *fakeapi.Server, name, value string, finalizers ...any) *resource.Resource {
	t.Helper()
	res, err := server.Create(map[string]any{
		"apiVersion": sample.ParentType().APIVersion, "kind": sample.ParentType().Kind,
		"metadata": map[string]any{"name": name, "namespace": "ns", "finalizers": finalizers},
		"spec":     map[string]any{"value": value},
	})
	require.NoError(t, err)
	return res
}

func (r *Rig) Change(t resource.Type, name string, change func(object map[string]any)) {
	r.T.Helper()
	_, err := r.Server.Change(t, Key(name), change)
	require.NoError(r.T, err)
	synctest.Wait()
}

// SetSpec gives a parent another value.
func (r *Rig) SetSpec(name, value string) {
	r.T.Helper()
	r.Change(sample.ParentType(), name, func(o map[string]any) { o["spec"] = map[string]any{"value": value} })
}

func (r *Rig) Get(t resource.Type, name string) *resource.Resource {
	return r.Server.Get(t, Key(name))
}

// Passes returns how many passes have ended.
func (r *Rig) Passes() int { return int(r.Runner.Engine().Activity().Passes) }

func (r *Rig) Errors(name string) []error { return r.Runner.Engine().Errors(Key(name)) }

func Key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

// Copier is a handler whose parents have a ConfigMap of their name that says
// their value, which the status repeats.
func Copier(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	value, _ := req.Parent.Field("spec", "value")
	status := map[string]any{"value": value, "children": req.Children.Len()}
	return &handler.SyncResponse{Status: status, Children: []any{Copied(req.Parent.Name(), value)}}, nil
}

func Copied(name string, value any) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name}, "data": map[string]any{"value": value},
	}
}

// Bubble runs a test in a synctest bubble, in which time passes when there is
// nothing else to do.
func Bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// NewOne returns a manager of one operator.
func NewOne(cfg config.Operator, h handler.Handler, opts manager.Options) (*manager.Manager, error) {
	return manager.New(opts, manager.Spec{Config: cfg, Handler: h})
}

// RunAll runs operators until ctx ends.
func RunAll(ctx context.Context, opts manager.Options, specs ...manager.Spec) error {
	m, err := manager.New(opts, specs...)
	if err != nil {
		return err
	}
	return m.Start(ctx)
}

// RunOne runs an operator until ctx ends.
func RunOne(ctx context.Context, cfg config.Operator, h handler.Handler, opts manager.Options) error {
	return RunAll(ctx, opts, manager.Spec{Config: cfg, Handler: h})
}

// Plan returns what an operator would do on a server.
func Plan(server *fakeapi.Server, cfg config.Operator, h handler.Handler) ([]plan.Change, error) {
	cfg.DryRun = true
	m, err := NewOne(cfg, h, manager.Options{RESTConfig: server.RESTConfig(), Logger: sample.DiscardLog()})
	if err != nil {
		return nil, err
	}
	return m.Plan(context.Background())
}
