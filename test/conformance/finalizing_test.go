package conformance

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/testkit"
)

func TestC50_NoFinalizerWithoutFinalize(t *testing.T) {
	scenario(t, "C50", "none added without Finalize")
	s := newStage(t, "c50", configMapChild())
	s.want(configMap("child", "k", "v"))
	require.Empty(t, s.Get(parent("one", nil)).Finalizers())
	s.Delete(parent("one", nil))
	s.EventuallyGone(parent("one", nil), patience)
	require.Zero(t, s.Finalizes(parent("one", nil)))
}

func TestC51_ForeignFinalizersKept(t *testing.T) {
	scenario(t, "C51", "foreign finalizers kept, in any position, under concurrent edits")
	kit := testkit.New(t, cluster, operator("c51", configMapChild()), finalizing(released))
	for i, order := range [][]string{{}, {"example.com/a"}, {"example.com/a", "example.com/b"}} {
		name := fmt.Sprintf("p%d", i)
		it := parent(name, withData("k", "v"))
		finalizers := make([]any, 0, len(order))
		for _, f := range order {
			finalizers = append(finalizers, f)
		}
		metadata(it)["finalizers"] = finalizers
		kit.Create(it)
		eventually(t, "our finalizer", func() bool { return slices.Contains(kit.Get(it).Finalizers(), "roperator.com/c51") })
		// One in front, some behind, which go while the operator lets go of its own.
		edits := []string{"example.com/e1", "example.com/e2", "example.com/e3"}
		withFinalizers(t, kit, name, func(f []string) []string {
			return append(append([]string{"example.com/front"}, append(f, "example.com/behind")...), edits...)
		})
		kit.Update(parent(name, withData("k", "changed")))
		kit.Delete(it)
		for _, gone := range edits {
			withFinalizers(t, kit, name, func(f []string) []string {
				return slices.DeleteFunc(f, func(s string) bool { return s == gone })
			})
		}
		eventually(t, "ours is gone", func() bool { return !slices.Contains(kit.Get(it).Finalizers(), "roperator.com/c51") })
		require.Equal(t, append([]string{"example.com/front"}, append(order, "example.com/behind")...), kit.Get(it).Finalizers())
		require.Empty(t, kit.HandlerErrors(it))
		withFinalizers(t, kit, name, func([]string) []string { return nil })
		kit.EventuallyGone(it, patience)
	}
}

func TestC52_FinalizeAgainAfterRestart(t *testing.T) {
	scenario(t, "C52", "finalize runs again after a restart in its middle")
	cfg := operator("c52", configMapChild())
	var calls atomic.Int32
	kit := testkit.New(t, cluster, cfg, finalizing(func(*handler.SyncRequest) (*handler.FinalizeResponse, error) {
		calls.Add(1)
		return &handler.FinalizeResponse{Retry: time.Hour}, nil
	}))
	it := parent("one", withData("k", "v"))
	kit.Create(it)
	settle(t, kit)
	kit.Delete(it)
	eventually(t, "finalize has begun", func() bool { return calls.Load() == 1 })
	settle(t, kit)
	kit.Restart(cfg, finalizing(released))
	kit.EventuallyGone(it, patience)
	require.Empty(t, kit.HandlerErrors(it))
}

func TestC53_ForceDeletedParent(t *testing.T) {
	scenario(t, "C53", "force-deleted parent: no crash, state forgotten")
	kit := testkit.New(t, cluster, operator("c53", configMapChild()), finalizing(func(*handler.SyncRequest) (*handler.FinalizeResponse, error) {
		return nil, errors.New("can't clean up")
	}))
	it := parent("one", withData("k", "v"))
	kit.Create(it)
	settle(t, kit)
	kit.Delete(it)
	eventually(t, "finalize fails", func() bool { return kit.Finalizes(it) >= 2 })
	require.NotNil(t, kit.Get(it), "a failed Finalize never counts as done")
	require.ErrorContains(t, kit.HandlerErrors(it)[0], "can't clean up")
	withFinalizers(t, kit, "one", func([]string) []string { return nil })
	kit.EventuallyGone(it, patience)
	settle(t, kit)
	require.Nil(t, kit.Snapshot(it))
	calls := kit.Finalizes(it)
	other := parent("two", withData("k", "v"))
	kit.Create(other)
	settle(t, kit)
	require.Equal(t, calls, kit.Finalizes(it))
	require.Empty(t, kit.HandlerErrors(other))
}

