package runner

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/resource/k8s"
)

// selecting is the configuration of an operator that has a finalizer, and is
// for the parents with the label mine=yes.
func selecting() config.Operator {
	cfg := rigConfig()
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
	bubble(t, func(t *testing.T) {
		r := startRig(t, rigServer(), selecting(), handler.SyncFunc(copier))
		r.create("one", "v1")
		synctest.Wait()
		require.Empty(t, r.server.Writes(), "it isn't selected")
		r.change(testParentType(), "one", label("yes"))
		require.Equal(t, []string{"roperator.com/op"}, r.get(testParentType(), "one").Finalizers())
		require.NotNil(t, r.get(k8s.ConfigMap, "one"))

		r.change(testParentType(), "one", label("no"))
		require.Empty(t, r.get(testParentType(), "one").Finalizers(), "it needn't wait for an operator that no longer cares")
		require.NotNil(t, r.get(k8s.ConfigMap, "one"), "its children stay")
		writes := r.server.Writes()
		r.change(k8s.ConfigMap, "one", func(o map[string]any) { o["data"] = map[string]any{"value": "drifted"} })
		r.setSpec("one", "v2")
		elapse(time.Minute)
		require.Equal(t, writes, r.server.Writes(), "what happens to it is no longer this operator's business")
		_, held := r.probe.Engine().Observed(testParentType(), rigKey("one"))
		require.False(t, held)

		r.change(testParentType(), "one", label("yes"))
		require.Equal(t, []string{"roperator.com/op"}, r.get(testParentType(), "one").Finalizers(), "it is back")
		value, _ := r.get(k8s.ConfigMap, "one").Field("data", "value")
		require.Equal(t, "v2", value)
		r.stop()
	})
}

// The label goes after the operator has read the parent and before its
// finalizer is added: a finalizer then would never be taken off again.
func TestDeparted_WhileTheFinalizerIsAdded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := rigServer()
		r := startRig(t, server, selecting(), handler.SyncFunc(copier))
		server.Hold(testParentType())
		r.create("one", "v1")
		r.change(testParentType(), "one", label("yes"))
		moved := false
		server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
			if req.Verb == "patch" && !moved {
				moved = true
				_, err := server.Change(testParentType(), rigKey("one"), label("no"))
				return err
			}
			return nil
		}})
		server.Release()
		elapse(time.Minute)
		require.True(t, moved)
		require.Empty(t, r.get(testParentType(), "one").Finalizers())
		require.Nil(t, r.get(k8s.ConfigMap, "one"))
		_, held := r.probe.Engine().Observed(testParentType(), rigKey("one"))
		require.False(t, held)
		r.stop()
	})
}

// A parent that comes back while it is being released keeps its finalizer.
func TestDeparted_BackDuringTheRelease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		server := rigServer()
		r := startRig(t, server, selecting(), handler.SyncFunc(copier))
		r.create("one", "v1")
		r.change(testParentType(), "one", label("yes"))
		back := false
		server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
			if req.Verb == "patch" && !back {
				back = true
				_, err := server.Change(testParentType(), rigKey("one"), label("yes"))
				return err
			}
			return nil
		}})
		r.change(testParentType(), "one", label("no"))
		elapse(time.Minute)
		require.True(t, back)
		require.Equal(t, []string{"roperator.com/op"}, r.get(testParentType(), "one").Finalizers())
		patches := 0
		for _, req := range server.Requests() {
			if req.Verb == "patch" && req.Type == testParentType() {
				patches++
			}
		}
		require.Equal(t, 2, patches, "one added it, one was in vain")
		r.stop()
	})
}

func TestDeparted_DeletedParentIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		finalized := 0
		r := startRig(t, rigServer(), selecting(), handler.Funcs{
			SyncFunc: copier,
			FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
				finalized++
				return &handler.FinalizeResponse{Finalized: true}, nil
			},
		})
		r.create("one", "v1")
		r.change(testParentType(), "one", label("yes"))
		require.NoError(t, r.server.Delete(testParentType(), rigKey("one")))
		elapse(time.Minute)
		require.Equal(t, 1, finalized)
		require.Nil(t, r.get(testParentType(), "one"))
		engine, _ := r.probe.Engine().(*probed)
		require.Empty(t, engine.store.mu.departed)
		require.Empty(t, engine.store.mu.parents)
		require.Empty(t, engine.memory.mu.parents)
		r.stop()
	})
}
