package reconcile_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// A parent is deleted and the garbage collector takes its child, of which the
// operator learns before it learns of the parent's deletion.
func TestLost_AlongWithTheParent(t *testing.T) {
	for name, tc := range map[string]struct {
		reason     string
		finalizers []any
		namesake   bool
	}{
		"Foreground": {"it waits for its children to go", []any{metav1.FinalizerDeleteDependents}, false},
		"Background": {"it is gone", nil, false},
		"Namesake":   {"it is gone, and the one of its name isn't it", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				r := rig.Start(t, server, rig.Config(), handler.SyncFunc(rig.Copier))
				rig.CreateParent(t, server, "one", "v1", tc.finalizers...)
				rig.Elapse(time.Second)
				before := server.Writes()

				server.Hold(sample.ParentType())
				require.NoError(t, server.Delete(sample.ParentType(), rig.Key("one")))
				require.NoError(t, server.Delete(k8s.ConfigMap, rig.Key("one")))
				if tc.namesake {
					r.Create("one", "v2")
				}
				rig.Elapse(time.Minute)
				require.Equal(t, before, server.Writes(), tc.reason)
				require.Empty(t, r.Errors("one"), "it is no error")

				server.Release()
				rig.Elapse(time.Minute)
				require.Equal(t, tc.namesake, r.Get(k8s.ConfigMap, "one") != nil, "what is desired by whom is there")
				r.Stop()
			})
		})
	}
}

// What somebody has deleted is there again at once, and the parent is read once
// for that; else it isn't read at all.
func TestLost_ByAParentThatStays(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		cfg := rig.Config()
		cfg.Children[0].Strategy = config.Recreate
		r := rig.Start(t, server, cfg, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			value, _ := req.Parent.Field("spec", "value")
			children := []any{rig.Copied("a", value), rig.Copied("b", value)}
			if value == "v3" {
				children = append(children, rig.Copied("c", value))
			}
			return &handler.SyncResponse{Children: children}, nil
		}))
		r.Create("one", "v1")
		rig.Elapse(time.Second)
		r.SetSpec("one", "v2")
		rig.Elapse(time.Second)
		value, _ := r.Get(k8s.ConfigMap, "a").Field("data", "value")
		require.Equal(t, "v2", value)
		require.Empty(t, parentReads(server.Requests()), "it was the operator that deleted them")

		require.NoError(t, server.Delete(k8s.ConfigMap, rig.Key("a")))
		synctest.Wait()
		require.NotNil(t, r.Get(k8s.ConfigMap, "a"))
		require.Equal(t, map[string]int{"get": 1}, parentReads(server.Requests()), "of the pass that creates it")

		r.SetSpec("one", "v3")
		require.NotNil(t, r.Get(k8s.ConfigMap, "c"))
		require.Equal(t, map[string]int{"get": 1}, parentReads(server.Requests()), "that it has lost a child is explained")
		r.Stop()
	})
}

// Many parents lose their children at a time: of those that stay, each child
// is there again, of those that go, none, and lists are few.
func TestLost_ByMany(t *testing.T) {
	const count, going = 200, 20
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		cfg := rig.Config()
		cfg.Namespaces = []string{"elsewhere", "ns"}
		var gate atomic.Pointer[chan struct{}] // which handlers wait for
		r := rig.Start(t, server, cfg, handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			if closed := gate.Load(); closed != nil {
				<-*closed
			}
			return rig.Copier(ctx, req)
		}))
		for i := range count {
			var finalizers []any
			if i < going {
				finalizers = []any{metav1.FinalizerDeleteDependents}
			}
			rig.CreateParent(t, server, fmt.Sprint("p", i), "v1", finalizers...)
		}
		rig.Elapse(time.Second)
		require.Len(t, server.List(k8s.ConfigMap), count)
		from := len(server.Requests())

		lost := make(chan struct{})
		gate.Store(&lost)
		server.Hold(sample.ParentType())
		for i := range count {
			if i < going {
				require.NoError(t, server.Delete(sample.ParentType(), rig.Key(fmt.Sprint("p", i))))
			}
			require.NoError(t, server.Delete(k8s.ConfigMap, rig.Key(fmt.Sprint("p", i))))
		}
		synctest.Wait()
		close(lost)
		rig.Elapse(time.Minute)
		for i := range count {
			require.Equal(t, i >= going, r.Get(k8s.ConfigMap, fmt.Sprint("p", i)) != nil, "p%d", i)
		}
		require.Equal(t, map[string]int{"list": len(cfg.Namespaces)}, parentReads(server.Requests()[from:]), "once")
		server.Release()
		r.Stop()
	})
}

// Whether the parent stays can't be told: nothing is created, the error says
// which rule is missing, and it is tried again.
func TestLost_ByAParentThatMayNotBeRead(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		r := rig.Start(t, server, rig.Config(), handler.SyncFunc(rig.Copier))
		r.Create("one", "v1")
		rig.Elapse(time.Second)
		server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
			if req.Verb == "get" && req.Type == sample.ParentType() {
				return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "no"}}
			}
			return nil
		}})
		require.NoError(t, server.Delete(k8s.ConfigMap, rig.Key("one")))
		rig.Elapse(time.Minute)
		require.Nil(t, r.Get(k8s.ConfigMap, "one"))
		require.NotEmpty(t, r.Errors("one"))
		require.ErrorContains(t, r.Errors("one")[0], `read whether the parent stays: no; add the rule {apiGroups: ["example.com"], resources: ["parents"], verbs: ["get"]}`)

		server.SetHooks(fakeapi.Hooks{})
		rig.Elapse(10 * time.Minute)
		require.NotNil(t, r.Get(k8s.ConfigMap, "one"))
		r.Stop()
	})
}

// parentReads counts the requests that read one parent (get) or all (list); a
// list that a watch begins with isn't one.
func parentReads(requests []fakeapi.Request) map[string]int {
	reads := map[string]int{}
	for _, req := range requests {
		if req.Type == sample.ParentType() && (req.Verb == "get" || req.Verb == "list") {
			reads[req.Verb]++
		}
	}
	return reads
}
