package runner

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/probe"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// A rig is an operator that runs against an API server in the process, in a
// synctest bubble.
type rig struct {
	t      *testing.T
	server *fakeapi.Server
	runner *Runner
	probe  *probe.Probe
	logs   *logBuffer
	cancel context.CancelFunc
	ended  chan error
}

// A logBuffer is what was logged so far.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func rigServer() *fakeapi.Server {
	return fakeapi.New(fakeapi.Custom(testParentType(), "parents"), fakeapi.ConfigMaps(), fakeapi.Secrets(), fakeapi.Namespaces())
}

// rigConfig is that of an operator whose parents have ConfigMaps.
func rigConfig() config.Operator {
	return config.Operator{
		Name: "op", Parent: testParentType(),
		Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}},
	}
}

// startRig starts the operator and waits until it has nothing to do. What is
// still running when the test ends fails it: a bubble waits for its goroutines.
func startRig(t *testing.T, server *fakeapi.Server, cfg config.Operator, h handler.Handler) *rig {
	t.Helper()
	return startRigWith(t, server, cfg, h, Options{RESTConfig: server.RESTConfig()})
}

// startRigWith is startRig with options of the test's own; the log and the
// probe are the rig's.
func startRigWith(t *testing.T, server *fakeapi.Server, cfg config.Operator, h handler.Handler, opts Options) *rig {
	t.Helper()
	r := &rig{t: t, server: server, probe: &probe.Probe{}, logs: &logBuffer{}, ended: make(chan error, 1)}
	opts.Probe = r.probe
	opts.Logger = slog.New(slog.NewTextHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	r.runner, err = New(cfg, h, opts)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() { r.ended <- r.runner.Start(ctx) }()
	t.Cleanup(cancel) // of a test that failed
	synctest.Wait()
	return r
}

// stop ends the operator, which must say that nothing was wrong.
func (r *rig) stop() {
	r.t.Helper()
	r.cancel()
	require.NoError(r.t, <-r.ended)
}

// elapse lets time pass, and the operator do what falls due.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// create creates a parent whose spec says value.
func (r *rig) create(name, value string) *resource.Resource {
	r.t.Helper()
	return createParent(r.t, r.server, name, value)
}

func createParent(t *testing.T, server *fakeapi.Server, name, value string, finalizers ...any) *resource.Resource {
	t.Helper()
	res, err := server.Create(map[string]any{
		"apiVersion": testParentType().APIVersion, "kind": testParentType().Kind,
		"metadata": map[string]any{"name": name, "namespace": "ns", "finalizers": finalizers},
		"spec":     map[string]any{"value": value},
	})
	require.NoError(t, err)
	return res
}

func (r *rig) change(t resource.Type, name string, change func(object map[string]any)) {
	r.t.Helper()
	_, err := r.server.Change(t, rigKey(name), change)
	require.NoError(r.t, err)
	synctest.Wait()
}

// setSpec gives a parent another value.
func (r *rig) setSpec(name, value string) {
	r.t.Helper()
	r.change(testParentType(), name, func(o map[string]any) { o["spec"] = map[string]any{"value": value} })
}

func (r *rig) get(t resource.Type, name string) *resource.Resource {
	return r.server.Get(t, rigKey(name))
}

// passes returns how many passes have ended.
func (r *rig) passes() int { return int(r.probe.Engine().Activity().Passes) }

func (r *rig) errors(name string) []error { return r.probe.Engine().Errors(rigKey(name)) }

func rigKey(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

// copier is a handler whose parents have a ConfigMap of their name that says
// their value, which the status repeats.
func copier(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	value, _ := req.Parent.Field("spec", "value")
	status := map[string]any{"value": value, "children": req.Children.Len()}
	return &handler.SyncResponse{Status: status, Children: []any{copied(req.Parent.Name(), value)}}, nil
}

func copied(name string, value any) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name}, "data": map[string]any{"value": value},
	}
}

// bubble runs a test in a synctest bubble, in which time passes when there is
// nothing else to do.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}
