package reconcile_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// selecting is the configuration of an operator that has a finalizer, and is
// for the parents with the label mine=yes.
func selecting() config.Operator {
	cfg := rig.Config()
	cfg.Finalizer, cfg.ParentSelector = config.FinalizerAlways, "mine=yes"
	return cfg
}

func label(value string) func(map[string]any) {
	return func(o map[string]any) {
		meta, _ := o["metadata"].(map[string]any)
		meta["labels"] = map[string]any{"mine": value}
	}
}

func TestDeparted_ParentIsReleasedAndForgotten(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := rig.Start(t, rig.Server(), selecting(), handler.SyncFunc(rig.Copier))
		r.Create("one", "v1")
		synctest.Wait()
		require.Empty(t, r.Server.Writes(), "it isn't selected")
		r.Change(sample.ParentType(), "one", label("yes"))
		require.Equal(t, []string{"roperator.com/op"}, r.Get(sample.ParentType(), "one").Finalizers())
		require.NotNil(t, r.Get(k8s.ConfigMap, "one"))

		r.Change(sample.ParentType(), "one", label("no"))
		require.Empty(t, r.Get(sample.ParentType(), "one").Finalizers(), "it needn't wait for an operator that no longer cares")
		require.NotNil(t, r.Get(k8s.ConfigMap, "one"), "its children stay")
		writes := r.Server.Writes()
		r.Change(k8s.ConfigMap, "one", func(o map[string]any) { o["data"] = map[string]any{"value": "drifted"} })
		r.SetSpec("one", "v2")
		rig.Elapse(time.Minute)
		require.Equal(t, writes, r.Server.Writes(), "what happens to it is no longer this operator's business")
		_, held := r.Manager.Engine().Observed(sample.ParentType(), rig.Key("one"))
		require.False(t, held)

		r.Change(sample.ParentType(), "one", label("yes"))
		require.Equal(t, []string{"roperator.com/op"}, r.Get(sample.ParentType(), "one").Finalizers(), "it is back")
		value, _ := r.Get(k8s.ConfigMap, "one").Field("data", "value")
		require.Equal(t, "v2", value)
		r.Stop()
	})
}

// The label goes after the operator has read the parent and before its
// finalizer is added: a finalizer then would never be taken off again.
func TestDeparted_WhileTheFinalizerIsAdded(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		r := rig.Start(t, server, selecting(), handler.SyncFunc(rig.Copier))
		server.Hold(sample.ParentType())
		r.Create("one", "v1")
		r.Change(sample.ParentType(), "one", label("yes"))
		moved := false
		server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
			if req.Verb == "patch" && !moved {
				moved = true
				_, err := server.Change(sample.ParentType(), rig.Key("one"), label("no"))
				return err
			}
			return nil
		}})
		server.Release()
		rig.Elapse(time.Minute)
		require.True(t, moved)
		require.Empty(t, r.Get(sample.ParentType(), "one").Finalizers())
		require.Nil(t, r.Get(k8s.ConfigMap, "one"))
		_, held := r.Manager.Engine().Observed(sample.ParentType(), rig.Key("one"))
		require.False(t, held)
		r.Stop()
	})
}

// A parent that comes back while it is being released keeps its finalizer.
func TestDeparted_BackDuringTheRelease(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		r := rig.Start(t, server, selecting(), handler.SyncFunc(rig.Copier))
		r.Create("one", "v1")
		r.Change(sample.ParentType(), "one", label("yes"))
		back := false
		server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
			if req.Verb == "patch" && !back {
				back = true
				_, err := server.Change(sample.ParentType(), rig.Key("one"), label("yes"))
				return err
			}
			return nil
		}})
		r.Change(sample.ParentType(), "one", label("no"))
		rig.Elapse(time.Minute)
		require.True(t, back)
		require.Equal(t, []string{"roperator.com/op"}, r.Get(sample.ParentType(), "one").Finalizers())
		patches := 0
		for _, req := range server.Requests() {
			if req.Verb == "patch" && req.Type == sample.ParentType() {
				patches++
			}
		}
		require.Equal(t, 2, patches, "one added it, one was in vain")
		r.Stop()
	})
}

func TestDeparted_DeletedParentIsForgotten(t *testing.T) {
	for name, late := range map[string]time.Duration{"AnswerFirst": 0, "WatchFirst": time.Second} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, finalized := rig.Server(), 0
				server.SetHooks(fakeapi.Hooks{After: func(req fakeapi.Request) error {
					if req.Verb == "patch" {
						<-time.After(late)
					}
					return nil
				}})
				if late == 0 { // the watch tells once the operator has the answer
					server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
						if req.Verb == "patch" && finalized > 0 {
							server.Hold(sample.ParentType())
						}
						return nil
					}})
				}
				r := rig.Start(t, server, selecting(), handler.Funcs{
					SyncFunc: rig.Copier,
					FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
						finalized++
						return &handler.FinalizeResponse{Finalized: true}, nil
					},
				})
				r.Create("one", "v1")
				r.Change(sample.ParentType(), "one", label("yes"))
				rig.Elapse(2 * time.Second)
				require.NoError(t, server.Delete(sample.ParentType(), rig.Key("one")))
				rig.Elapse(2 * time.Second)
				server.Release()
				rig.Elapse(time.Minute)
				require.Equal(t, 1, finalized)
				require.Nil(t, r.Get(sample.ParentType(), "one"))
				sizes := r.Manager.Engine().Sizes()
				for _, what := range []string{"departed", "parents by UID", "remembered parents"} {
					require.Contains(t, sizes, what)
					require.Zero(t, sizes[what], what)
				}
				r.Stop()
			})
		})
	}
}

// Between two lists somebody gives parents a finalizer of the operator and takes them out
// of the selector. No watch has delivered that state. One list finds all of them.
func TestDeparted_Unseen(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		cfg := selecting()
		cfg.Finalizer, cfg.FormerFinalizers = config.FinalizerAuto, []string{"example.com/former"}
		server := rig.Server()
		r := rig.Start(t, server, cfg, handler.SyncFunc(rig.Copier))
		names := []string{"a", "b", "c"}
		for _, name := range names {
			parentWith(t, server, name, "yes")
		}
		rig.Elapse(time.Minute)
		server.Hold(sample.ParentType())
		for _, name := range names {
			_, err := server.Change(sample.ParentType(), rig.Key(name), func(o map[string]any) {
				label("no")(o)
				o["metadata"].(map[string]any)["finalizers"] = []any{"example.com/former"}
			})
			require.NoError(t, err)
		}
		server.Compact()
		server.BreakWatches()
		server.Release()
		before := len(server.Requests())
		rig.Elapse(time.Minute)
		for _, name := range names {
			require.Empty(t, r.Get(sample.ParentType(), name).Finalizers())
		}
		lists := 0
		for _, req := range server.Requests()[before:] {
			if req.Verb == "list" && req.Type == sample.ParentType() && !req.Query.Has("labelSelector") && req.Query.Get("limit") != "1" { // S356
				lists++
			}
		}
		require.LessOrEqual(t, lists, 2, "not one for each")
		require.Zero(t, r.Manager.Engine().Sizes()["departed"])
		r.Stop()
	})
}
