package watch_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/internal/testing/fakeapi"
)

// TestWatcher_Requests: whichever way the objects come, only those that are selected are
// asked for. No list may come from a stale cache, nor be only as new as the last one: it could
// lack an own write.
func TestWatcher_Requests(t *testing.T) {
	for name, refuse := range map[string]bool{"Streamed": false, "Listed": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMirror(t)
				m.watcher.Selector = "a=b"
				m.create(t, "other")
				if refuse {
					m.server.RefuseWatchLists()
				}
				m.run(func() {
					<-m.watcher.Synced()
					m.create(t, "another")
					synctest.Wait()
					m.server.Compact()
					m.server.BreakWatches()
					<-time.After(time.Minute)
				})
				require.Empty(t, m.store.AllParents())
				asked, lists := 0, 0
				for _, r := range m.server.Requests() {
					if r.Verb != "list" && r.Verb != "watch" {
						continue
					}
					if r.Query.Get("limit") == "1" {
						continue // it is asked for the resourceVersion alone
					}
					asked++
					require.Equal(t, "a=b", r.Query.Get("labelSelector"), "%s", r)
					require.NotEqual(t, "0", r.Query.Get("resourceVersion"), "%s may be answered from a stale cache", r)
					if r.Query.Has("sendInitialEvents") || r.Verb == "list" && !r.Query.Has("continue") {
						lists++
						require.Empty(t, r.Query.Get("resourceVersion"), "%s", r)
					}
				}
				require.Positive(t, asked)
				require.Greater(t, lists, 1)
			})
		})
	}
}

// TestWatcher_LosesTheWatch: once a watch has been served, no failure ends the process,
// but the watcher isn't ready.
func TestWatcher_LosesTheWatch(t *testing.T) {
	for name, err := range map[string]error{
		"Forbidden":    apierrors.NewForbidden(schema.GroupResource{Resource: "parents"}, "", errors.New("no")),
		"Unauthorized": apierrors.NewUnauthorized("no"),
		"Broken":       errors.New("connection refused"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMirror(t)
				m.run(func() {
					<-m.watcher.Synced()
					m.server.SetHooks(fakeapi.Hooks{Before: func(fakeapi.Request) error { return err }})
					m.server.BreakWatches()
					<-time.After(time.Minute)
					require.ErrorContains(t, m.watcher.Ready(), err.Error())
				})
				require.Empty(t, m.fatal(), "somebody may mend it")
			})
		})
	}
}

// TestWatcher_Pages: a list can't be older than what was known when its first page was
// asked for. What was told in the meantime shows no restore.
func TestWatcher_Pages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMirror(t)
		m.server.RefuseWatchLists()
		m.server.LimitPages(1)
		for i := range 3 {
			m.create(t, fmt.Sprint("p", i))
		}
		pages := 0
		m.server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Query.Get("continue") != "" {
				pages++
				require.NoError(t, m.watcher.Bookmark("1000000"))
			}
			return nil
		}})
		m.run(func() { <-m.watcher.Synced() })
		require.Equal(t, 2, pages)
		require.Empty(t, m.restored())
	})
}
