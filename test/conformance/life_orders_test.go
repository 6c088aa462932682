package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/plane"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

// behind returns the options of an operator behind a middleman.
func behind(m *middleman) testkit.KitOptions {
	return testkit.KitOptions{Runner: runner.Options{RESTConfig: m.config()}}
}

// Many parents lose their children at a time, so that one of their passes lists all
// parents. The list tells of changes of parents that have failed for good, before the
// watch does. No watch tells of them again.
func TestC171_ListTellsOfAFailedParent(t *testing.T) {
	scenario(t, "C171", "a change of a parent that had failed for good, of which a list tells first: mended, it is synced; deleted, it is finalized; out of the selector, it is released")
	needsAudit(t)
	const others = 40 // enough for a list of all parents to be the cheaper
	m, handlers := &middleman{}, &latch{}
	h := handler.Funcs{
		SyncFunc: func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			if !strings.HasPrefix(req.Parent.Name(), "failed") {
				handlers.pass(ctx)
			}
			value, _ := req.Parent.Field("spec", "data", "k")
			state, _ := req.Parent.Field("status", "state")
			if value == "broken" && state != "mended" {
				return nil, handler.Permanent(errors.New("it is broken"))
			}
			resp, err := copier(ctx, req)
			resp.Status = nil
			return resp, err
		},
		FinalizeFunc: finalizing(released).FinalizeFunc,
	}
	cfg := operator("c171", childrenBy(config.Replace, k8s.ConfigMap)...)
	cfg.MaxConcurrentSyncs, cfg.ParentSelector, cfg.Finalizer = 2*others, "mine=yes", config.FinalizerAlways
	kit := testkit.NewWithOptions(t, cluster, cfg, h, behind(m))
	typed, untyped := clients(t, "somebody")
	maps, api := typed.CoreV1().ConfigMaps(kit.Namespace), untyped.Resource(parents).Namespace(kit.Namespace)
	failed := []string{"failed-mended", "failed-status", "failed-deleted", "failed-departed"}
	for _, name := range failed {
		it := selected(name, "yes")
		it["spec"] = withData("k", "broken")
		kit.Create(it)
	}
	for i := range others {
		kit.Create(selected(fmt.Sprint("p", i), "yes"))
	}
	settle(t, kit)
	for _, name := range failed {
		require.NotEmpty(t, kit.HandlerErrors(parent(name, nil)))
	}

	m.parents.shut(t)
	patch := func(name, text string, subresource ...string) {
		_, err := api.Patch(t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{}, subresource...)
		require.NoError(t, err)
	}
	patch("failed-mended", `{"spec":{"data":{"k":"mended"}}}`)
	patch("failed-status", `{"status":{"state":"mended"}}`, "status")
	require.NoError(t, api.Delete(t.Context(), "failed-deleted", metav1.DeleteOptions{}))
	patch("failed-departed", `{"metadata":{"labels":{"mine":"no"}}}`)
	from := audit.mark(t)
	handlers.shut(t)
	for i := range others {
		require.NoError(t, maps.Delete(t.Context(), fmt.Sprint("p", i), metav1.DeleteOptions{}))
	}
	eventually(t, "all others have lost their children", func() bool { return handlers.waiting.Load() == others })
	m.parents.holds(t, "the watch has told")
	handlers.release()
	kit.Eventually(configMap("failed-mended", "k", "mended"), patience)
	kit.EventuallyExists(configMap("failed-status", "", ""), patience)
	kit.EventuallyGone(parent("failed-deleted", nil), patience)
	eventually(t, "it is released", func() bool { return len(kit.Get(parent("failed-departed", nil)).Finalizers()) == 0 })
	require.Contains(t, parentReads(t, from, cfg.Name), "list parents/"+kit.Namespace+": 200")
	require.Equal(t, 1, kit.Finalizes(parent("failed-deleted", nil)))
	m.parents.release()
	settle(t, kit)
	quiet(t, cfg.Name)
}

