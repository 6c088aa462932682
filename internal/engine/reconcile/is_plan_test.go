package reconcile_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
)

// A registry is a system outside the cluster, in which a handler registers parents. It
// notes the calls of the handler, and what they would change.
type registry struct {
	mu    sync.Mutex // guards calls
	calls []string
}

func (r *registry) note(ctx context.Context, method string, req *handler.SyncRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, fmt.Sprintf("%s %s plan=%t", method, req.Parent.Name(), handler.IsPlan(ctx)))
}

func (r *registry) Sync(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	r.note(ctx, "sync", req)
	return rig.Copier(ctx, req)
}

func (r *registry) Finalize(ctx context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	r.note(ctx, "finalize", req)
	return &handler.FinalizeResponse{Finalized: true}, nil
}

// A handler is told that nothing is written, so that it can leave other systems alone.
func TestIsPlan(t *testing.T) {
	run := func(t *testing.T, server *fakeapi.Server, cfg config.Operator, h handler.Handler) {
		t.Helper()
		r := rig.Start(t, server, cfg, h)
		rig.Elapse(time.Minute)
		r.Stop()
	}
	for name, tc := range map[string]struct {
		reason  string
		once    func(t *testing.T, server *fakeapi.Server, cfg config.Operator, h handler.Handler)
		dryRun  bool
		timeout time.Duration
		calls   []string // repetitions aside
	}{
		"Plan": {
			reason: "the parent that is being deleted isn't finalized either",
			once: func(t *testing.T, server *fakeapi.Server, cfg config.Operator, h handler.Handler) {
				t.Helper()
				_, err := planOf(t, server, cfg, h)
				require.NoError(t, err)
			},
			calls: []string{"sync stays plan=true"},
		},
		"DryRun":  {reason: "as in a plan", once: run, dryRun: true, calls: []string{"sync stays plan=true"}},
		"Timeout": {reason: "the mark outlives the handler's own deadline", once: run, dryRun: true, timeout: time.Minute, calls: []string{"sync stays plan=true"}},
		"Run": {
			reason: "it may do what it is there for", once: run,
			calls: []string{"finalize goes plan=false", "sync stays plan=false"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				for _, parent := range []string{"stays", "goes"} {
					rig.CreateParent(t, server, parent, "1")
				}
				cfg := rig.Config()
				converge(t, server, cfg, new(registry)) // with finalizers
				require.NoError(t, server.Delete(sample.ParentType(), rig.Key("goes")))

				cfg.DryRun, cfg.HandlerTimeout = tc.dryRun, tc.timeout
				h := new(registry)
				tc.once(t, server, cfg, h)
				slices.Sort(h.calls)
				require.Equal(t, tc.calls, slices.Compact(h.calls), tc.reason)
			})
		})
	}
}
