package manager_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/lead"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// unlucky is rig.Copier for most parents. Of every ten parents one fails, one has the
// name of its child taken, one asks for another call much later, and one is refused
// its child.
func unlucky(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	name := req.Parent.Name()
	switch {
	case strings.HasSuffix(name, "1"):
		return nil, fmt.Errorf("no luck for %s", name)
	case strings.HasSuffix(name, "2"):
		return &handler.SyncResponse{Children: []any{rig.Copied("taken", "v")}}, nil
	case strings.HasSuffix(name, "3"):
		return &handler.SyncResponse{Resync: 24 * time.Hour}, nil
	}
	return rig.Copier(ctx, req)
}

// Nothing is kept of 10,000 parents that come and go, neither by the replica that
// leads nor by the one that waits for the lease.
func TestManager_KeepsNothingOfParentsThatAreGone(t *testing.T) {
	const wave = 500
	for name, tc := range map[string]struct {
		reason   string
		selector string
		waves    int
	}{
		"All":      {reason: "every parent is watched", waves: 8},
		"Selected": {reason: "the last state of a parent that leaves the watch is held until it is released", selector: "mine=yes", waves: 4},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := electionServer()
				server.NoteRequests(false)
				server.SetHooks(fakeapi.Hooks{Admit: func(r fakeapi.Request, _ map[string]any) error {
					if r.Verb == "create" && strings.HasSuffix(r.Key.Name, "4") {
						return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", fmt.Errorf("no"))
					}
					return nil
				}})
				_, err := server.Create(map[string]any{
					"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{
						"name": "taken", "namespace": "ns", "labels": map[string]any{sample.TrackingLabel: "x", "roperator.com/operator": "op"},
					},
				})
				require.NoError(t, err)
				cfg := rig.Config()
				cfg.ParentSelector = tc.selector
				cfg.Finalizer = config.FinalizerAlways
				var replicas []*manager.Manager
				var stops []func()
				for _, name := range []string{"leads", "waits"} {
					m, err := rig.NewOne(cfg, handler.SyncFunc(unlucky), manager.Options{
						RESTConfig: server.RESTConfig(), LeaderElection: &lead.Config{Namespace: "ns", Identity: name}, Logger: sample.DiscardLog(),
					})
					require.NoError(t, err)
					ctx, cancel := context.WithCancel(t.Context())
					ended := make(chan error, 1)
					go func() { ended <- m.Start(ctx) }()
					rig.Elapse(time.Second)
					replicas = append(replicas, m)
					stops = append(stops, func() { cancel(); require.NoError(t, <-ended) })
				}
				sizes := func() (all []map[string]int) {
					for _, m := range replicas {
						of := m.Engine().Sizes()
						maps.DeleteFunc(of, func(_ string, n int) bool { return n == 0 })
						all = append(all, of)
					}
					return all
				}
				before := sizes()
				waves := tc.waves
				if testing.Short() {
					waves = 2
				}
				for w := range waves {
					comeAndGo(t, server, fmt.Sprint("w", w), wave)
				}
				rig.Elapse(2 * time.Minute) // the window of conflict loops
				comeAndGo(t, server, "last", 1)
				require.Equal(t, before, sizes(), tc.reason)
				for _, stop := range slices.Backward(stops) {
					stop()
				}
			})
		})
	}
}

// comeAndGo creates parents, and deletes them after their passes. Half of them leave
// the selector before.
func comeAndGo(t *testing.T, server *fakeapi.Server, prefix string, n int) {
	t.Helper()
	for i := range n {
		_, err := server.Create(map[string]any{
			"apiVersion": sample.ParentType().APIVersion, "kind": sample.ParentType().Kind,
			"metadata": map[string]any{"name": fmt.Sprintf("%s-%d", prefix, i), "namespace": "ns", "labels": map[string]any{"mine": "yes"}},
			"spec":     map[string]any{"value": "v"},
		})
		require.NoError(t, err)
	}
	rig.Elapse(time.Second)
	for i := range n {
		key := rig.Key(fmt.Sprintf("%s-%d", prefix, i))
		if i%2 == 0 {
			_, err := server.Change(sample.ParentType(), key, func(o map[string]any) { o["metadata"].(map[string]any)["labels"] = map[string]any{} })
			require.NoError(t, err)
		}
		if i%4 < 2 { // while the watch has told of the rest
			require.NoError(t, server.Delete(sample.ParentType(), key))
		}
	}
	rig.Elapse(time.Second)
	for _, parent := range server.List(sample.ParentType()) {
		require.NoError(t, server.Delete(sample.ParentType(), parent.Key()))
	}
	rig.Elapse(time.Second)
	require.Empty(t, server.List(sample.ParentType()), "each is released")
	server.CollectGarbage()
	rig.Elapse(time.Second)
	require.Len(t, server.List(k8s.ConfigMap), 1)
}