// The child of one parent is deleted, and another parent takes the name before the watch
// tells of the deletion.
func TestC172_LoserOfANameIsTold(t *testing.T) {
	scenario(t, "C172", "a parent whose child's name was taken by another parent before the watch told of the child's end hears of its loss, and has the child again when the name is free")
	m := &middleman{}
	cfg := patient("c172", childrenBy(config.Replace, k8s.ConfigMap)...)
	kit := testkit.NewWithOptions(t, cluster, cfg, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{
			Status:   map[string]any{"children": req.Children.Len()},
			Children: []any{configMap("shared", "of", req.Parent.Name())},
		}, nil
	}), behind(m))
	loser, winner := parent("loser", nil), parent("winner", nil)
	kit.Create(loser)
	settle(t, kit)
	kit.Create(winner)
	failing(t, kit, winner, "already exists")
	typed, _ := clients(t, "somebody")
	maps := typed.CoreV1().ConfigMaps(kit.Namespace)

	m.maps.shut(t)
	require.NoError(t, maps.Delete(t.Context(), "shared", metav1.DeleteOptions{}))
	kit.Eventually(configMap("shared", "of", "winner"), patience)
	m.maps.holds(t, "the watch has told")
	m.maps.release()
	failing(t, kit, loser, "already exists")
	eventually(t, "its status says that it has no child", func() bool {
		n, _ := kit.Get(loser).Field("status", "children")
		return n == int64(0)
	})
	settle(t, kit)
	require.Equal(t, []string{"create", "create"}, verbs(kit.Writes(), "ConfigMap", "shared"))

	kit.Delete(winner)
	if err := maps.Delete(t.Context(), "shared", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) { // as the garbage collector may have done
		require.NoError(t, err)
	}
	kit.Eventually(configMap("shared", "of", "loser"), patience)
	settle(t, kit)
	quiet(t, cfg.Name)
}

// Parents that nothing holds go after the parents were listed at the start, and before the
// children are.
func TestC175_GoneBetweenTheFirstLists(t *testing.T) {
	scenario(t, "C175", "no child is created for a parent that goes between the first lists of two types")
	const count, going = 8, 4
	m := &middleman{}
	cfg := operator("c175", childrenBy(config.Replace, k8s.ConfigMap)...)
	kit := testkit.NewWithOptions(t, cluster, cfg, handler.SyncFunc(copier), behind(m))
	kit.Stop()
	for i := range count {
		kit.Create(parent(fmt.Sprint("p", i), withData("k", "v")))
	}
	_, untyped := clients(t, "somebody")
	api := untyped.Resource(parents).Namespace(kit.Namespace)
	var listed atomic.Bool
	m.listed = func() {
		if !listed.Swap(true) {
			m.parents.shut(t)
		}
	}
	m.asks.shut(t)
	deleted := make(chan error, 1)
	go func() { // ends with the deletions, or with the test
		defer m.asks.release()
		deleted <- func() error {
			if err := plane.Until(t.Context(), patience, func() error {
				if !listed.Load() || m.asks.waiting.Load() == 0 {
					return errors.New("the parents aren't listed yet, or nobody asks for the children")
				}
				return nil
			}); err != nil {
				return err
			}
			for i := range going {
				if err := api.Delete(t.Context(), fmt.Sprint("p", i), metav1.DeleteOptions{}); err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	kit.Restart(cfg, handler.SyncFunc(copier))
	require.NoError(t, <-deleted)
	for i := going; i < count; i++ {
		kit.EventuallyExists(configMap(fmt.Sprint("p", i), "", ""), patience)
	}
	m.parents.holds(t, "the watch has told")
	m.parents.release()
	settle(t, kit)
	for i := range going {
		require.Empty(t, verbs(kit.Writes(), "ConfigMap", fmt.Sprint("p", i)))
	}
	quiet(t, cfg.Name)
}
