package manager_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
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
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

var leaseType = resource.Type{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}

func electionServer() *fakeapi.Server {
	return fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"), fakeapi.ConfigMaps(), fakeapi.Kind{Type: leaseType, Plural: "leases"})
}

// A replica is one of several processes that run the same operator.
type replica struct {
	name   string
	logs   *rig.Logs
	runner *manager.Manager
	cancel context.CancelFunc
	ended  chan error
}

func startReplica(t *testing.T, server *fakeapi.Server, name string, h handler.Handler) *replica {
	t.Helper()
	return startReplicaOf(t, server, name, rig.Config(), h)
}

func startReplicaOf(t *testing.T, server *fakeapi.Server, name string, cfg config.Operator, h handler.Handler) *replica {
	t.Helper()
	return startReplicaWith(t, server, name, cfg, h, func(*manager.Options) {})
}

// startReplicaWith is startReplicaOf with options that change has changed.
func startReplicaWith(t *testing.T, server *fakeapi.Server, name string, cfg config.Operator, h handler.Handler, change func(*manager.Options)) *replica {
	t.Helper()
	r := &replica{name: name, logs: &rig.Logs{}, ended: make(chan error, 1)}
	rc := server.RESTConfig()
	rc.UserAgent = name
	opts := manager.Options{
		RESTConfig: rc, LeaderElection: &lead.Config{Namespace: "ns", Identity: name}, ShutdownTimeout: time.Minute,
		Logger: slog.New(slog.NewTextHandler(r.logs, nil)),
	}
	change(&opts)
	var err error
	r.runner, err = rig.NewOne(cfg, h, opts)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() { r.ended <- r.runner.Start(ctx) }()
	t.Cleanup(cancel)
	synctest.Wait()
	return r
}

// writesBy returns the writes of a replica, of leases aside.
func writesBy(server *fakeapi.Server, name string) []string {
	var out []string
	for _, r := range server.Requests() {
		if r.UserAgent == name && r.Writes() && r.Type != leaseType {
			out = append(out, r.String())
		}
	}
	return out
}

func holder(server *fakeapi.Server) any {
	lease := server.Get(leaseType, rig.Key("op"))
	if lease == nil {
		return nil
	}
	value, _ := lease.Field("spec", "holderIdentity")
	return value
}

// until lets time pass until the condition holds, and returns how much did.
func until(t *testing.T, limit time.Duration, condition func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	for !condition() {
		require.Less(t, time.Since(begin), limit, "it takes too long")
		rig.Elapse(10 * time.Millisecond)
	}
	return time.Since(begin)
}

func TestLeader_HandsOver(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := electionServer()
		goOn := make(chan struct{})
		slow := handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			if req.Parent.Name() == "slow" {
				<-goOn
			}
			return rig.Copier(ctx, req)
		})
		one := startReplica(t, server, "one", slow)
		two := startReplica(t, server, "two", handler.SyncFunc(rig.Copier))
		rig.CreateParent(t, server, "first", "v")
		rig.CreateParent(t, server, "slow", "v")
		rig.Elapse(time.Second)
		require.Equal(t, "one", holder(server))
		require.NoError(t, two.runner.Ready(), "it could take over at once")
		require.NotNil(t, server.Get(k8s.ConfigMap, rig.Key("first")))
		require.Empty(t, writesBy(server, "two"))
		require.Contains(t, two.logs.String(), `msg="waiting: the lease is held by another"`)
		require.Contains(t, two.logs.String(), "holder=one")

		// The lease is kept while a pass is still running, and renewed.
		one.cancel()
		rig.Elapse(30 * time.Second)
		require.Equal(t, "one", holder(server))
		rig.CreateParent(t, server, "second", "v")
		synctest.Wait()
		require.Nil(t, server.Get(k8s.ConfigMap, rig.Key("second")), "no new pass is begun")
		close(goOn)
		require.NoError(t, <-one.ended)
		require.NotNil(t, server.Get(k8s.ConfigMap, rig.Key("slow")), "it was finished")
		took := until(t, time.Minute, func() bool { return holder(server) == "two" })
		require.LessOrEqual(t, took, 4400*time.Millisecond, "2.2 times RetryPeriod")
		synctest.Wait()
		require.NotNil(t, server.Get(k8s.ConfigMap, rig.Key("second")))
		two.cancel()
		require.NoError(t, <-two.ended)
		require.Empty(t, holder(server), "released")
	})
}

