package watch_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/internal/engine/watch"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/sample"
)

// lists returns how often all objects were asked for, and how often one.
func (m *mirror) lists() (all, one int) {
	for _, r := range m.server.Requests() {
		switch q := r.Query; {
		case q.Has("sendInitialEvents"), r.Verb == "list" && q.Get("limit") != "1" && !q.Has("continue"):
			all++
		case r.Verb == "list":
			one++
		}
	}
	return all, one
}

// S355: a lost connection resumes the watches and never lists everything anew. S356: one
// list of one object follows it.
func TestS355_LostConnectionResumes(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		err    error         // of each request in the outage; nil: the watches break only
		outage time.Duration // how long there is no API server
		most   int           // lists of one that succeed or fail
	}{
		"Ended":       {reason: "the API server has stopped, and another one serves", most: 1},
		"Refused":     {reason: "no API server runs", err: syscall.ECONNREFUSED, outage: time.Minute, most: 8},
		"Reset":       {reason: "a balancer has no API server", err: syscall.ECONNRESET, outage: time.Minute, most: 8},
		"Unreachable": {reason: "client-go would list anew", err: errors.New("no route to host"), outage: time.Minute, most: 8},
		"NoEtcd":      {reason: "client-go would list anew", err: apierrors.NewInternalError(errors.New("etcdserver: request timed out")), outage: time.Minute, most: 8},
		"NoToken":     {reason: "the token is renewed late", err: apierrors.NewUnauthorized("no"), outage: time.Minute, most: 8},
	} {
		for _, listed := range []bool{false, true} {
			t.Run(name+map[bool]string{false: "Streamed", true: "Listed"}[listed], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := newMirror(t)
					if listed {
						m.server.RefuseWatchLists()
					}
					first := m.create(t, "first")
					m.run(func() {
						<-m.watcher.Synced()
						synctest.Wait()
						before, _ := m.lists()
						if tc.err != nil {
							m.server.SetHooks(fakeapi.Hooks{Before: func(fakeapi.Request) error { return tc.err }})
						}
						m.server.BreakWatches()
						<-time.After(tc.outage)
						m.create(t, "meanwhile")
						require.NoError(t, m.server.Delete(sample.ParentType(), first.Key()))
						m.server.SetHooks(fakeapi.Hooks{})
						<-time.After(time.Minute)
						require.Len(t, m.store.AllParents(), 1, "the watch tells what has happened")
						require.NoError(t, m.watcher.Ready())
						all, one := m.lists()
						require.Equal(t, before, all, tc.reason)
						require.Positive(t, one)
						require.LessOrEqual(t, one, tc.most, "of which the failed ones have a backoff")
					})
					require.Empty(t, m.restored())
				})
			})
		}
	}
}

// S355 holds also if each watch is lost at once, and no request floods the API server.
func TestS355_ShortWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMirror(t)
		m.run(func() {
			<-m.watcher.Synced()
			synctest.Wait()
			before := len(m.server.Requests())
			for range 3000 {
				m.server.BreakWatches()
				<-time.After(20 * time.Millisecond)
			}
			all, _ := m.lists()
			require.Equal(t, 1, all)
			require.Less(t, len(m.server.Requests())-before, 50, "in a minute")
			m.create(t, "new")
			<-time.After(time.Minute)
			require.Len(t, m.store.AllParents(), 1)
		})
	})
}

// Only an API server that has forgotten the last resourceVersion is asked for everything.
func TestS355_Compacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMirror(t)
		m.run(func() {
			<-m.watcher.Synced()
			synctest.Wait()
			m.server.SetHooks(fakeapi.Hooks{Before: func(fakeapi.Request) error { return syscall.ECONNREFUSED }})
			m.server.BreakWatches()
			synctest.Wait()
			m.create(t, "new")
			m.server.Compact()
			m.server.SetHooks(fakeapi.Hooks{})
			<-time.After(time.Minute)
			require.Len(t, m.store.AllParents(), 1)
			all, _ := m.lists()
			require.Equal(t, 2, all)
		})
	})
}

