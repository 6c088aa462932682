package conformance

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

func TestC1_ParentWithChildConverges(t *testing.T) {
	scenario(t, "C1", "a parent with a child converges, deleting the parent removes both")
	needsControllerManager(t)
	cfg := operator("c1", config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	kit := testkit.New(t, cluster, cfg, handler.SyncFunc(copier))
	it := parent("one", withData("color", "red"))
	kit.Create(it)
	kit.Eventually(configMap("one", "color", "red"), patience)
	kit.Eventually(map[string]any{
		"apiVersion": parentType.APIVersion, "kind": parentType.Kind, "metadata": map[string]any{"name": "one"},
		"status": map[string]any{"children": 1, "observedGeneration": 1},
	}, patience)
	settle(t, kit)

	live, child := kit.Get(it), kit.Get(configMap("one", "", ""))
	require.Empty(t, live.Finalizers(), "there is nothing to finalize")
	require.Equal(t, string(live.UID()), child.Labels()["roperator.com/parent-uid"])
	require.Equal(t, "c1", child.Labels()["roperator.com/operator"])
	require.Len(t, child.OwnerReferences(), 1)
	owner := child.OwnerReferences()[0]
	require.Equal(t, live.UID(), owner.UID)
	require.True(t, *owner.Controller)
	require.True(t, *owner.BlockOwnerDeletion)
	require.Equal(t, []string{"create"}, verbs(kit.Writes(), "ConfigMap", "one"))

	it = parent("one", withData("color", "blue"))
	kit.Update(it)
	kit.Eventually(configMap("one", "color", "blue"), patience)
	settle(t, kit)
	require.Equal(t, child.UID(), kit.Get(child).UID(), "an update in place")
	require.Equal(t, []string{"create", "update"}, verbs(kit.Writes(), "ConfigMap", "one"))

	kit.Delete(it)
	kit.EventuallyGone(it, patience)
	kit.EventuallyGone(child, patience)
	settle(t, kit)
	require.Empty(t, kit.HandlerErrors(it))
	require.Nil(t, kit.Snapshot(it))
}

func TestC2_FailingHandlerIsRetried(t *testing.T) {
	scenario(t, "C2", "a failing handler is retried and disturbs no other parent")
	broken := errors.New("the handler says no")
	sync := func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		if fail, _ := req.Parent.Field("spec", "fail"); fail == true {
			return nil, broken
		}
		return copier(ctx, req)
	}
	cfg := operator("c2", config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	kit := testkit.New(t, cluster, cfg, handler.SyncFunc(sync))
	bad := parent("bad", map[string]any{"fail": true, "data": map[string]any{"k": "v"}})
	kit.Create(bad)
	eventually(t, "the failing parent is tried again", func() bool { return kit.Syncs(bad) >= 4 })

	good := parent("good", withData("k", "v"))
	kit.Create(good)
	kit.Eventually(configMap("good", "k", "v"), patience)
	settle(t, kit) // a backoff has come to a second by now, which is longer than what counts as quiet
	calls, tries := kit.Syncs(good), kit.Syncs(bad)
	eventually(t, "the failing parent is tried again and again", func() bool { return kit.Syncs(bad) >= tries+2 })
	require.Equal(t, calls, kit.Syncs(good), "the other parent isn't called along with it")
	require.Empty(t, kit.HandlerErrors(good))
	require.ErrorIs(t, kit.HandlerErrors(bad)[0], broken)
	require.Nil(t, kit.Get(configMap("bad", "", "")))
	_, hasStatus := kit.Get(bad).Field("status")
	require.False(t, hasStatus, "on an error nothing is changed")

	kit.Update(parent("bad", withData("k", "v")))
	kit.Eventually(configMap("bad", "k", "v"), patience)
	settle(t, kit)
}

func TestC3_FinalizeIsRetried(t *testing.T) {
	scenario(t, "C3", "finalize is retried while it asks for it, the parent is gone only after")
	var release atomic.Bool
	h := handler.Funcs{
		SyncFunc: copier,
		FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
			return &handler.FinalizeResponse{
				Finalized: release.Load(), Retry: 50 * time.Millisecond, Status: map[string]any{"phase": "Finalizing"},
			}, nil
		},
	}
	cfg := operator("c3", config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	kit := testkit.New(t, cluster, cfg, h)
	it := parent("one", withData("k", "v"))
	kit.Create(it)
	kit.Eventually(configMap("one", "k", "v"), patience)
	settle(t, kit)
	live := kit.Get(it)
	require.Equal(t, []string{"roperator.com/c3"}, live.Finalizers())
	require.Zero(t, kit.Finalizes(it))
	syncs := kit.Syncs(it)

	kit.Delete(it)
	eventually(t, "finalize is called again", func() bool { return kit.Finalizes(it) >= 5 })
	kit.Eventually(map[string]any{
		"apiVersion": parentType.APIVersion, "kind": parentType.Kind, "metadata": map[string]any{"name": "one"},
		"status": map[string]any{"phase": "Finalizing"},
	}, patience)
	require.True(t, kit.Get(live).IsDeleting())
	require.NotNil(t, kit.Get(configMap("one", "", "")), "the children are the garbage collector's, later")

	release.Store(true)
	kit.EventuallyGone(live, patience)
	settle(t, kit)
	finalizes := kit.Finalizes(it)
	settle(t, kit)
	require.Equal(t, finalizes, kit.Finalizes(it), "not called for what is gone")
	require.Equal(t, syncs, kit.Syncs(it), "a parent that is being deleted isn't synced")
	require.Empty(t, kit.HandlerErrors(it))
}

func TestC4_DeletedChildComesBack(t *testing.T) {
	scenario(t, "C4", "a deleted child comes back with a new UID")
	cfg := operator("c4", config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	kit := testkit.New(t, cluster, cfg, handler.SyncFunc(copier))
	it := parent("one", withData("k", "v"))
	kit.Create(it)
	kit.Eventually(configMap("one", "k", "v"), patience)
	settle(t, kit)
	child := kit.Get(configMap("one", "", ""))

	kit.Delete(child)
	kit.EventuallyGone(child, patience)
	kit.Eventually(configMap("one", "k", "v"), patience)
	settle(t, kit)
	require.NotEqual(t, child.UID(), kit.Get(configMap("one", "", "")).UID())
	require.Equal(t, []string{"create", "create"}, verbs(kit.Writes(), "ConfigMap", "one"))
	require.Empty(t, kit.HandlerErrors(it))
}

func TestC5_OnDeleteWaitsForTheDeletion(t *testing.T) {
	scenario(t, "C5", "OnDelete: untouched by a parent change (same generation), recreated with the new state once deleted")
	deployment := func(image any) map[string]any {
		labels := map[string]any{"app": "one"}
		return map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "one"},
			"spec": map[string]any{
				"replicas": 0, "selector": map[string]any{"matchLabels": labels},
				"template": map[string]any{
					"metadata": map[string]any{"labels": labels},
					"spec":     map[string]any{"containers": []any{map[string]any{"name": "main", "image": image}}},
				},
			},
		}
	}
	sync := func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		image, _ := req.Parent.Field("spec", "image")
		return &handler.SyncResponse{Children: []any{deployment(image)}}, nil
	}
	cfg := operator("c5", config.Child{Type: k8s.Deployment, Strategy: config.OnDelete})
	kit := testkit.New(t, cluster, cfg, handler.SyncFunc(sync))
	it := parent("one", map[string]any{"image": "example.com/app:1"})
	kit.Create(it)
	kit.Eventually(deployment("example.com/app:1"), patience)
	settle(t, kit)
	old := kit.Get(deployment(""))
	syncs := kit.Syncs(it)

	kit.Update(parent("one", map[string]any{"image": "example.com/app:2"}))
	eventually(t, "the change is seen", func() bool { return kit.Syncs(it) > syncs })
	settle(t, kit)
	kept := kit.Get(old)
	require.Equal(t, old.UID(), kept.UID())
	require.Equal(t, old.Generation(), kept.Generation())
	require.Equal(t, []string{"create"}, verbs(kit.Writes(), "Deployment", "one"))

	kit.Delete(old)
	kit.EventuallyGone(old, patience)
	kit.Eventually(deployment("example.com/app:2"), patience)
	settle(t, kit)
	require.Equal(t, []string{"create", "create"}, verbs(kit.Writes(), "Deployment", "one"))
	require.Empty(t, kit.HandlerErrors(it))
}

