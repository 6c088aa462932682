package runner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/resource/k8s"
)

func TestRunner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := startRig(t, rigServer(), rigConfig(), handler.SyncFunc(copier))
		require.NoError(t, r.runner.Ready())
		r.create("one", "v1")
		synctest.Wait()
		child := r.get(k8s.ConfigMap, "one")
		require.NotNil(t, child)
		value, _ := child.Field("data", "value")
		require.Equal(t, "v1", value)
		require.Equal(t, "uid-1", child.Labels()[testTracking])
		require.Len(t, child.OwnerReferences(), 1)
		status, _ := r.get(testParentType(), "one").Field("status")
		require.Equal(t, map[string]any{"value": "v1", "children": int64(1), "observedGeneration": int64(1)}, status,
			"the status is computed from the child that was created")
		require.Equal(t, []string{"create ConfigMap ns/one", "update status Parent ns/one"}, r.server.Writes())

		elapse(time.Minute)
		requests, passes := len(r.server.Requests()), r.passes()
		elapse(3 * time.Minute) // less than a watch lasts
		require.Len(t, r.server.Requests(), requests, "a settled operator is silent")
		require.Equal(t, passes, r.passes())

		r.setSpec("one", "v2")
		value, _ = r.get(k8s.ConfigMap, "one").Field("data", "value")
		require.Equal(t, "v2", value)
		observed, _ := r.get(testParentType(), "one").Field("status", "observedGeneration")
		require.EqualValues(t, 2, observed)

		require.NoError(t, r.server.Delete(k8s.ConfigMap, rigKey("one")))
		synctest.Wait()
		require.NotNil(t, r.get(k8s.ConfigMap, "one"), "created again")
		require.NoError(t, r.server.Delete(testParentType(), rigKey("one")))
		synctest.Wait()
		_, held := r.probe.Engine().Snapshot(rigKey("one"))
		require.False(t, held)
		require.Empty(t, r.errors("one"))
		r.stop()
		require.ErrorContains(t, r.runner.Start(t.Context()), "started before")
	})
}

func TestRunner_LaggingWatchLeadsToNoSecondCreate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := startRig(t, rigServer(), rigConfig(), handler.SyncFunc(copier))
		r.server.Hold(k8s.ConfigMap)
		r.create("one", "v1")
		synctest.Wait()
		r.setSpec("one", "v2")
		r.setSpec("one", "v3")
		elapse(10 * time.Second)
		writes := r.server.Writes()
		require.Equal(t, []string{
			"create ConfigMap ns/one", "update status Parent ns/one",
			"update ConfigMap ns/one", "update status Parent ns/one",
			"update ConfigMap ns/one", "update status Parent ns/one",
		}, writes)

		// The late events tell nothing new: no pass, no write.
		passes := r.passes()
		r.server.Release()
		synctest.Wait()
		require.Equal(t, passes, r.passes())
		require.Equal(t, writes, r.server.Writes())
		require.Empty(t, r.errors("one"))
		r.stop()
	})
}

func TestRunner_EchoOfOwnWritesIsNoTrigger(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := startRig(t, rigServer(), rigConfig(), handler.SyncFunc(copier))
		r.create("one", "v1")
		elapse(time.Minute)
		require.Equal(t, 3, r.passes(), "one creates, one writes the status, one finds nothing to do")
		r.stop()
	})
}

func TestRunner_ConflictOnStatusIsNoError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := startRig(t, rigServer(), rigConfig(), handler.SyncFunc(copier))
		r.create("one", "v1")
		synctest.Wait()
		r.server.Hold(testParentType())
		r.setSpec("one", "v2") // which the operator doesn't know yet
		require.NoError(t, r.server.Delete(k8s.ConfigMap, rigKey("one")))
		r.change(testParentType(), "one", func(o map[string]any) { delete(o, "status") })
		elapse(time.Second)
		require.NotNil(t, r.get(k8s.ConfigMap, "one"))
		r.server.Release()
		synctest.Wait()
		status, _ := r.get(testParentType(), "one").Field("status", "value")
		require.Equal(t, "v2", status)
		require.Empty(t, r.errors("one"))
		require.NotContains(t, r.logs.String(), "sync failed")
		r.stop()
	})
}

