package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/testkit"
)

// held is a parent with finalizers.
func held(name string, finalizers ...any) map[string]any {
	it := parent(name, withData("k", "v"))
	metadata(it)["finalizers"] = finalizers
	return it
}

// freeParents ends what a test holds back, so that the namespace can go.
func freeParents(t *testing.T, kit *testkit.Kit, names ...string) {
	t.Helper()
	for _, name := range names {
		withFinalizers(t, kit, name, func([]string) []string { return nil })
		kit.EventuallyGone(parent(name, nil), patience)
	}
}

func TestC202_NothingReleasesButFinalized(t *testing.T) {
	scenario(t, "C202", "errors, panics and empty answers of Finalize never release a parent")
	answers := map[string]func() (*handler.FinalizeResponse, error){
		"error":     func() (*handler.FinalizeResponse, error) { return nil, errors.New("no") },
		"permanent": func() (*handler.FinalizeResponse, error) { return nil, handler.Permanent(errors.New("never")) },
		"panic":     func() (*handler.FinalizeResponse, error) { panic("boom") },
		"nothing":   func() (*handler.FinalizeResponse, error) { return nil, nil },
		"zero":      func() (*handler.FinalizeResponse, error) { return &handler.FinalizeResponse{}, nil },
		"negative": func() (*handler.FinalizeResponse, error) {
			return &handler.FinalizeResponse{Finalized: true, Retry: -1}, nil
		},
		"both": func() (*handler.FinalizeResponse, error) {
			return &handler.FinalizeResponse{Finalized: true}, errors.New("no")
		},
		"retry": func() (*handler.FinalizeResponse, error) {
			return &handler.FinalizeResponse{Retry: 10 * time.Millisecond, Status: map[string]any{"phase": "Waiting"}}, nil
		},
	}
	var mended atomic.Bool
	cfg := operator("release-none", configMapChild())
	kit := testkit.NewWithOptions(t, cluster, cfg, finalizing(func(req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
		if mended.Load() {
			return released(req)
		}
		return answers[req.Parent.Name()]()
	}), testkit.KitOptions{AllowHandlerErrors: true})
	for name := range answers {
		kit.Create(parent(name, withData("k", "v")))
	}
	settle(t, kit)
	for name := range answers {
		kit.Delete(parent(name, nil))
	}
	for name := range answers {
		least := 6
		if name == "permanent" {
			least = 1
		}
		eventually(t, name+" is tried again", func() bool { return kit.Finalizes(parent(name, nil)) >= least })
		live := kit.Get(parent(name, nil))
		require.NotNil(t, live, name)
		require.Equal(t, []string{"roperator.com/release-none"}, live.Finalizers(), name)
		require.NotNil(t, kit.Get(configMap(name, "", "")), "%s: the children are left to garbage collection", name)
	}
	require.Equal(t, 1, kit.Finalizes(parent("permanent", nil)), "not before something changes")
	mended.Store(true)
	kit.Update(map[string]any{
		"apiVersion": parentType.APIVersion, "kind": parentType.Kind, "spec": withData("k", "v"),
		"metadata": map[string]any{"name": "permanent", "annotations": map[string]any{"example.com/touched": "yes"}},
	})
	for name := range answers {
		kit.EventuallyGone(parent(name, nil), patience)
	}
}

func TestC203_DeletedBeforeItWasSeen(t *testing.T) {
	scenario(t, "C203", "a parent that was created and deleted while the operator was down: nothing is begun")
	// The operator was down from the creation of a parent to its deletion:
	// there is nothing to finalize, and nothing is begun.
	cfg := operator("seen-late", configMapChild())
	kit := testkit.New(t, cluster, cfg, finalizing(released))
	kit.Stop()
	kit.Create(held("one", "example.com/hold"))
	kit.Delete(parent("one", nil))
	kit.Restart(cfg, finalizing(released))
	settle(t, kit)
	require.Zero(t, kit.Finalizes(parent("one", nil)))
	require.Zero(t, kit.Syncs(parent("one", nil)))
	require.Equal(t, []string{"example.com/hold"}, kit.Get(parent("one", nil)).Finalizers())
	require.Empty(t, kit.Writes())
	require.Empty(t, kit.HandlerErrors(parent("one", nil)))
	freeParents(t, kit, "one")
}

func TestC204_PausedParentsFinalize(t *testing.T) {
	scenario(t, "C204", "a paused parent isn't synced, but finalizes")
	kit := testkit.New(t, cluster, operator("paused-final", configMapChild()), finalizing(released))
	it := parent("one", withData("k", "v"))
	kit.Create(it)
	settle(t, kit)
	metadata(it)["annotations"] = map[string]any{"roperator.com/paused": "true"}
	it["spec"] = withData("k", "w")
	kit.Update(it)
	kit.Update(configMap("one", "k", "by hand"))
	settle(t, kit)
	require.Equal(t, "by hand", kit.Get(configMap("one", "", "")).Unstructured().Object["data"].(map[string]any)["k"])
	kit.Delete(it)
	kit.EventuallyGone(it, patience)
	require.Equal(t, 1, kit.Finalizes(it))

	// One that was paused from its beginning was never touched.
	never := parent("never", withData("k", "v"))
	metadata(never)["annotations"] = map[string]any{"roperator.com/paused": "true"}
	kit.Create(never)
	settle(t, kit)
	require.Empty(t, kit.Get(never).Finalizers())
	require.Zero(t, kit.Syncs(never))
	metadata(never)["annotations"] = map[string]any{"roperator.com/paused": nil}
	kit.Update(never)
	kit.Eventually(configMap("never", "k", "v"), patience)
}

