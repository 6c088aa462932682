package manager_test

import (
	"context"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// After a restore of etcd from a backup the resourceVersions are lower than those that
// the operator holds. It starts over, and doesn't wait until they have caught up.
func TestRestored_OperatorStartsOver(t *testing.T) {
	for name, refuse := range map[string]bool{"WatchList": false, "List": true} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				if refuse {
					server.RefuseWatchLists()
				}
				r := rig.Start(t, server, rig.Config(), handler.SyncFunc(rig.Copier))
				r.Create("one", "v1")
				r.Create("both", "v1")
				rig.Elapse(time.Second)
				restore := server.Backup()
				r.SetSpec("one", "v2")
				for range 50 {
					r.Create("two", "v1")
					synctest.Wait()
					require.NoError(t, server.Delete(sample.ParentType(), rig.Key("two")))
					require.NoError(t, server.Delete(k8s.ConfigMap, rig.Key("two")))
					synctest.Wait()
				}
				r.Create("two", "v1")
				rig.Elapse(time.Minute)
				require.NotNil(t, r.Get(k8s.ConfigMap, "two"))

				restore()
				rig.Elapse(10 * time.Second)
				require.NoError(t, r.Manager.Ready())
				_, held := r.Manager.Engine().Snapshot(rig.Key("two"))
				require.False(t, held, "it isn't in the backup")
				require.Equal(t, 2, strings.Count(r.Logs.String(), "resourceVersions have gone back"), "once for each type")

				r.SetSpec("one", "v3")
				require.NoError(t, server.Delete(k8s.ConfigMap, rig.Key("both")))
				rig.Elapse(time.Second)
				for name, want := range map[string]string{"one": "v3", "both": "v1"} {
					child := r.Get(k8s.ConfigMap, name)
					require.NotNil(t, child, name)
					value, _ := child.Field("data", "value")
					require.Equal(t, want, value)
					observed, _ := r.Get(sample.ParentType(), name).Field("status", "value")
					require.Equal(t, want, observed)
				}
				require.Nil(t, r.Get(k8s.ConfigMap, "two"))
				rig.Elapse(time.Minute)
				writes := len(server.Writes())
				rig.Elapse(time.Minute)
				require.Len(t, server.Writes(), writes, "it settles")
				require.Equal(t, 2, strings.Count(r.Logs.String(), "resourceVersions have gone back"))
				r.Stop()
			})
		})
	}
}

// A parent lives again after a restore, and is deleted once more: what Finalize has done in the
// first deletion doesn't count in the second one.
func TestRestored_FinalizedOnceMore(t *testing.T) {
	for name, lives := range map[string]time.Duration{"Lives": 10 * time.Minute, "At once": 0} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, cfg := rig.Server(), rig.Config()
				cfg.Teardown = config.TeardownOrdered
				finalized := 0
				r := rig.Start(t, server, cfg, handler.Funcs{
					SyncFunc: rig.Copier,
					FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
						finalized++
						return &handler.FinalizeResponse{Finalized: true}, nil
					},
				})
				hold := func(by ...any) {
					r.Change(k8s.ConfigMap, "one", func(o map[string]any) {
						o["metadata"].(map[string]any)["finalizers"] = by
					})
				}
				r.Create("one", "v")
				rig.Elapse(time.Minute)
				hold("example.com/holds")
				rig.Elapse(time.Minute)
				restore := server.Backup()
				require.NoError(t, server.Delete(sample.ParentType(), rig.Key("one")))
				rig.Elapse(time.Hour)
				require.Equal(t, 1, finalized, "once in a deletion, however long it takes")

				restore()
				require.False(t, r.Get(sample.ParentType(), "one").IsDeleting())
				rig.Elapse(lives)
				require.NoError(t, server.Delete(sample.ParentType(), rig.Key("one")))
				rig.Elapse(time.Hour)
				require.Equal(t, 2, finalized)
				hold()
				rig.Elapse(time.Minute)
				gone := r.Get(sample.ParentType(), "one") == nil
				r.Stop()
				require.True(t, gone)
				require.Equal(t, 2, finalized)
			})
		})
	}
}

// The new history has overtaken the old one when the operator sees the API server again.
// No list is older than it was asked for, and no watch is refused.
func TestRestored_HistoryThatWasOvertaken(t *testing.T) {
	people := func(r *rig.Rig) {
		r.SetSpec("changed", "v2")
		r.Create("late", "v1")
	}
	for name, tc := range map[string]struct {
		reason  string
		refusal error
		forgot  func(*rig.Rig)
		last    resource.Type // the type that can be reached 20 seconds after the others; zero: none
	}{
		"Refused": {"client-go's Reflector would go on with the watch", syscall.ECONNREFUSED, people, resource.Type{}},
		"Reset":   {"client-go's REST client would try again by itself", syscall.ECONNRESET, people, resource.Type{}},
		"ByOne": {"only the list of one type shows it", syscall.ECONNREFUSED, func(r *rig.Rig) {
			r.Change(k8s.ConfigMap, "changed", func(o map[string]any) { o["data"] = map[string]any{"value": "theirs"} })
		}, k8s.ConfigMap},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				r := rig.Start(t, server, rig.Config(), handler.SyncFunc(rig.Copier))
				for _, name := range []string{"changed", "same", "meanwhile"} {
					r.Create(name, "v1")
				}
				rig.Elapse(time.Second)
				restore := server.Backup()
				tc.forgot(r)
				rig.Elapse(time.Minute)

				var down atomic.Bool
				var lastIs atomic.Int64 // when the last type can be reached
				down.Store(true)
				server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
					if down.Load() || req.Type == tc.last && time.Now().UnixNano() < lastIs.Load() {
						return tc.refusal
					}
					return nil
				}})
				before := server.Version()
				restore()
				r.SetSpec("meanwhile", "v3")
				if tc.last == (resource.Type{}) { // else a pass would list the parents, to see whether theirs stays
					require.NoError(t, server.Delete(k8s.ConfigMap, rig.Key("same")))
				}
				for server.Version() < 2*before {
					r.Create("busy", "v1")
					require.NoError(t, server.Delete(sample.ParentType(), rig.Key("busy")))
				}
				rig.Elapse(5 * time.Second)
				lastIs.Store(time.Now().Add(20 * time.Second).UnixNano())
				down.Store(false)
				rig.Elapse(2 * time.Minute)

				require.Equal(t, 2, strings.Count(r.Logs.String(), "resourceVersions have gone back"), "once for each type: %s", tc.reason)
				r.SetSpec("changed", "v4")
				rig.Elapse(time.Second)
				for name, want := range map[string]string{"changed": "v4", "same": "v1", "meanwhile": "v3"} {
					child := r.Get(k8s.ConfigMap, name)
					require.NotNil(t, child, name)
					value, _ := child.Field("data", "value")
					require.Equal(t, want, value, name)
				}
				_, held := r.Manager.Engine().Snapshot(rig.Key("late"))
				require.False(t, held, "it isn't in the backup")
				writes := len(server.Writes())
				rig.Elapse(time.Minute)
				require.Len(t, server.Writes(), writes, "it settles")
				r.Stop()
			})
		})
	}
}