func TestRunner_OneParentsPanicIsItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := startRig(t, rigServer(), rigConfig(), handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			switch value, _ := req.Parent.Field("spec", "value"); value {
			case "panics":
				panic("boom")
			case "nothing":
				return nil, nil
			case "negative":
				return &handler.SyncResponse{Resync: -1}, nil
			case "fails":
				return nil, errors.New("no luck")
			case "encoding":
				return &handler.SyncResponse{Status: panicky{}}, nil
			}
			return copier(ctx, req)
		}))
		for _, name := range []string{"panics", "nothing", "negative", "fails", "encoding", "good"} {
			r.create(name, name)
		}
		elapse(time.Second)
		require.NotNil(t, r.get(k8s.ConfigMap, "good"))
		for name, want := range map[string]string{
			"panics":   "handler: Sync: panic: boom",
			"nothing":  "handler: Sync: returned neither a response nor an error",
			"negative": "handler: Sync: Resync: -1ns is negative",
			"fails":    "handler: Sync: no luck",
			"encoding": "panic: can't be encoded",
		} {
			require.NotEmpty(t, r.errors(name), name)
			require.EqualError(t, r.errors(name)[0], want)
			require.Nil(t, r.get(k8s.ConfigMap, name))
		}
		require.Contains(t, r.logs.String(), "runner_test.go", "the stack of a panic is in the log")
		r.setSpec("panics", "better")
		elapse(time.Minute)
		require.NotNil(t, r.get(k8s.ConfigMap, "panics"))
		r.stop()
	})
}

type panicky struct{}

func (panicky) MarshalJSON() ([]byte, error) { panic("can't be encoded") }

// Passes that run when the operator is told to stop come to their end, and new
// ones don't begin.
func TestRunner_StopLetsRunningPassesFinish(t *testing.T) {
	bubble(t, func(t *testing.T) {
		started, release := make(chan string, 10), make(chan struct{})
		r := startRig(t, rigServer(), rigConfig(), handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			started <- req.Parent.Name()
			select {
			case <-release:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			return copier(ctx, req)
		}))
		r.create("one", "v1")
		require.Equal(t, "one", <-started)
		r.cancel()
		r.create("two", "v1")
		elapse(10 * time.Second)
		require.Empty(t, r.ended, "it waits for the pass")
		close(release)
		require.NoError(t, <-r.ended)
		require.NotNil(t, r.get(k8s.ConfigMap, "one"))
		require.Nil(t, r.get(k8s.ConfigMap, "two"))
		require.Empty(t, started)
		require.Empty(t, r.errors("one"))
	})
}

func TestRunner_ShutdownTimeoutCutsPassesShort(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := startRig(t, rigServer(), rigConfig(), handler.SyncFunc(func(ctx context.Context, _ *handler.SyncRequest) (*handler.SyncResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		r.create("one", "v1")
		synctest.Wait()
		begin := time.Now()
		r.stop()
		require.Equal(t, defaultShutdownTimeout, time.Since(begin))
		require.Empty(t, r.errors("one"), "it was cut short, it didn't fail")
		require.Contains(t, r.logs.String(), "shutdown timeout")
	})
}

// A context may end for a reason of its caller's.
func TestRunner_EndOfContextIsNoError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		runner, err := New(rigConfig(), handler.SyncFunc(copier), Options{RESTConfig: rigServer().RESTConfig(), Logger: discardLog()})
		require.NoError(t, err)
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		go func() { ended <- runner.Start(ctx) }()
		synctest.Wait()
		cancel(errors.New("time to go home"))
		require.NoError(t, <-ended)

		ctx, cancelled := context.WithTimeout(t.Context(), time.Second)
		defer cancelled()
		require.NoError(t, Run(ctx, rigConfig(), handler.SyncFunc(copier), Options{RESTConfig: rigServer().RESTConfig(), Logger: discardLog()}))
	})
}