func TestC6_ShortResync(t *testing.T) {
	scenario(t, "C6", "resync of 5 ms is called again and again")
	sync := func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		resp, err := copier(ctx, req)
		resp.Resync = 5 * time.Millisecond
		return resp, err
	}
	cfg := operator("c6", config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	kit := testkit.New(t, cluster, cfg, handler.SyncFunc(sync))
	it := parent("one", withData("k", "v"))
	kit.Create(it)
	kit.Eventually(configMap("one", "k", "v"), patience)
	eventually(t, "20 calls", func() bool { return kit.Syncs(it) >= 20 })
	child, live, writes := kit.Get(configMap("one", "", "")), kit.Get(it), len(kit.Writes())

	calls := kit.Syncs(it)
	eventually(t, "100 calls more", func() bool { return kit.Syncs(it) >= calls+100 })
	require.Len(t, kit.Writes(), writes, "none of them writes")
	require.Equal(t, child.ResourceVersion(), kit.Get(child).ResourceVersion())
	require.Equal(t, live.ResourceVersion(), kit.Get(it).ResourceVersion())
	require.Empty(t, kit.HandlerErrors(it))
	var loop *testkit.HotLoopError
	require.ErrorAs(t, kit.Settle(2*time.Second), &loop, "such an operator doesn't settle")
	require.Empty(t, loop.Object.Name)
}
