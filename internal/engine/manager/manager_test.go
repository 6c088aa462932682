package manager_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/defaults"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

func TestRunner(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := rig.Start(t, rig.Server(), rig.Config(), handler.SyncFunc(rig.Copier))
		require.NoError(t, r.Manager.Ready())
		r.Create("one", "v1")
		synctest.Wait()
		child := r.Get(k8s.ConfigMap, "one")
		require.NotNil(t, child)
		value, _ := child.Field("data", "value")
		require.Equal(t, "v1", value)
		require.Equal(t, "uid-1", child.Labels()[sample.TrackingLabel])
		require.Len(t, child.OwnerReferences(), 1)
		status, _ := r.Get(sample.ParentType(), "one").Field("status")
		require.Equal(t, map[string]any{"value": "v1", "children": int64(1), "observedGeneration": int64(1)}, status,
			"the status is computed from the child that was created")
		require.Equal(t, []string{"create ConfigMap ns/one", "update status Parent ns/one"}, r.Server.Writes())

		rig.Elapse(time.Minute)
		requests, passes := len(r.Server.Requests()), r.Passes()
		rig.Elapse(3 * time.Minute) // less than a watch lasts
		require.Len(t, r.Server.Requests(), requests, "a settled operator is silent")
		require.Equal(t, passes, r.Passes())

		r.SetSpec("one", "v2")
		value, _ = r.Get(k8s.ConfigMap, "one").Field("data", "value")
		require.Equal(t, "v2", value)
		observed, _ := r.Get(sample.ParentType(), "one").Field("status", "observedGeneration")
		require.EqualValues(t, 2, observed)

		require.NoError(t, r.Server.Delete(k8s.ConfigMap, rig.Key("one")))
		synctest.Wait()
		require.NotNil(t, r.Get(k8s.ConfigMap, "one"), "created again")
		require.NoError(t, r.Server.Delete(sample.ParentType(), rig.Key("one")))
		synctest.Wait()
		_, held := r.Manager.Engine().Snapshot(rig.Key("one"))
		require.False(t, held)
		require.Empty(t, r.Errors("one"))
		r.Stop()
		require.ErrorContains(t, r.Manager.Start(t.Context()), "started before")
	})
}

func TestRunner_LaggingWatchLeadsToNoSecondCreate(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := rig.Start(t, rig.Server(), rig.Config(), handler.SyncFunc(rig.Copier))
		r.Server.Hold(k8s.ConfigMap)
		r.Create("one", "v1")
		synctest.Wait()
		r.SetSpec("one", "v2")
		r.SetSpec("one", "v3")
		rig.Elapse(10 * time.Second)
		writes := r.Server.Writes()
		require.Equal(t, []string{
			"create ConfigMap ns/one", "update status Parent ns/one",
			"update ConfigMap ns/one", "update status Parent ns/one",
			"update ConfigMap ns/one", "update status Parent ns/one",
		}, writes)

		// The late events tell nothing new: no pass, no write.
		passes := r.Passes()
		r.Server.Release()
		synctest.Wait()
		require.Equal(t, passes, r.Passes())
		require.Equal(t, writes, r.Server.Writes())
		require.Empty(t, r.Errors("one"))
		r.Stop()
	})
}

func TestRunner_EchoOfOwnWritesIsNoTrigger(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := rig.Start(t, rig.Server(), rig.Config(), handler.SyncFunc(rig.Copier))
		r.Create("one", "v1")
		rig.Elapse(time.Minute)
		require.Equal(t, 3, r.Passes(), "one creates, one writes the status, one finds nothing to do")
		r.Stop()
	})
}

func TestRunner_ConflictOnStatusIsNoError(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := rig.Start(t, rig.Server(), rig.Config(), handler.SyncFunc(rig.Copier))
		r.Create("one", "v1")
		synctest.Wait()
		r.Server.Hold(sample.ParentType())
		r.SetSpec("one", "v2") // which the operator doesn't know yet
		require.NoError(t, r.Server.Delete(k8s.ConfigMap, rig.Key("one")))
		r.Change(sample.ParentType(), "one", func(o map[string]any) { delete(o, "status") })
		rig.Elapse(time.Second)
		require.NotNil(t, r.Get(k8s.ConfigMap, "one"))
		r.Server.Release()
		synctest.Wait()
		status, _ := r.Get(sample.ParentType(), "one").Field("status", "value")
		require.Equal(t, "v2", status)
		require.Empty(t, r.Errors("one"))
		require.NotContains(t, r.Logs.String(), "sync failed")
		r.Stop()
	})
}

