package reconcile_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// A write that conflicts awaits the newer state of the child. If no watch delivers one,
// the parent is due again all the same.
func TestAwaitedState_ThatNeverComes(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		r := rig.Start(t, server, rig.Config(), handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			value, _ := req.Parent.Field("spec", "value")
			return &handler.SyncResponse{Children: []any{rig.Copied("one", value)}}, nil // no status, whose write would lead to another pass
		}))
		r.Create("one", "v1")
		rig.Elapse(time.Second)
		var mu sync.Mutex
		conflicts := 0
		server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
			mu.Lock()
			defer mu.Unlock()
			if req.Verb == "update" && req.Type == k8s.ConfigMap && !req.DryRun && conflicts == 0 {
				conflicts++
				return apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "one", context.Canceled)
			}
			return nil
		}})
		r.SetSpec("one", "v2")
		value, _ := r.Get(k8s.ConfigMap, "one").Field("data", "value")
		require.Equal(t, "v1", value)
		rig.Elapse(10 * time.Second)
		value, _ = r.Get(k8s.ConfigMap, "one").Field("data", "value")
		require.Equal(t, "v2", value)
		r.Stop()
	})
}

// What counts the repeats of a parent is dropped with the parent.
func TestConflicts_OfAParentThatIsGone(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := rig.Start(t, rig.Server(), rig.Config(), handler.SyncFunc(rig.Copier))
		r.Create("one", "v1")
		synctest.Wait()
		for range 3 {
			r.Change(k8s.ConfigMap, "one", func(o map[string]any) { o["data"] = map[string]any{"value": "theirs"} })
		}
		require.Equal(t, 1, r.Manager.Engine().Sizes()["loops"])
		require.NoError(t, r.Server.Delete(sample.ParentType(), rig.Key("one")))
		synctest.Wait()
		require.Zero(t, r.Manager.Engine().Sizes()["loops"])
		r.Stop()
	})
}

// A brokenStatus is a status whose encoding panics.
type brokenStatus struct{}

// MarshalJSON implements json.Marshaler.
func (brokenStatus) MarshalJSON() ([]byte, error) { panic("no status") }

// Whatever a handler does in a call is the error of that pass alone. The parent is tried
// again, and the others have their passes.
func TestHandler_Misbehaves(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		do     func() (*handler.SyncResponse, error)
		err    string
	}{
		"Nothing": {"it says neither what shall be nor what is wrong", func() (*handler.SyncResponse, error) { return nil, nil }, "returned neither a response nor an error"},
		"Goexit":  {"so a failed assertion of a test ends", func() (*handler.SyncResponse, error) { runtime.Goexit(); return nil, nil }, "ended its goroutine"},
		"Panic":   {"a handler may have a bug", func() (*handler.SyncResponse, error) { panic("no") }, "handler: Sync: panic: no"},
		"Status":  {"so may a type of its own", func() (*handler.SyncResponse, error) { return &handler.SyncResponse{Status: brokenStatus{}}, nil }, "panic: no status"},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				r := rig.Start(t, rig.Server(), rig.Config(), handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
					if req.Parent.Name() == "bad" {
						return tc.do()
					}
					return rig.Copier(ctx, req)
				}))
				r.Create("bad", "v")
				rig.Elapse(time.Second)
				r.Create("good", "v")
				rig.Elapse(time.Second)
				require.NotNil(t, r.Get(k8s.ConfigMap, "good"), "the others have their passes")
				errs := r.Errors("bad")
				require.Greater(t, len(errs), 1, "it is tried again")
				require.ErrorContains(t, errs[0], tc.err, tc.reason)
				r.Stop()
			})
		})
	}
}

// A conflict loop over a Secret is told of by log and Event without the values.
func TestConflicts_OfASecret(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		const ours, theirs = "c3dvcmRmaXNo", "bWFybGlu"
		cfg := rig.Config()
		cfg.Children = []config.Child{{Type: k8s.Secret, Strategy: config.Replace}}
		server := rig.Server()
		r := rig.Start(t, server, cfg, handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			return &handler.SyncResponse{Children: []any{map[string]any{
				"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "one"}, "data": map[string]any{"k": ours},
			}}}, nil
		}))
		r.Create("one", "v")
		rig.Elapse(time.Second)
		for range 10 {
			r.Change(k8s.Secret, "one", func(o map[string]any) { o["data"] = map[string]any{"k": theirs} })
			rig.Elapse(time.Second)
		}
		r.Stop()
		told := r.Logs.String()
		require.Contains(t, told, "conflict loop, slowing down")
		for _, event := range server.List(fakeapi.Events().Type) {
			raw, err := json.Marshal(event.Unstructured().Object)
			require.NoError(t, err)
			told += string(raw)
		}
		require.Contains(t, told, "data.k is written again and again")
		require.NotContains(t, told, ours)
		require.NotContains(t, told, theirs)
	})
}

