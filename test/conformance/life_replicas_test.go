package conformance

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/runner"
)

// A lifeReplica is one of the processes of an operator, within that of the test.
type lifeReplica struct {
	*witness
	cancel context.CancelFunc
	ended  chan error // gets what Run returns

	mu     sync.Mutex
	synced map[string]int // calls of Sync by parent
}

// startReplica runs a replica that copies until its cancel, or the end of the test. Its
// requests are those of a user who is named as it.
func startReplica(t *testing.T, operatorName, name, namespace string, before func(context.Context, *handler.SyncRequest)) *lifeReplica {
	t.Helper()
	r := &lifeReplica{witness: newWitness(), ended: make(chan error, 1), synced: map[string]int{}}
	cfg := operator(operatorName, configMapChild())
	cfg.Namespaces = []string{namespace}
	h := handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		r.mu.Lock()
		r.synced[req.Parent.Name()]++
		r.mu.Unlock()
		if before != nil {
			before(ctx, req)
		}
		return copier(ctx, req)
	})
	rc := cluster.RESTConfig()
	rc.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:masters"}}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	done := make(chan struct{})
	go func() { // until cancel
		defer close(done)
		r.ended <- insist(func() error {
			return runner.Run(ctx, cfg, h, runner.Options{
				RESTConfig: rc, Logger: slog.New(slog.NewTextHandler(r, nil)), Metrics: r.registry, ShutdownTimeout: time.Second,
				LeaderElection: &runner.LeaderElection{
					Namespace: namespace, Name: operatorName, Identity: name,
					LeaseDuration: 8 * time.Second, RenewDeadline: 6 * time.Second, RetryPeriod: time.Second,
				},
			})
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		if t.Failed() {
			t.Logf("%s said:\n%s", name, r.logged())
		}
	})
	return r
}

// says waits until the replica has logged this.
func (r *lifeReplica) says(t *testing.T, text string) {
	t.Helper()
	eventually(t, "the replica says "+text, func() bool { return anyContains([]string{r.logged()}, text) })
}

// of returns the parents that the replica's handler was called for.
func (r *lifeReplica) of() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.synced))
}

func TestC178_StandbyIsNotFed(t *testing.T) {
	scenario(t, "C178", "a replica that waits for the lease queues nothing, and knows nothing of parents that have gone when it takes over")
	const count, staying = 30, 3
	kit := bystander(t, "c178-bystander")
	one := startReplica(t, "c178", "c178-one", kit.Namespace, nil)
	one.says(t, "msg=leading")
	two := startReplica(t, "c178", "c178-two", kit.Namespace, nil)
	two.says(t, "waiting: the lease is held by another")
	for i := range count {
		kit.Create(parent(fmt.Sprint("p", i), withData("k", "v")))
	}
	var left []string
	for i := range count {
		name := fmt.Sprint("p", i)
		kit.EventuallyExists(configMap(name, "", ""), patience)
		if i < staying {
			left = append(left, name)
			continue
		}
		kit.Delete(parent(name, nil))
		kit.EventuallyGone(parent(name, nil), patience)
	}
	require.Contains(t, two.metrics(), `roperator_queue_depth{controller="c178"} 0`)
	require.Empty(t, two.of())
	one.cancel()
	require.NoError(t, <-one.ended)
	two.says(t, "msg=leading")
	eventually(t, "it has seen all parents", func() bool { return len(two.of()) >= staying })
	kit.Update(parent("p0", withData("k", "w")))
	kit.Eventually(configMap("p0", "k", "w"), patience)
	require.Equal(t, left, two.of())
	eventually(t, "nothing is left to do", func() bool {
		return anyContains([]string{two.metrics()}, `roperator_queue_depth{controller="c178"} 0`)
	})
}

func TestC179_RunsAgainWithItsRegistry(t *testing.T) {
	scenario(t, "C179", "Run is called again with the same registry of metrics, which tells of the second run")
	kit := bystander(t, "c179-bystander")
	w := newWitness()
	cfg := operator("c179", configMapChild())
	cfg.Namespaces = []string{kit.Namespace}
	for run := range 2 {
		name := fmt.Sprint("p", run)
		kit.Create(parent(name, withData("k", "v")))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { // until cancel
			ended <- insist(func() error {
				return runner.Run(ctx, cfg, handler.SyncFunc(copier), runner.Options{
					RESTConfig: cluster.RESTConfig(), Logger: slog.New(slog.NewTextHandler(w, nil)), Metrics: w.registry,
				})
			})
		}()
		eventually(t, "it works, or has ended", func() bool { return len(ended) > 0 || kit.Get(configMap(name, "", "")) != nil })
		require.Empty(t, ended, "%s", w.logged())
		families, err := w.registry.Gather()
		require.NoError(t, err)
		require.NotEmpty(t, families)
		require.Contains(t, w.metrics(), `roperator_queue_depth{controller="c179"}`)
		cancel()
		require.NoError(t, <-ended)
	}
}

func TestC180_HandlerThatIgnoresItsContext(t *testing.T) {
	scenario(t, "C180", "a replica whose handler ignores its context ends all the same, says why, and releases the lease; another goes on, and nothing is written by the first")
	log := needsAudit(t)
	kit := bystander(t, "c180-bystander")
	from := log.mark(t)
	goOn, returned := make(chan struct{}), make(chan struct{})
	one := startReplica(t, "c180", "c180-one", kit.Namespace, func(context.Context, *handler.SyncRequest) {
		<-goOn // whatever becomes of ctx
		close(returned)
	})
	one.says(t, "msg=leading")
	kit.Create(parent("p", withData("k", "v")))
	eventually(t, "the handler is called", func() bool { return len(one.of()) == 1 })
	two := startReplica(t, "c180", "c180-two", kit.Namespace, nil)
	two.says(t, "waiting: the lease is held by another")

	told := time.Now()
	one.cancel()
	err := <-one.ended
	took := time.Since(told)
	require.GreaterOrEqual(t, took, 6*time.Second, "ShutdownTimeout, and five seconds for handlers that clean up")
	require.Less(t, took, patience)
	require.ErrorContains(t, err, "handler: Sync: Parent "+kit.Namespace+"/p: didn't return")
	lease := kit.Get(map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"name": "c180"}})
	held, _ := lease.Field("spec", "holderIdentity")
	require.NotContains(t, held, "c180-one", "it is released, or another one has it by now")
	kit.Eventually(configMap("p", "k", "v"), patience)
	require.Equal(t, []string{"p"}, two.of())
	close(goOn)
	<-returned
	during(t, 2*time.Second)
	for _, r := range log.all(t, from) {
		require.False(t, r.As == "c180-one" && r.persists() && r.Resource != "leases" && r.Resource != "events", "%s", r)
	}
}