func TestRunner_HandlerTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := rigConfig()
		cfg.HandlerTimeout = 5 * time.Second
		r := startRig(t, rigServer(), cfg, handler.SyncFunc(func(ctx context.Context, _ *handler.SyncRequest) (*handler.SyncResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		r.create("one", "v1")
		elapse(5 * time.Second)
		require.Len(t, r.errors("one"), 1)
		require.ErrorIs(t, r.errors("one")[0], context.DeadlineExceeded)
		r.stop()
	})
}

func TestRunner_PausedParentIsLeftAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := startRig(t, rigServer(), rigConfig(), handler.SyncFunc(copier))
		r.create("one", "v1")
		synctest.Wait()
		pause := func(value string) {
			r.change(testParentType(), "one", func(o map[string]any) {
				meta, _ := o["metadata"].(map[string]any)
				meta["annotations"] = map[string]any{"roperator.com/paused": value}
			})
		}
		pause("true")
		r.setSpec("one", "v2")
		require.NoError(t, r.server.Delete(k8s.ConfigMap, rigKey("one")))
		elapse(time.Minute)
		require.Nil(t, r.get(k8s.ConfigMap, "one"))
		pause("false")
		value, _ := r.get(k8s.ConfigMap, "one").Field("data", "value")
		require.Equal(t, "v2", value)
		r.stop()
	})
}

func TestRunner_DryRunWritesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := rigServer()
		createParent(t, server, "one", "v1")
		cfg := rigConfig()
		cfg.DryRun = true
		cfg.Finalizer = config.FinalizerAlways
		r := startRig(t, server, cfg, handler.SyncFunc(copier))
		elapse(time.Minute)
		require.Empty(t, server.Writes())
		for _, req := range server.Requests() {
			require.True(t, !req.Writes() || req.DryRun, req)
		}
		require.Contains(t, r.logs.String(), `would=create child="ConfigMap ns/one"`)
		require.NotContains(t, r.logs.String(), "status", "it follows from a child that isn't there")
		r.stop()
	})
}

// Parents that wait when the operator starts are all served, with their
// children in one place and nothing else touched.
func TestRunner_Namespaces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := rigServer()
		createParent(t, server, "one", "v1")
		other, err := server.Create(map[string]any{
			"apiVersion": testParentType().APIVersion, "kind": testParentType().Kind,
			"metadata": map[string]any{"name": "one", "namespace": "elsewhere"},
		})
		require.NoError(t, err)
		cfg := rigConfig()
		cfg.Namespaces = []string{"ns", "third"}
		cfg.Children = append(cfg.Children, config.Child{Type: k8s.Secret, Strategy: config.Replace})
		r := startRig(t, server, cfg, handler.SyncFunc(copier))
		require.NotNil(t, r.get(k8s.ConfigMap, "one"))
		require.Nil(t, server.Get(k8s.ConfigMap, other.Key()))
		watched := map[string]int{}
		for _, req := range server.Requests() {
			if req.Verb == "watch" {
				watched[req.Type.Kind+" "+req.Key.Namespace]++
			}
		}
		require.Equal(t, map[string]int{
			"Parent ns": 1, "Parent third": 1, "ConfigMap ns": 1, "ConfigMap third": 1, "Secret ns": 1, "Secret third": 1,
		}, watched)
		r.stop()
	})
}

func TestRunner_MetricsAreRegisteredOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := rigServer()
		r := startRig(t, server, rigConfig(), handler.SyncFunc(copier))
		again, err := New(rigConfig(), handler.SyncFunc(copier), Options{
			RESTConfig: fakeapi.New(fakeapi.Custom(testParentType(), "parents"), fakeapi.ConfigMaps()).RESTConfig(),
			Metrics:    r.runner.opts.Metrics, Logger: discardLog(),
		})
		require.NoError(t, err)
		require.Error(t, again.Start(t.Context()))
		r.stop()
	})
}
