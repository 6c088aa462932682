package manager_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/lead"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/engine/revision"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// endedByRestore requires that the operator ends by itself within d, and says why.
func endedByRestore(t *testing.T, r *rig.Rig, d time.Duration) {
	t.Helper()
	select {
	case err := <-r.Ended:
		var restored *revision.RestoredError
		require.ErrorAs(t, err, &restored)
	case <-time.After(d):
		require.FailNow(t, "the operator still runs")
	}
}

// S356: after a restore of etcd from a backup the process ends. The restart reads everything anew and
// converges.
func TestS356_RestoredEtcdEndsTheProcess(t *testing.T) {
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
				r.Create("two", "v1")
				rig.Elapse(time.Minute)
				require.NotNil(t, r.Get(k8s.ConfigMap, "two"))

				restore()
				endedByRestore(t, r, 5*time.Second)
				r = rig.Start(t, server, rig.Config(), handler.SyncFunc(rig.Copier))
				rig.Elapse(time.Second)
				require.NoError(t, r.Manager.Ready())
				_, held := r.Manager.Engine().Snapshot(rig.Key("two"))
				require.False(t, held, "it isn't in the backup")
				r.SetSpec("one", "v3")
				require.NoError(t, server.Delete(k8s.ConfigMap, rig.Key("both")))
				rig.Elapse(time.Second)
				for name, want := range map[string]string{"one": "v3", "both": "v1"} {
					value, _ := r.Get(k8s.ConfigMap, name).Field("data", "value")
					require.Equal(t, want, value)
					observed, _ := r.Get(sample.ParentType(), name).Field("status", "value")
					require.Equal(t, want, observed)
				}
				rig.Elapse(time.Minute)
				writes := len(server.Writes())
				rig.Elapse(time.Minute)
				require.Len(t, server.Writes(), writes, "it settles")
				r.Stop()
			})
		})
	}
}

// S356: each of three consistent reads shows a restore by itself: the list of one object, the response
// to an own write, and a renewal of the Lease.
func TestS356_WhatShowsARestore(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		passes func(fakeapi.Request) bool // the requests that reach the restored API server
		lease  bool
	}{
		"List":  {reason: "it follows the lost connection", passes: func(r fakeapi.Request) bool { return r.Verb == "list" || r.Verb == "watch" }},
		"Write": {reason: "a create is persisted", passes: func(r fakeapi.Request) bool { return r.Verb == "create" && r.Type == k8s.ConfigMap }},
		"Lease": {reason: "a renewal is persisted", passes: func(r fakeapi.Request) bool { return r.Type == k8s.Lease }, lease: true},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"), fakeapi.ConfigMaps(), fakeapi.Leases())
				names := 0
				h := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
					names++
					child := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprint("c", names)}}
					return &handler.SyncResponse{Children: []any{child}, Resync: 5 * time.Second}, nil
				})
				opts := manager.Options{RESTConfig: server.RESTConfig()}
				if tc.lease {
					opts.LeaderElection = &lead.Config{Namespace: "ns", Name: "lease", Identity: "one"}
				}
				r := rig.StartWith(t, server, rig.Config(), h, opts)
				r.Create("p", "v")
				rig.Elapse(10 * time.Second)
				restore := server.Backup()
				rig.Elapse(time.Hour)
				server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
					if tc.passes(req) {
						return nil
					}
					return syscall.ECONNREFUSED
				}})
				restore()
				endedByRestore(t, r, 20*time.Second)
			})
		})
	}
}

// S355: an outage of the API server is followed by no list of everything, also where parents have a
// selector.
func TestS355_OutageListsNothing(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, cfg := rig.Server(), rig.Config()
		cfg.ParentSelector, cfg.Finalizer = "mine=yes", config.FinalizerAlways
		r := rig.Start(t, server, cfg, handler.SyncFunc(rig.Copier))
		rig.Elapse(time.Minute)
		before := len(server.Requests())
		for _, err := range []error{syscall.ECONNREFUSED, syscall.ECONNRESET, errors.New("no route to host")} {
			server.SetHooks(fakeapi.Hooks{Before: func(fakeapi.Request) error { return err }})
			server.BreakWatches()
			rig.Elapse(time.Minute)
			server.SetHooks(fakeapi.Hooks{})
			rig.Elapse(time.Minute)
			require.NoError(t, r.Manager.Ready())
		}
		for _, req := range server.Requests()[before:] {
			require.False(t, req.Verb == "list" && req.Query.Get("limit") != "1" || req.Query.Has("sendInitialEvents"), "%s", req)
		}
		r.Stop()
	})
}

// What S356 cannot see: the revisions overtook the operator's before it was back. A parent lives again
// then, and is deleted once more: what Finalize has done in the first deletion doesn't count in the second one.
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

				var down atomic.Bool
				down.Store(true)
				server.SetHooks(fakeapi.Hooks{Before: func(fakeapi.Request) error {
					if down.Load() {
						return syscall.ECONNREFUSED
					}
					return nil
				}})
				before := server.Version()
				restore()
				for server.Version() <= before {
					r.Create("busy", "v1")
					require.NoError(t, server.Delete(sample.ParentType(), rig.Key("busy")))
				}
				down.Store(false)
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