// S356: an etcd that was restored is found by one list of one object, whether or not the connection
// was refused. Of several watchers of a process, one makes it.
func TestS356_Restored(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		outage time.Duration
	}{
		"AtOnce": {reason: "no request has failed"},
		"Outage": {reason: "many have", outage: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMirror(t)
				other := m.watcher.Config
				other.Namespace, other.Selected = "ns", "ns"
				second := watch.New(other)
				ctx, cancel := context.WithCancel(context.Background())
				var running sync.WaitGroup
				defer running.Wait()
				defer cancel()
				running.Go(func() { second.Run(ctx) })
				m.run(func() {
					<-m.watcher.Synced()
					<-second.Synced()
					restore := m.server.Backup()
					m.create(t, "late")
					synctest.Wait()
					var down atomic.Bool
					down.Store(tc.outage > 0)
					m.server.SetHooks(fakeapi.Hooks{Before: func(fakeapi.Request) error {
						if down.Load() {
							return syscall.ECONNREFUSED
						}
						return nil
					}})
					restore()
					<-time.After(tc.outage)
					down.Store(false)
					for len(m.restored()) == 0 {
						<-time.After(100 * time.Millisecond)
					}
					require.ErrorContains(t, m.restored()[0], "etcd was restored from a backup: "+sample.ParentType().String(), tc.reason)
					all, _ := m.lists()
					require.Equal(t, 2, all, "one for each watcher, at the start")
				})
			})
		})
	}
}

// S356: a restore is found though one operator of the process has no watches yet, and a type may not be listed any more.
func TestS356_AnotherWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMirror(t)
		other := m.watcher.Config
		other.Namespace, other.Selected = "ns", "ns"
		second := watch.New(other)
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		storage := m.watcher.Client.Storage()
		running.Go(func() { m.watcher.Run(ctx) })
		running.Go(func() { second.Run(ctx) })
		running.Go(func() { watch.FindRestore(ctx, storage, func() []*watch.Watcher { return nil }) })
		synctest.Wait() // it is the first that waits
		running.Go(func() {
			watch.FindRestore(ctx, storage, func() []*watch.Watcher { return []*watch.Watcher{m.watcher, second} })
		})
		<-m.watcher.Synced()
		<-second.Synced()
		restore := m.server.Backup()
		m.create(t, "late")
		synctest.Wait()
		m.server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
			if req.Verb == "list" && req.Key.Namespace == "" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "parents"}, "", errors.New("no"))
			}
			return nil
		}})
		restore()
		<-time.After(10 * time.Second)
		require.NotEmpty(t, m.restored())
	})
}

// S356: a healthy API server is asked for one object once, not by each watcher.
func TestS356_OneListPerProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMirror(t)
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		for range 9 {
			another := watch.New(m.watcher.Config)
			running.Go(func() { another.Run(ctx) })
		}
		m.run(func() {
			<-time.After(time.Second)
			m.server.BreakWatches()
			<-time.After(time.Minute)
			all, one := m.lists()
			require.Equal(t, 10, all)
			require.Equal(t, 1, one)
		})
		require.Empty(t, m.restored())
	})
}

// S356: watch events and lists from a cache may be older than what is known, since API servers
// behind a balancer are not equally fast.
func TestS356_SlowAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMirror(t)
		m.run(func() {
			<-m.watcher.Synced()
			m.server.Hold(sample.ParentType())
			m.create(t, "late")
			require.NoError(t, m.watcher.Refresh(t.Context()))
			m.server.Release()
			<-time.After(time.Minute)
			m.server.BreakWatches()
			<-time.After(time.Minute)
			require.Len(t, m.store.AllParents(), 1)
		})
		require.Empty(t, m.restored())
	})
}

// A stream of a list that is lost at once is followed by a list in one piece.
func TestWatcher_ListsWhereStreamsBreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMirror(t)
		m.create(t, "first")
		m.server.SetHooks(fakeapi.Hooks{After: func(r fakeapi.Request) error {
			if r.Query.Has("sendInitialEvents") {
				m.server.BreakWatches()
			}
			return nil
		}})
		m.run(func() {
			<-time.After(10 * time.Second)
			require.NoError(t, m.watcher.Ready())
		})
	})
}