// A replica that can't renew its lease writes nothing more from RenewDeadline
// on, although its requests would be served, and says why it stops.
func TestLeader_LosesTheLease(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := electionServer()
		one := startReplica(t, server, "one", handler.SyncFunc(rig.Copier))
		two := startReplica(t, server, "two", handler.SyncFunc(rig.Copier))
		rig.Elapse(time.Second)
		require.Equal(t, "one", holder(server))
		var mu sync.Mutex
		var renewed time.Time // when the last renewal was begun
		cut := false
		writes := map[string][]time.Time{}
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case r.Type == leaseType && r.UserAgent == "one":
				if cut {
					return errors.New("cut off")
				}
				if r.Verb == "update" {
					renewed = time.Now()
				}
			case r.Writes() && r.Type == k8s.ConfigMap:
				writes[r.UserAgent] = append(writes[r.UserAgent], time.Now())
			}
			return nil
		}})
		rig.Elapse(5 * time.Second)
		mu.Lock()
		cut = true
		mu.Unlock()
		for i := range 60 {
			rig.CreateParent(t, server, fmt.Sprint("p", i), "v")
			rig.Elapse(500 * time.Millisecond)
		}
		require.ErrorContains(t, <-one.ended, "Lease ns/op: lost: it wasn't renewed for 10s")
		require.Contains(t, one.logs.String(), "lease request failed, retrying")
		two.cancel()
		require.NoError(t, <-two.ended)
		require.NotEmpty(t, writes["one"])
		last, first := writes["one"][len(writes["one"])-1], writes["two"][0]
		require.Less(t, last.Sub(renewed), 10*time.Second, "no write starts after RenewDeadline")
		require.Greater(t, last.Sub(renewed), 9*time.Second, "up to then it works")
		require.Greater(t, first.Sub(renewed), 15*time.Second, "the other waits for LeaseDuration")
		require.Less(t, first.Sub(renewed), 15*time.Second+4400*time.Millisecond, "and for 2.2 times RetryPeriod at most")
		for i := range 60 {
			require.NotNil(t, server.Get(k8s.ConfigMap, rig.Key(fmt.Sprint("p", i))))
		}
	})
}

// A pass that is in the middle when the lease is lost ends there. Nothing is written any
// more, not even the Event of its handler, which doesn't end with the pass.
func TestLeader_CutsPassesShort(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := electionServer()
		var cause error
		one := startReplica(t, server, "one", handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			<-ctx.Done()
			cause = context.Cause(ctx)
			resp, err := rig.Copier(context.Background(), req)
			resp.Events = append(resp.Events, handler.Event{Reason: "Late", Message: "the lease is lost"})
			return resp, err
		}))
		rig.CreateParent(t, server, "p", "v")
		rig.Elapse(time.Second)
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Type == leaseType {
				return errors.New("cut off")
			}
			return nil
		}})
		require.Error(t, <-one.ended)
		require.ErrorContains(t, cause, "lost")
		require.Empty(t, writesBy(server, "one"))
	})
}

// Whoever deletes the Lease lets another replica lead at once: the first one
// must notice.
func TestLeader_LeaseTaken(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := electionServer()
		one := startReplica(t, server, "one", handler.SyncFunc(rig.Copier))
		rig.CreateParent(t, server, "first", "v")
		rig.Elapse(time.Second)
		require.Equal(t, "one", holder(server))
		_, err := server.Change(leaseType, rig.Key("op"), func(o map[string]any) { o["spec"].(map[string]any)["holderIdentity"] = "two" })
		require.NoError(t, err)
		require.Less(t, until(t, time.Minute, func() bool { return len(one.ended) > 0 }), 2200*time.Millisecond)
		require.EqualError(t, <-one.ended, "Lease ns/op: lost: two took it; was the Lease deleted or changed by hand?")
		require.Equal(t, "two", holder(server))
		rig.CreateParent(t, server, "second", "v")
		rig.Elapse(time.Minute)
		require.Nil(t, server.Get(k8s.ConfigMap, rig.Key("second")))
	})
}

func TestLeader_Forbidden(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := electionServer()
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Type == leaseType {
				return apierrors.NewForbidden(schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, "op",
					errors.New(`User "u" cannot get resource "leases" in API group "coordination.k8s.io" in the namespace "ns"`))
			}
			return nil
		}})
		one := startReplica(t, server, "one", handler.SyncFunc(rig.Copier))
		err := <-one.ended
		require.ErrorContains(t, err, "Lease ns/op: get: ")
		require.ErrorContains(t, err, `add the rule {apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["get"]}`)
	})
}

func TestLeader_DryRunTakesNoLease(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := electionServer()
		cfg := rig.Config()
		cfg.DryRun = true
		rig.CreateParent(t, server, "p", "v")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, rig.RunOne(ctx, cfg, handler.SyncFunc(rig.Copier), manager.Options{
			RESTConfig: server.RESTConfig(), Logger: sample.DiscardLog(), LeaderElection: &lead.Config{},
		}))
		require.False(t, slices.ContainsFunc(server.Requests(), func(r fakeapi.Request) bool {
			return r.Type == leaseType || r.Writes() && !r.DryRun
		}))
	})
}

