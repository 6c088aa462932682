package manager_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/lead"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// wide returns a server and an operator with so many namespaces and types. Each type of
// children is one to adopt.
func wide(namespaces, types int) (*fakeapi.Server, config.Operator) {
	kinds := []fakeapi.Kind{fakeapi.Custom(sample.ParentType(), "parents"), fakeapi.ConfigMaps(), fakeapi.Leases()}
	cfg := rig.Config()
	for i := range types - 2 {
		part := resource.Type{APIVersion: "example.com/v1", Kind: fmt.Sprint("Part", i)}
		kinds = append(kinds, fakeapi.Custom(part, fmt.Sprint("part", i, "s")))
		cfg.Children = append(cfg.Children, config.Child{Type: part, Strategy: config.Replace, Adopt: true})
	}
	cfg.Namespaces = []string{"ns"}
	for i := range namespaces - 1 {
		cfg.Namespaces = append(cfg.Namespaces, fmt.Sprint("ns", i))
	}
	server := fakeapi.New(kinds...)
	server.NoteRequests(false)
	return server, cfg
}

// A replica that takes the lease lists everything before it works. The lists run in parallel,
// within bounds (S357).
func TestFailover_ListsInParallel(t *testing.T) {
	const atOnce = 16
	for name, tc := range map[string]struct {
		reason            string
		namespaces, types int
		qps               float32 // 0: no limit
		least, most       time.Duration
	}{
		"Few":        {reason: "all at once", namespaces: 1, types: 3, most: 50 * time.Millisecond},
		"Some":       {reason: "60 lists, and 20 for what may be adopted", namespaces: 20, types: 3, most: 100 * time.Millisecond},
		"Many":       {reason: "1,800 lists, and 1,400 for what may be adopted; one by one they took 32 s", namespaces: 200, types: 9, most: 2100 * time.Millisecond},
		"Rate limit": {reason: "80 lists at five a second: the limit holds, and a slow beginning keeps the lease", namespaces: 20, types: 3, qps: 5, least: 15 * time.Second, most: 17 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, cfg := wide(tc.namespaces, tc.types)
				var underWay, most, lists, begin, end atomic.Int64
				var armed atomic.Bool
				server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
					if r.Verb != "list" || !armed.Load() {
						return nil
					}
					lists.Add(1)
					begin.CompareAndSwap(0, time.Now().UnixNano())
					most.Store(max(most.Load(), underWay.Add(1)))
					defer underWay.Add(-1)
					<-time.After(10 * time.Millisecond)
					return nil
				}})
				rig.CreateParent(t, server, "p000", "v")
				a := startReplicaOf(t, server, "a", cfg, handler.SyncFunc(rig.Copier))
				rig.Elapse(time.Minute)
				b := startReplicaWith(t, server, "b", cfg, handler.SyncFunc(func(ctx context.Context, r *handler.SyncRequest) (*handler.SyncResponse, error) {
					end.CompareAndSwap(0, time.Now().UnixNano())
					return rig.Copier(ctx, r)
				}), func(o *manager.Options) { o.RESTConfig.QPS, o.RESTConfig.Burst = tc.qps, 1 })
				rig.Elapse(time.Minute)
				armed.Store(true)
				a.cancel()
				require.NoError(t, <-a.ended)
				rig.Elapse(5 * time.Minute)
				took := time.Duration(end.Load() - begin.Load())
				t.Logf("%d lists, at most %d at once: %v", lists.Load(), most.Load(), took)
				require.LessOrEqual(t, took, tc.most, tc.reason)
				require.GreaterOrEqual(t, took, tc.least, tc.reason)
				require.LessOrEqual(t, most.Load(), int64(atOnce))
				require.NotContains(t, b.logs.String(), "giving the lease away")
				b.cancel()
				require.NoError(t, <-b.ended)
			})
		})
	}
}

// A hanging is a connection on which lists have no response while on is set, but for an
// error after a minute.
type hanging struct {
	next http.RoundTripper
	on   *atomic.Bool
}

func (h *hanging) RoundTrip(req *http.Request) (*http.Response, error) {
	if q := req.URL.Query(); h.on.Load() && q.Has("limit") && !q.Has("watch") {
		select {
		case <-req.Context().Done():
			return nil, req.Context().Err()
		case <-time.After(time.Minute): // --request-timeout of the API server
			return nil, errors.New("timeout")
		}
	}
	return h.next.RoundTrip(req)
}