// A webhook takes a label off whatever is written, so no watch delivers the child. The
// operator holds nothing that it could never learn the end of, slows down and says why.
// Once the webhook is gone, the child has its labels again.
func TestLabels_TakenOffByAWebhook(t *testing.T) {
	cfg := rig.Config()
	for _, label := range []string{"/operator", "/parent-uid"} {
		t.Run(label, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				server.SetHooks(fakeapi.Hooks{Admit: func(req fakeapi.Request, o map[string]any) error {
					if req.Type == k8s.ConfigMap {
						labels, _ := o["metadata"].(map[string]any)["labels"].(map[string]any)
						delete(labels, config.DefaultDomain+label)
					}
					return nil
				}})
				r := rig.Start(t, server, cfg, handler.SyncFunc(rig.Copier))
				r.Create("one", "v1")
				rig.Elapse(time.Hour)
				require.Zero(t, r.Manager.Engine().Sizes()["objects "+k8s.ConfigMap.String()])
				require.Less(t, len(server.Writes()), 60)
				require.Contains(t, r.Logs.String(), "conflict loop, slowing down")
				server.SetHooks(fakeapi.Hooks{})
				rig.Elapse(time.Hour)
				require.Contains(t, r.Get(k8s.ConfigMap, "one").Labels(), config.DefaultDomain+label)
				require.Equal(t, 1, r.Manager.Engine().Sizes()["objects "+k8s.ConfigMap.String()])
				r.Stop()
			})
		})
	}
}

// A child that another replica has made comes before its parent: the watches aren't in
// step. Its key alone is held then. The first pass over the parent reads it.
func TestChild_BeforeItsParent(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		shown := make(chan int, 100)
		r := rig.Start(t, server, rig.Config(), handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			shown <- req.Children.Len()
			return rig.Copier(ctx, req)
		}))
		rig.Elapse(time.Second)
		server.Hold(sample.ParentType())
		parent := r.Create("one", "v1")
		_, err := server.Create(map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"value": "v1"},
			"metadata": map[string]any{
				"name": "one", "namespace": "ns",
				"labels":          map[string]any{config.DefaultDomain + "/operator": "op", config.DefaultDomain + "/parent-uid": string(parent.UID())},
				"ownerReferences": []any{map[string]any{"apiVersion": parent.Type().APIVersion, "kind": "Parent", "name": "one", "uid": string(parent.UID()), "controller": true}},
			},
		})
		require.NoError(t, err)
		rig.Elapse(time.Second)
		require.Equal(t, 1, r.Manager.Engine().Sizes()["orphans"])
		server.Release()
		rig.Elapse(time.Minute)
		require.Equal(t, 1, <-shown, "in the first call")
		require.Zero(t, r.Manager.Engine().Sizes()["orphans"])
		require.NotContains(t, server.Writes(), "create ConfigMap ns/one")
		r.Stop()
	})
}

// A child whose parent is gone already when the operator starts has no pass, so what is
// known of its fields isn't held.
func TestStart_ChildOfAParentThatIsGone(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		_, err := server.Create(map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
				"name": "one", "namespace": "ns",
				"labels":          map[string]any{config.DefaultDomain + "/operator": "op", config.DefaultDomain + "/parent-uid": "gone"},
				"ownerReferences": []any{map[string]any{"apiVersion": sample.ParentType().APIVersion, "kind": "Parent", "name": "one", "uid": "gone", "controller": true}},
				"managedFields":   []any{map[string]any{"manager": "op", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:data": map[string]any{}}}},
			},
		})
		require.NoError(t, err)
		r := rig.Start(t, server, rig.Config(), handler.SyncFunc(rig.Copier))
		rig.Elapse(time.Minute)
		require.Zero(t, r.Manager.Engine().Sizes()["held fields"])
		r.Stop()
	})
}

// A flood of objects with the operator's labels is watched. It costs no request, no pass, and
// no memory but that of the keys.
func TestFlood_OfLabelledObjects(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		const many, size = 1000, 10_000
		server := rig.Server()
		cfg := rig.Config()
		calls := 0
		h := handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			calls++
			return rig.Copier(ctx, req)
		})
		r := rig.Start(t, server, cfg, h)
		parent := r.Create("one", "v1")
		rig.Elapse(time.Minute)
		before, requests := calls, len(server.Requests())
		for i := range many {
			meta := map[string]any{
				"name": fmt.Sprint("flood-", i), "namespace": []string{"ns", "other"}[i%2],
				"labels": map[string]any{config.DefaultDomain + "/operator": "op", config.DefaultDomain + "/parent-uid": string(parent.UID())},
			}
			if i%2 == 1 { // from another namespace, with all that a child has
				meta["ownerReferences"] = []any{map[string]any{"apiVersion": parent.Type().APIVersion, "kind": "Parent", "name": "one", "uid": string(parent.UID()), "controller": true}}
			}
			_, err := server.Create(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": map[string]any{"k": strings.Repeat("x", size)}})
			require.NoError(t, err)
		}
		rig.Elapse(time.Minute)
		held := func() {
			t.Helper()
			require.Equal(t, many+1, r.Manager.Engine().Sizes()["objects "+k8s.ConfigMap.String()])
			for _, of := range r.Manager.Engine().Gauges(true).Store {
				require.Less(t, of.Bytes, many*200, of.Type)
			}
		}
		held()
		require.Equal(t, before, calls)
		require.Len(t, server.Requests(), requests)
		r.Stop()
		r = rig.Start(t, server, cfg, h)
		rig.Elapse(time.Minute)
		held()
		r.Stop()
	})
}