func TestRunner_OneParentsPanicIsItsOwn(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := rig.Start(t, rig.Server(), rig.Config(), handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
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
			return rig.Copier(ctx, req)
		}))
		for _, name := range []string{"panics", "nothing", "negative", "fails", "encoding", "good"} {
			r.Create(name, name)
		}
		rig.Elapse(time.Second)
		require.NotNil(t, r.Get(k8s.ConfigMap, "good"))
		for name, want := range map[string]string{
			"panics":   "handler: Sync: panic: boom",
			"nothing":  "handler: Sync: returned neither a response nor an error",
			"negative": "handler: Sync: Resync: -1ns is negative",
			"fails":    "handler: Sync: no luck",
			"encoding": "invalid response: Parent ns/encoding: status: panic: can't be encoded",
		} {
			require.NotEmpty(t, r.Errors(name), name)
			require.EqualError(t, r.Errors(name)[0], want)
			require.Nil(t, r.Get(k8s.ConfigMap, name))
		}
		require.Contains(t, r.Logs.String(), "manager_test.go", "the stack of a panic is in the log")
		r.SetSpec("panics", "better")
		rig.Elapse(time.Minute)
		require.NotNil(t, r.Get(k8s.ConfigMap, "panics"))
		r.Stop()
	})
}

type panicky struct{}

func (panicky) MarshalJSON() ([]byte, error) { panic("can't be encoded") }

// Passes that run when the operator is told to stop come to their end, and new
// ones don't begin.
func TestRunner_StopLetsRunningPassesFinish(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		started, release := make(chan string, 10), make(chan struct{})
		r := rig.Start(t, rig.Server(), rig.Config(), handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			started <- req.Parent.Name()
			select {
			case <-release:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			return rig.Copier(ctx, req)
		}))
		r.Create("one", "v1")
		require.Equal(t, "one", <-started)
		r.Cancel()
		r.Create("two", "v1")
		rig.Elapse(10 * time.Second)
		require.Empty(t, r.Ended, "it waits for the pass")
		close(release)
		require.NoError(t, <-r.Ended)
		require.NotNil(t, r.Get(k8s.ConfigMap, "one"))
		require.Nil(t, r.Get(k8s.ConfigMap, "two"))
		require.Empty(t, started)
		require.Empty(t, r.Errors("one"))
	})
}

func TestRunner_ShutdownTimeoutCutsPassesShort(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := rig.Start(t, rig.Server(), rig.Config(), handler.SyncFunc(func(ctx context.Context, _ *handler.SyncRequest) (*handler.SyncResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		r.Create("one", "v1")
		synctest.Wait()
		begin := time.Now()
		r.Stop()
		require.Equal(t, defaults.ShutdownTimeout, time.Since(begin))
		require.Empty(t, r.Errors("one"), "it was cut short, it didn't fail")
		require.Contains(t, r.Logs.String(), "shutdown timeout")
	})
}

// A context may end for a reason of its caller's.
func TestRunner_EndOfContextIsNoError(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		runner, err := rig.NewOne(rig.Config(), handler.SyncFunc(rig.Copier), manager.Options{RESTConfig: rig.Server().RESTConfig(), Logger: sample.DiscardLog()})
		require.NoError(t, err)
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		go func() { ended <- runner.Start(ctx) }()
		synctest.Wait()
		cancel(errors.New("time to go home"))
		require.NoError(t, <-ended)

		ctx, cancelled := context.WithTimeout(t.Context(), time.Second)
		defer cancelled()
		require.NoError(t, rig.RunOne(ctx, rig.Config(), handler.SyncFunc(rig.Copier), manager.Options{RESTConfig: rig.Server().RESTConfig(), Logger: sample.DiscardLog()}))
	})
}

// TestRunner_HandlerTimeout: an error for lack of time names the setting that gave it, if it was that one.
func TestRunner_HandlerTimeout(t *testing.T) {
	own := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		<-ctx.Done()
		return ctx.Err()
	}
	for name, tc := range map[string]struct {
		fails func(ctx context.Context) error
		says  string
	}{
		"The operator's": {func(ctx context.Context) error { <-ctx.Done(); return fmt.Errorf("look up: %w", ctx.Err()) }, "handler: Sync: look up: context deadline exceeded (HandlerTimeout is 5s)"},
		"The handler's":  {own, "handler: Sync: context deadline exceeded"},
		"Another error":  {func(ctx context.Context) error { <-ctx.Done(); return errors.New("no route") }, "handler: Sync: no route"},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				cfg := rig.Config()
				cfg.HandlerTimeout = 5 * time.Second
				r := rig.Start(t, rig.Server(), cfg, handler.SyncFunc(func(ctx context.Context, _ *handler.SyncRequest) (*handler.SyncResponse, error) {
					return nil, tc.fails(ctx)
				}))
				r.Create("one", "v1")
				rig.Elapse(6 * time.Second)
				require.NotEmpty(t, r.Errors("one"))
				require.EqualError(t, r.Errors("one")[0], tc.says)
				require.Equal(t, strings.Contains(tc.says, "deadline"), errors.Is(r.Errors("one")[0], context.DeadlineExceeded))
				r.Stop()
			})
		})
	}
}

