package rig

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
)

// A Rig is an operator that runs in a bubble. Its methods belong to the test's
// goroutine.
type Rig struct {
	T        *testing.T
	Server   *fakeapi.Server
	Manager  *manager.Manager     // of this operator alone
	Registry *prometheus.Registry // has the operator's metrics
	Logs     *Logs
	Cancel   context.CancelFunc // tells the operator to end
	Ended    chan error         // gets what Manager.Start returns
}

// Start starts an operator, and waits until there is nothing left for it to do but
// wait. The test must end the operator by Stop or Cancel: a bubble fails a test
// that leaves a goroutine behind.
func Start(t *testing.T, server *fakeapi.Server, cfg config.Operator, h handler.Handler) *Rig {
	t.Helper()
	return StartWith(t, server, cfg, h, manager.Options{RESTConfig: server.RESTConfig()})
}

// StartWith is Start with options of the test's own. Logger, Metrics and
// KeepHistory are the rig's.
func StartWith(t *testing.T, server *fakeapi.Server, cfg config.Operator, h handler.Handler, opts manager.Options) *Rig {
	t.Helper()
	r := &Rig{T: t, Server: server, Logs: &Logs{}, Ended: make(chan error, 1)}
	r.Registry = prometheus.NewRegistry()
	opts.KeepHistory, opts.Metrics = true, observe.NewRegistry(r.Registry)
	opts.Logger = slog.New(slog.NewTextHandler(r.Logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	r.Manager, err = manager.New(opts, manager.Spec{Config: cfg, Handler: h})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	r.Cancel = cancel
	go func() { r.Ended <- r.Manager.Start(ctx) }()
	t.Cleanup(cancel) // for a test that fails before it ends the operator
	synctest.Wait()
	return r
}

// Stop ends the operator. The test fails if the operator ended with an error.
func (r *Rig) Stop() {
	r.T.Helper()
	r.Cancel()
	require.NoError(r.T, <-r.Ended)
}

// Create creates a parent whose spec.value is value. It doesn't wait for the
// operator.
func (r *Rig) Create(name, value string) *resource.Resource {
	r.T.Helper()
	return CreateParent(r.T, r.Server, name, value)
}

// Change changes an object as somebody else than the operator would, and waits
// until the operator has done what follows at once.
func (r *Rig) Change(t resource.Type, name string, change func(object map[string]any)) {
	r.T.Helper()
	_, err := r.Server.Change(t, Key(name), change)
	require.NoError(r.T, err)
	synctest.Wait()
}

// SetSpec is Change for the value in a parent's spec.
func (r *Rig) SetSpec(name, value string) {
	r.T.Helper()
	r.Change(sample.ParentType(), name, func(o map[string]any) { o["spec"] = map[string]any{"value": value} })
}

// Get returns an object as the API server has it, nil if there is none.
func (r *Rig) Get(t resource.Type, name string) *resource.Resource {
	return r.Server.Get(t, Key(name))
}

// Passes returns how many passes have ended.
func (r *Rig) Passes() int { return int(r.Manager.Engine().Activity().Passes) }

// Errors returns the errors of a parent's passes so far, oldest first.
func (r *Rig) Errors(name string) []error { return r.Manager.Engine().Errors(Key(name)) }
