package reconcile_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
)

// hangs returns a handler that doesn't heed its context. Its calls for parents whose names
// begin with "hangs" return when goOn is closed.
func hangs(goOn <-chan struct{}) handler.Handler {
	return handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		if strings.HasPrefix(req.Parent.Name(), "hangs") {
			awaitWord(goOn)
		}
		return rig.Copier(ctx, req)
	})
}

// awaitWord returns when goOn is closed. Stacks have its name.
//
//go:noinline
func awaitWord(goOn <-chan struct{}) { <-goOn }

// told returns how often a text is in the log.
func told(r *rig.Rig, text string) int { return strings.Count(r.Logs.String(), text) }

// A pass that takes long was told of nowhere: neither in the log, nor by a metric or a
// probe.
func TestLongPass(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		goOn := make(chan struct{})
		release := sync.OnceFunc(func() { close(goOn) })
		defer release() // if the test fails before
		r := rig.Start(t, rig.Server(), rig.Config(), hangs(goOn))
		r.Create("good", "v")
		r.Create("hangs", "v")
		const line = `msg="pass takes long"`
		rig.Elapse(59 * time.Second)
		require.Zero(t, told(r, line))
		require.Equal(t, 59, value(r, "roperator_longest_running_sync_seconds", ""))
		require.Zero(t, value(r, "roperator_syncs_long_running", ""))
		rig.Elapse(time.Second)
		require.Equal(t, 1, told(r, line))
		require.Regexp(t, `level=WARN msg="pass takes long" controller=op syncID=\w{8} namespace=ns name=hangs duration=1m0s calls=Sync stack="#\\t0x[0-9a-f]+\\t[^"]*reconcile_test\.awaitWord\+0x[0-9a-f]+(\\t)+[^"]*long_passes_test\.go:\d+\\n`, r.Logs.String())
		require.Equal(t, 1, value(r, "roperator_syncs_long_running", ""))
		require.NoError(t, r.Manager.Ready())
		require.NotContains(t, r.Logs.String(), "reconcile.(*answer", "the engine's own frames are left out")
		rig.Elapse(time.Minute)
		require.Equal(t, 2, told(r, line), "when the time has doubled")
		require.Equal(t, 2, told(r, "reconcile_test.awaitWord"))
		rig.Elapse(8*time.Minute - time.Second)
		require.Equal(t, 4, told(r, line), "at 4 and 8 minutes")
		require.NoError(t, r.Manager.Ready())
		rig.Elapse(time.Second)
		require.EqualError(t, r.Manager.Ready(), "Parent ns/hangs: its pass has been under way for 10m0s, and the handler's Sync hasn't returned")
		require.NoError(t, r.Manager.Healthy(), "a restart would end the other passes too")
		rig.Elapse(6 * time.Minute)
		require.Equal(t, 5, told(r, line))
		require.Contains(t, r.Logs.String(), `level=ERROR msg="pass takes long"`)
		require.Zero(t, told(r, "every worker"))

		release()
		rig.Elapse(time.Second)
		require.NoError(t, r.Manager.Ready())
		require.Zero(t, value(r, "roperator_longest_running_sync_seconds", ""))
		require.Zero(t, value(r, "roperator_syncs_long_running", ""))
		rig.Elapse(time.Hour)
		require.Equal(t, 5, told(r, line))
		r.Stop()
	})
}

// Handlers that hung in every worker stopped all service, and nothing said so.
func TestLongPass_EveryWorker(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		goOn := make(chan struct{})
		release := sync.OnceFunc(func() { close(goOn) })
		defer release() // if the test fails before
		cfg := rig.Config()
		cfg.MaxConcurrentSyncs = 30
		r := rig.Start(t, rig.Server(), cfg, hangs(goOn))
		for i := range 30 {
			r.Create(fmt.Sprintf("hangs-%02d", i), "v")
			rig.Elapse(time.Second)
		}
		r.Create("good", "v")
		const line = "every worker makes a pass that takes long: no other parent is served"
		rig.Elapse(58 * time.Second)
		require.Zero(t, told(r, line), "one of them hasn't taken long yet")
		rig.Elapse(time.Second)
		require.Equal(t, 1, told(r, line))
		require.Equal(t, 30, told(r, `msg="pass takes long"`))
		require.Equal(t, 30, told(r, "reconcile_test.awaitWord"), "each with its own stack")
		require.Equal(t, value(r, "roperator_syncs_max", ""), value(r, "roperator_syncs_long_running", ""))
		rig.Elapse(20 * time.Minute)
		require.Equal(t, 1, told(r, line), "once")
		said := r.Manager.Ready().Error()
		require.Equal(t, 20, strings.Count(said, "has been under way"), "no more than a text may list")
		require.Contains(t, said, "Parent ns/hangs-00: its pass", "the oldest ones")
		require.Contains(t, said, "and 10 more")
		release()
		rig.Elapse(2 * time.Minute)
		require.NoError(t, r.Manager.Ready())
		require.Empty(t, r.Errors("good"))
		r.Stop()
	})
}

// It isn't only the handler that may keep a pass: the API server may never answer. A
// parent that is let go has a pass without a call of the handler.
func TestLongPass_WithoutAnswer(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		goOn := make(chan struct{})
		release := sync.OnceFunc(func() { close(goOn) })
		defer release() // if the test fails before
		cfg := rig.Config()
		cfg.ParentSelector = "mine"
		r := rig.Start(t, rig.Server(), cfg, handler.Funcs{SyncFunc: rig.Copier, FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
			return &handler.FinalizeResponse{Finalized: true}, nil
		}})
		for _, name := range []string{"writes", "leaves"} {
			_, err := r.Server.Create(map[string]any{
				"apiVersion": sample.ParentType().APIVersion, "kind": sample.ParentType().Kind, "spec": map[string]any{"value": "v"},
				"metadata": map[string]any{"name": name, "namespace": "ns", "labels": map[string]any{"mine": ""}},
			})
			require.NoError(t, err)
		}
		rig.Elapse(time.Second)
		r.Server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
			if req.Writes() {
				<-goOn
			}
			return nil
		}})
		r.Change(sample.ParentType(), "leaves", func(o map[string]any) {
			if metadata, ok := o["metadata"].(map[string]any); ok {
				delete(metadata, "labels")
			}
		})
		r.SetSpec("writes", "v2")
		rig.Elapse(10 * time.Minute)
		require.EqualError(t, r.Manager.Ready(),
			"Parent ns/leaves: its pass has been under way for 10m0s\nParent ns/writes: its pass has been under way for 10m0s")
		require.Regexp(t, `msg="pass takes long" controller=op namespace=ns name=leaves duration=8m0s\n`, r.Logs.String())
		release()
		synctest.Wait()
		require.NoError(t, r.Manager.Ready())
		r.Stop()
	})
}