func TestRunner_PausedParentIsLeftAlone(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := rig.Start(t, rig.Server(), rig.Config(), handler.SyncFunc(rig.Copier))
		r.Create("one", "v1")
		synctest.Wait()
		pause := func(value string) {
			r.Change(sample.ParentType(), "one", func(o map[string]any) {
				meta, _ := o["metadata"].(map[string]any)
				meta["annotations"] = map[string]any{"roperator.com/paused": value}
			})
		}
		pause("true")
		r.SetSpec("one", "v2")
		require.NoError(t, r.Server.Delete(k8s.ConfigMap, rig.Key("one")))
		rig.Elapse(time.Minute)
		require.Nil(t, r.Get(k8s.ConfigMap, "one"))
		pause("false")
		value, _ := r.Get(k8s.ConfigMap, "one").Field("data", "value")
		require.Equal(t, "v2", value)
		r.Stop()
	})
}

func TestRunner_DryRunWritesNothing(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		rig.CreateParent(t, server, "one", "v1")
		cfg := rig.Config()
		cfg.DryRun = true
		cfg.Finalizer = config.FinalizerAlways
		r := rig.Start(t, server, cfg, handler.SyncFunc(rig.Copier))
		rig.Elapse(time.Minute)
		require.Empty(t, server.Writes())
		for _, req := range server.Requests() {
			require.True(t, !req.Writes() || req.DryRun, req)
		}
		require.Contains(t, r.Logs.String(), `would=create child="ConfigMap ns/one"`)
		require.NotContains(t, r.Logs.String(), "status", "it follows from a child that isn't there")
		r.Stop()
	})
}

// Parents that wait when the operator starts are all served, with their
// children in one place and nothing else touched.
func TestRunner_Namespaces(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		rig.CreateParent(t, server, "one", "v1")
		other, err := server.Create(map[string]any{
			"apiVersion": sample.ParentType().APIVersion, "kind": sample.ParentType().Kind,
			"metadata": map[string]any{"name": "one", "namespace": "elsewhere"},
		})
		require.NoError(t, err)
		cfg := rig.Config()
		cfg.Namespaces = []string{"ns", "third"}
		cfg.Children = append(cfg.Children, config.Child{Type: k8s.Secret, Strategy: config.Replace})
		r := rig.Start(t, server, cfg, handler.SyncFunc(rig.Copier))
		require.NotNil(t, r.Get(k8s.ConfigMap, "one"))
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
		r.Stop()
	})
}

func TestRunner_MetricsAreRegisteredOnce(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		r := rig.Start(t, server, rig.Config(), handler.SyncFunc(rig.Copier))
		again, err := rig.NewOne(rig.Config(), handler.SyncFunc(rig.Copier), manager.Options{
			RESTConfig: fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"), fakeapi.ConfigMaps()).RESTConfig(),
			Metrics:    observe.NewRegistry(r.Registry), Logger: sample.DiscardLog(),
		})
		require.NoError(t, err)
		require.Error(t, again.Start(t.Context()))
		r.Stop()
	})
}

// Somebody who runs the operator again, after a lost lease say, has one registry.
func TestRunner_MetricsAreTakenOutOfTheRegistry(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		server := rig.Server()
		rig.CreateParent(t, server, "one", "v1")
		opts := manager.Options{RESTConfig: server.RESTConfig(), Metrics: observe.NewRegistry(registry), Logger: sample.DiscardLog()}
		count := func() int {
			families, err := registry.Gather()
			require.NoError(t, err)
			return len(families)
		}
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- rig.RunOne(ctx, rig.Config(), handler.SyncFunc(rig.Copier), opts) }()
			synctest.Wait()
			require.NotZero(t, count())
			cancel()
			require.NoError(t, <-ended)
			require.Zero(t, count(), "what has ended has no metrics")
		}
		dry := rig.Config()
		dry.DryRun = true
		for range 2 {
			m, err := rig.NewOne(dry, handler.SyncFunc(rig.Copier), opts)
			require.NoError(t, err)
			_, err = m.Plan(t.Context())
			require.NoError(t, err)
			require.Zero(t, count(), "after a plan")
		}
		two := rig.Config()
		two.Name, two.Parent.Kind = "two", "Other"
		for range 2 {
			err := rig.RunAll(t.Context(), opts, manager.Spec{Config: rig.Config(), Handler: handler.SyncFunc(rig.Copier)}, manager.Spec{Config: two, Handler: handler.SyncFunc(rig.Copier)})
			require.ErrorContains(t, err, "the API server doesn't serve this type")
			require.NotContains(t, err.Error(), "metrics")
			require.Zero(t, count(), "after a start that failed")
		}
	})
}
