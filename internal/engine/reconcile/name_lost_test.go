package reconcile_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// sharing is a handler whose parents all want a ConfigMap of the same name.
func sharing(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	value, _ := req.Parent.Field("spec", "value")
	return &handler.SyncResponse{
		Status:   map[string]any{"children": req.Children.Len()},
		Children: []any{rig.Copied("shared", value)},
	}, nil
}

// childrenOf returns what the status of a parent says of its children.
func childrenOf(r *rig.Rig, name string) any {
	n, _ := r.Get(sample.ParentType(), name).Field("status", "children")
	return n
}

// holderOf returns the name of the parent that has the ConfigMap "shared".
func holderOf(t *testing.T, r *rig.Rig) string {
	t.Helper()
	child := r.Get(k8s.ConfigMap, "shared")
	require.NotNil(t, child)
	return object.ControllerOf(child).Name
}

// The child of one parent is deleted, and another parent takes the name before the
// watch tells of the deletion. The watch's event names an object that the store
// doesn't hold any more, so the write has to tell the loser.
func TestNameLost_BeforeTheWatchTells(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := rig.Start(t, rig.Server(), rig.Config(), handler.SyncFunc(sharing))
		r.Create("loser", "v1")
		rig.Elapse(time.Second)
		r.Create("winner", "v2")
		rig.Elapse(time.Second)
		require.Equal(t, "loser", holderOf(t, r))
		require.Equal(t, int64(1), childrenOf(r, "loser"))

		r.Server.Hold(k8s.ConfigMap)
		require.NoError(t, r.Server.Delete(k8s.ConfigMap, rig.Key("shared")))
		rig.Elapse(time.Hour) // in which the winner tries again
		require.Equal(t, "winner", holderOf(t, r))
		r.Server.Release()
		rig.Elapse(time.Hour)
		require.Equal(t, int64(0), childrenOf(r, "loser"), "it has heard of its loss")
		require.ErrorContains(t, r.Errors("loser")[0], "already exists")

		require.NoError(t, r.Server.Delete(sample.ParentType(), rig.Key("winner")))
		require.NoError(t, r.Server.Delete(k8s.ConfigMap, rig.Key("shared")))
		rig.Elapse(time.Second)
		require.Equal(t, "loser", holderOf(t, r), "the name is free")
		require.Equal(t, int64(1), childrenOf(r, "loser"))
		r.Stop()
	})
}

// A parent waits, without a timer, for the end of an object that is being deleted.
// The object ends, and another parent takes its name, before the watch tells.
func TestNameLost_ByOneThatWaits(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		r := rig.Start(t, server, rig.Config(), handler.SyncFunc(sharing))
		r.Create("first", "v1")
		rig.Elapse(time.Second)
		finalized := func(held ...any) func(map[string]any) {
			return func(o map[string]any) {
				meta, _ := o["metadata"].(map[string]any)
				meta["finalizers"] = held
			}
		}
		r.Change(k8s.ConfigMap, "shared", finalized("example.com/busy"))
		require.NoError(t, server.Delete(sample.ParentType(), rig.Key("first")))
		require.NoError(t, server.Delete(k8s.ConfigMap, rig.Key("shared")))
		r.Create("waiting", "v2")
		rig.Elapse(time.Minute)
		require.Equal(t, int64(0), childrenOf(r, "waiting"))
		require.Empty(t, r.Errors("waiting"), "it waits")

		server.Hold(k8s.ConfigMap)
		r.Change(k8s.ConfigMap, "shared", finalized())
		require.Nil(t, r.Get(k8s.ConfigMap, "shared"))
		r.Create("winner", "v3")
		rig.Elapse(time.Minute)
		require.Equal(t, "winner", holderOf(t, r))
		server.Release()
		rig.Elapse(time.Minute)
		require.NotEmpty(t, r.Errors("waiting"), "what it waited for has ended, and its name is taken")
		require.ErrorContains(t, r.Errors("waiting")[0], "its controller is Parent winner")
		require.Empty(t, r.Errors("winner"))
		r.Stop()
	})
}