func TestC205_OthersEditInTheMiddle(t *testing.T) {
	scenario(t, "C205", "finalizers of others are kept while everybody edits")
	// Somebody adds and removes finalizers as fast as they can, while ours
	// come and go.
	kit := testkit.New(t, cluster, operator("many-editors", configMapChild()), finalizing(released))
	names := make([]string, 5)
	stop := make(chan struct{})
	done := make(chan error, len(names))
	_, untyped := clients(t, "editor")
	api := untyped.Resource(parents).Namespace(kit.Namespace)
	for i := range names {
		names[i] = fmt.Sprintf("p%d", i)
		kit.Create(held(names[i], "example.com/first", "example.com/last"))
		go func() { // until stop
			for n := 0; ; n++ {
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				list := `["example.com/first","example.com/turn","example.com/last"]`
				if n%2 == 1 {
					list = `["example.com/first","example.com/last"]`
				}
				live, err := api.Get(context.Background(), names[i], metav1.GetOptions{})
				if err != nil {
					done <- err
					return
				}
				// Like a careful controller: keeps what others have set.
				keep := slices.DeleteFunc(live.GetFinalizers(), func(f string) bool { return strings.HasPrefix(f, "example.com/") })
				turn := strings.Split(strings.Trim(list, "[]"), ",")
				for j := range turn {
					turn[j] = strings.Trim(turn[j], `"`)
				}
				if live.GetDeletionTimestamp() != nil { // none can be added any more
					turn = slices.DeleteFunc(turn, func(f string) bool { return !slices.Contains(live.GetFinalizers(), f) })
				}
				live.SetFinalizers(slices.Concat(turn[:1], keep, turn[1:]))
				_, _ = api.Update(context.Background(), live, metav1.UpdateOptions{}) // a conflict is as good
			}
		}()
	}
	for _, name := range names {
		eventually(t, "ours is there", func() bool {
			return slices.Contains(kit.Get(parent(name, nil)).Finalizers(), "roperator.com/many-editors")
		})
		kit.Update(parent(name, withData("k", "w")))
		kit.Delete(parent(name, nil))
	}
	for _, name := range names {
		eventually(t, "ours is gone", func() bool {
			return !slices.Contains(kit.Get(parent(name, nil)).Finalizers(), "roperator.com/many-editors")
		})
	}
	close(stop)
	for range names {
		require.NoError(t, <-done)
	}
	settle(t, kit)
	for _, name := range names {
		left := kit.Get(parent(name, nil)).Finalizers()
		require.Subset(t, []string{"example.com/first", "example.com/turn", "example.com/last"}, left)
		require.Contains(t, left, "example.com/first")
		require.Contains(t, left, "example.com/last")
		require.Empty(t, kit.HandlerErrors(parent(name, nil)))
		require.Equal(t, 1, kit.Finalizes(parent(name, nil)))
	}
	freeParents(t, kit, names...)
}

func TestC206_ParentGoneInTheMiddleOfAPass(t *testing.T) {
	scenario(t, "C206", "a parent that is gone in the middle of a pass is no error")
	// A parent is deleted and gone while its handler thinks; its children's
	// creation, status and finalizer fail nothing.
	_, untyped := clients(t, "somebody")
	var gone atomic.Int64
	w := newWitness()
	h := finalizing(released)
	h.SyncFunc = func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		api := untyped.Resource(parents).Namespace(req.Parent.Namespace())
		if req.Parent.Name() == "one" {
			_, err := api.Patch(ctx, "one", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			if err == nil {
				err = api.Delete(ctx, "one", metav1.DeleteOptions{})
			}
			if err != nil {
				return nil, err
			}
			gone.Add(1)
			return &handler.SyncResponse{KeepChildren: true, Status: map[string]any{"phase": "Late"}}, nil
		}
		return copier(ctx, req)
	}
	kit := testkit.NewWithOptions(t, cluster, operator("gone-midway", configMapChild()), h, w.options())
	kit.Create(parent("one", withData("k", "v")))
	eventually(t, "the parent is gone", func() bool { return gone.Load() == 1 && kit.Get(parent("one", nil)) == nil })
	settle(t, kit)
	require.Empty(t, kit.HandlerErrors(parent("one", nil)))
	require.NotContains(t, w.logged(), "level=ERROR")
	require.Nil(t, kit.Snapshot(parent("one", nil)))
	kit.Create(parent("two", withData("k", "v")))
	kit.Eventually(configMap("two", "k", "v"), patience)
}

func TestC207_NeverAndAlways(t *testing.T) {
	scenario(t, "C207", "FinalizerAlways and FinalizerNever")
	cfg := operator("policy", configMapChild())
	cfg.Finalizer = config.FinalizerAlways
	kit := testkit.New(t, cluster, cfg, handler.SyncFunc(copier))
	it := parent("one", withData("k", "v"))
	kit.Create(it)
	eventually(t, "always", func() bool { return len(kit.Get(it).Finalizers()) == 1 })
	cfg.Finalizer = config.FinalizerNever
	kit.Restart(cfg, finalizing(released))
	eventually(t, "never", func() bool { return len(kit.Get(it).Finalizers()) == 0 })
	kit.Delete(it)
	kit.EventuallyGone(it, patience)
	require.Zero(t, kit.Finalizes(it))
}