// The watches of a replica that waits may lag behind. What the one before it has
// finalized must not be synced again when it takes over.
func TestLeaderElection_TakesOverWithTheNewestState(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := electionServer()
		first := startReplica(t, server, "first", handler.SyncFunc(rig.Copier))
		gone := rig.CreateParent(t, server, "gone", "v1")
		rig.CreateParent(t, server, "left", "v1")
		synctest.Wait()
		var mu sync.Mutex
		synced := map[string]any{}
		second := startReplica(t, server, "second", handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			mu.Lock()
			defer mu.Unlock()
			synced[req.Parent.Name()], _ = req.Parent.Field("spec", "value")
			return rig.Copier(ctx, req)
		}))
		rig.Elapse(time.Minute)
		server.Hold(sample.ParentType())
		require.NoError(t, server.Delete(sample.ParentType(), gone.Key()))
		_, err := server.Change(sample.ParentType(), rig.Key("left"), func(o map[string]any) { o["spec"] = map[string]any{"value": "v2"} })
		require.NoError(t, err)
		first.cancel()
		require.NoError(t, <-first.ended)
		rig.Elapse(time.Minute)
		require.Equal(t, "second", holder(server))
		server.Release() // which tells what is known
		rig.Elapse(time.Minute)
		mu.Lock()
		require.Equal(t, map[string]any{"left": "v2"}, synced)
		mu.Unlock()
		second.cancel()
		require.NoError(t, <-second.ended)
	})
}

// Which unlabelled objects there are, and which parents have left the selector, is
// looked up by the replica that leads, and when it begins to.
func TestLeaderElection_LooksForWhatNoWatchDeliversOnceItLeads(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := electionServer()
		cfg := rig.Config()
		cfg.Children[0].Adopt, cfg.ParentSelector, cfg.Finalizer = true, "mine", config.FinalizerAlways
		start := func(name string) (stop func()) {
			rc := server.RESTConfig()
			rc.UserAgent = name
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				ended <- rig.RunOne(ctx, cfg, handler.SyncFunc(rig.Copier), manager.Options{
					RESTConfig: rc, Logger: sample.DiscardLog(), LeaderElection: &lead.Config{Namespace: "ns", Identity: name},
				})
			}()
			synctest.Wait()
			return func() { cancel(); require.NoError(t, <-ended) }
		}
		looked := func(name string) map[string]int {
			found := map[string]int{}
			for _, r := range server.Requests() {
				selector := r.Query.Get("labelSelector")
				if r.Verb == "list" && r.UserAgent == name && (selector == "" || selector[0] == '!') {
					found[r.Type.Kind]++
				}
			}
			return found
		}
		stopFirst := start("first")
		stopSecond := start("second")
		rig.Elapse(time.Minute)
		once := map[string]int{"ConfigMap": 1, "Parent": 1}
		require.Equal(t, once, looked("first"))
		require.Empty(t, looked("second"))
		stopFirst()
		rig.Elapse(time.Minute)
		require.Equal(t, once, looked("second"))
		stopSecond()
	})
}

// A type that comes late and may not be watched keeps nobody from taking the lease.
func TestLeader_TakesOverBesideALateType(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		late := resource.Type{APIVersion: "late.example.com/v1", Kind: "Late"}
		server := fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"), fakeapi.ConfigMaps(), fakeapi.Kind{Type: leaseType, Plural: "leases"}, fakeapi.Custom(late, "lates"))
		server.Withdraw(late)
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Type == late {
				return apierrors.NewForbidden(schema.GroupResource{Group: "late.example.com", Resource: "lates"}, "", errors.New("no"))
			}
			return nil
		}})
		cfg := rig.Config()
		cfg.Children = append(cfg.Children, config.Child{Type: late, Strategy: config.Replace, Optional: true})
		one := startReplicaOf(t, server, "one", cfg, handler.SyncFunc(rig.Copier))
		two := startReplicaOf(t, server, "two", cfg, handler.SyncFunc(rig.Copier))
		server.Serve(fakeapi.Custom(late, "lates"))
		rig.Elapse(time.Minute)
		one.cancel()
		require.NoError(t, <-one.ended)
		rig.CreateParent(t, server, "p", "v")
		rig.Elapse(time.Minute)
		require.Equal(t, "two", holder(server))
		require.NotNil(t, server.Get(k8s.ConfigMap, rig.Key("p")))
		two.cancel()
		require.NoError(t, <-two.ended)
	})
}