func TestC55_ParentLeavesSelector(t *testing.T) {
	scenario(t, "C55", "a parent that leaves the selector is released")
	cfg := operator("c55", configMapChild())
	cfg.ParentSelector = "mine=yes"
	kit := testkit.New(t, cluster, cfg, finalizing(released))
	it := parent("one", withData("k", "v"))
	metadata(it)["labels"] = map[string]any{"mine": "yes"}
	kit.Create(it)
	kit.Eventually(configMap("one", "k", "v"), patience)
	settle(t, kit)
	child := kit.Get(configMap("one", "", ""))
	require.Equal(t, []string{"roperator.com/c55"}, kit.Get(it).Finalizers())

	leaving := toUpdate(kit.Get(it))
	leaving.SetLabels(map[string]string{"mine": "no"})
	kit.Update(leaving)
	eventually(t, "the parent is released", func() bool { return len(kit.Get(it).Finalizers()) == 0 })
	settle(t, kit)
	require.Equal(t, child.ResourceVersion(), kit.Get(child).ResourceVersion(), "the children stay as they are")
	require.Zero(t, kit.Finalizes(it))

	back := toUpdate(kit.Get(it))
	back.SetLabels(map[string]string{"mine": "yes"})
	kit.Update(back)
	eventually(t, "the parent is taken up again", func() bool { return len(kit.Get(it).Finalizers()) == 1 })
	kit.Delete(it)
	kit.EventuallyGone(it, patience)
	require.Equal(t, 1, kit.Finalizes(it))
}

func TestC56_FinalizeDropped(t *testing.T) {
	scenario(t, "C56", "Finalize dropped in a new build: no parent is stuck")
	cfg := operator("c56", configMapChild())
	kit := testkit.New(t, cluster, cfg, finalizing(func(*handler.SyncRequest) (*handler.FinalizeResponse, error) {
		return &handler.FinalizeResponse{Retry: time.Hour}, nil
	}))
	living, dying := parent("living", withData("k", "v")), parent("dying", withData("k", "v"))
	kit.Create(living)
	kit.Create(dying)
	settle(t, kit)
	require.Equal(t, []string{"roperator.com/c56"}, kit.Get(living).Finalizers())
	kit.Delete(dying)
	eventually(t, "finalize is called", func() bool { return kit.Finalizes(dying) == 1 })

	kit.Restart(cfg, handler.SyncFunc(copier))
	kit.EventuallyGone(dying, patience)
	eventually(t, "the finalizer is dropped", func() bool { return len(kit.Get(living).Finalizers()) == 0 })
	settle(t, kit)

	// A build that once had another name.
	withFinalizers(t, kit, "living", func(f []string) []string { return append(f, "old.example.com/c56", "example.com/other") })
	settle(t, kit)
	cfg.FormerFinalizers = []string{"old.example.com/c56"}
	kit.Restart(cfg, handler.SyncFunc(copier))
	eventually(t, "the former finalizer is dropped", func() bool {
		return slices.Equal(kit.Get(living).Finalizers(), []string{"example.com/other"})
	})
	withFinalizers(t, kit, "living", func([]string) []string { return nil })
	require.Empty(t, kit.HandlerErrors(living))
}

func TestC209_BlocksNoWorker(t *testing.T) {
	scenario(t, "C209", "a Finalize that asks for a retry blocks no worker")
	cfg := operator("finalizeblocks", configMapChild())
	cfg.MaxConcurrentSyncs = 1
	cfg.Finalizer = config.FinalizerAuto
	kit := testkit.New(t, cluster, cfg, finalizing(func(*handler.SyncRequest) (*handler.FinalizeResponse, error) {
		return &handler.FinalizeResponse{Retry: time.Hour}, nil
	}))
	for i := range 5 {
		it := parent(fmt.Sprintf("dying%d", i), withData("k", "v"))
		kit.Create(it)
		settle(t, kit)
		kit.Delete(it)
	}
	kit.Create(parent("living", withData("k", "v")))
	kit.Eventually(configMap("living", "k", "v"), patience)
	settle(t, kit)
	for i := range 5 {
		it := parent(fmt.Sprintf("dying%d", i), nil)
		require.Equal(t, 1, kit.Finalizes(it))
		withFinalizers(t, kit, fmt.Sprintf("dying%d", i), func([]string) []string { return nil })
	}
}