// A leader whose lists make no progress gives the lease away (S357), and takes it again only
// once its lists succeed.
func TestFailover_GivesTheLeaseAway(t *testing.T) {
	broken := apierrors.NewInternalError(errors.New("etcd has no leader"))
	for name, tc := range map[string]struct {
		reason string
		list   func(fakeapi.Request) error
		hang   bool // no list of the bad replica has a response
		keeps  bool
	}{
		"All fail": {reason: "nothing is reconciled here", list: func(fakeapi.Request) error { return broken }},
		"One fails": {
			reason: "the operator needs all, and the others have arrived long ago",
			list: func(r fakeapi.Request) error {
				if r.Type == k8s.ConfigMap {
					return broken
				}
				return nil
			},
		},
		"Hang": {reason: "no response is no progress", hang: true, list: func(fakeapi.Request) error { return nil }},
		"Slow": {
			reason: "a list arrives every 8 s, and RenewDeadline is 10 s", keeps: true,
			list: func(r fakeapi.Request) error {
				slow := map[string]time.Duration{"ns0": 8 * time.Second, "ns1": 16 * time.Second, "ns2": 24 * time.Second}
				<-time.After(max(time.Millisecond, slow[r.Key.Namespace]))
				return nil
			},
		},
		"Late": {
			reason: "they fail for 9 s", keeps: true,
			list: func() func(fakeapi.Request) error {
				var first atomic.Int64
				return func(fakeapi.Request) error {
					first.CompareAndSwap(0, time.Now().UnixNano())
					if time.Since(time.Unix(0, first.Load())) < 9*time.Second {
						return broken
					}
					return nil
				}
			}(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, cfg := wide(4, 3)
				server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
					if r.Verb == "list" && r.UserAgent == "bad" {
						return tc.list(r)
					}
					return nil
				}})
				rig.CreateParent(t, server, "p", "v")
				var hang atomic.Bool
				hang.Store(tc.hang)
				bad := startReplicaWith(t, server, "bad", cfg, handler.SyncFunc(rig.Copier), func(o *manager.Options) {
					o.RESTConfig.Wrap(func(next http.RoundTripper) http.RoundTripper { return &hanging{next, &hang} })
				})
				rig.Elapse(time.Second)
				require.Equal(t, "bad", holder(server))
				good := startReplicaOf(t, server, "good", cfg, handler.SyncFunc(rig.Copier))
				rig.Elapse(8 * time.Second)
				require.Equal(t, "bad", holder(server), "RenewDeadline hasn't passed")
				rig.Elapse(80 * time.Second)
				require.NotNil(t, server.Get(k8s.ConfigMap, rig.Key("p")), "a replica works")
				if tc.keeps {
					require.Equal(t, "bad", holder(server), tc.reason)
					require.NotContains(t, bad.logs.String(), "giving the lease away")
				} else {
					require.Equal(t, "good", holder(server), tc.reason)
					require.Contains(t, bad.logs.String(), `level=WARN msg="giving the lease away: no list of any operator has made progress, so no parent is reconciled here" for=10s`)
					require.NoError(t, bad.runner.Healthy(), "a restart mends nothing")
				}
				good.cancel()
				require.NoError(t, <-good.ended)
				rig.Elapse(5 * time.Minute)
				if !tc.keeps {
					require.Empty(t, holder(server), "it can't list still")
					require.Equal(t, 1, strings.Count(bad.logs.String(), "giving the lease away"), "the log isn't flooded")
				}
				server.SetHooks(fakeapi.Hooks{})
				hang.Store(false)
				rig.CreateParent(t, server, "later", "v")
				rig.Elapse(70 * time.Second)
				require.Equal(t, "bad", holder(server))
				require.NotNil(t, server.Get(k8s.ConfigMap, rig.Key("later")))
				bad.cancel()
				require.NoError(t, <-bad.ended)
				require.Empty(t, holder(server), "released")
			})
		})
	}
}

// A type that can't be listed holds back the operator that needs it, and no other one (S352).
func TestFailover_TypeThatCannotBeListed(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		election bool
		shards   int
		verbs    string // that fail for Secrets
	}{
		"Start":                {reason: "no first list", verbs: "list watch"},
		"Start, with election": {reason: "no first list: the process takes the lease for the other operator", election: true, verbs: "list watch"},
		"Start of shards":      {reason: "their children can't get their labels", election: true, shards: 2, verbs: "list watch"},
		"Take-over":            {reason: "mirrored, and the list when it begins to lead fails", election: true, verbs: "list"},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"), fakeapi.Custom(otherParent, "others"), fakeapi.ConfigMaps(), fakeapi.Secrets(), fakeapi.Leases())
				server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
					if r.Type == k8s.Secret && strings.Contains(tc.verbs, r.Verb) {
						return apierrors.NewInternalError(errors.New("conversion webhook"))
					}
					return nil
				}})
				secrets := handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
					return &handler.SyncResponse{Children: []any{map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": req.Parent.Name()}}}}, nil
				})
				logs := &rig.Logs{}
				opts := manager.Options{RESTConfig: server.RESTConfig(), Shards: tc.shards, Logger: slog.New(slog.NewTextHandler(logs, nil))}
				if tc.election {
					opts.LeaderElection = &lead.Config{Namespace: "ns", Identity: "one"}
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := make(chan error, 1)
				go func() { ended <- rig.RunAll(ctx, opts, twoOperators(handler.SyncFunc(rig.Copier), secrets)...) }()
				rig.CreateParent(t, server, "p", "v")
				_, err := server.Create(map[string]any{"apiVersion": otherParent.APIVersion, "kind": "Other", "metadata": map[string]any{"name": "o", "namespace": "ns"}})
				require.NoError(t, err)
				rig.Elapse(time.Minute)
				require.NotNil(t, server.Get(k8s.ConfigMap, rig.Key("p")), tc.reason)
				require.Nil(t, server.Get(k8s.Secret, rig.Key("o")))
				require.NotContains(t, logs.String(), "giving the lease away", "an operator works")
				server.SetHooks(fakeapi.Hooks{})
				rig.Elapse(time.Minute)
				require.NotNil(t, server.Get(k8s.Secret, rig.Key("o")), "it begins once it can")
				cancel()
				require.NoError(t, <-ended)
			})
		})
	}
}
