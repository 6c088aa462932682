package manager_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/resource/k8s"
)

// stuckUntil returns a handler that doesn't heed its context, and returns only when
// goOn is closed.
func stuckUntil(goOn <-chan struct{}) handler.Handler {
	return handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		<-goOn
		return rig.Copier(context.Background(), req)
	})
}

// A handler that doesn't heed its context keeps neither the process from ending nor
// another replica from leading, even if the API server is back.
func TestStuckHandler_LosesTheLease(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := electionServer()
		goOn := make(chan struct{})
		one := startReplica(t, server, "one", stuckUntil(goOn))
		rig.CreateParent(t, server, "p", "v")
		two := startReplica(t, server, "two", handler.SyncFunc(rig.Copier))
		require.NoError(t, one.runner.Healthy())
		cut := true
		var mu sync.Mutex
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			mu.Lock()
			defer mu.Unlock()
			if cut && r.Type == leaseType && r.UserAgent == "one" {
				return errors.New("cut off")
			}
			return nil
		}})
		rig.Elapse(10500 * time.Millisecond) // longer than RenewDeadline, but the election itself would go on
		mu.Lock()
		cut = false
		mu.Unlock()
		require.ErrorContains(t, one.runner.Healthy(), "Lease ns/op: lost", "it should be restarted")
		until(t, 10*time.Second, func() bool { return holder(server) == "two" })
		err := <-one.ended
		require.ErrorContains(t, err, "lost: it wasn't renewed for 10s")
		require.ErrorContains(t, err, "handler: Sync: Parent ns/p: didn't return")
		require.NoError(t, two.runner.Healthy())
		close(goOn)
		synctest.Wait()
		require.Empty(t, writesBy(server, "one"))
		two.cancel()
		require.NoError(t, <-two.ended)
	})
}

// A replica that is told to stop does so after the shutdown timeout and a few seconds
// more. It releases the lease, so that the other one leads at once: what still runs of the
// handler can't write anything by the engine.
func TestStuckHandler_ToldToStop(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := electionServer()
		goOn := make(chan struct{})
		one := startReplica(t, server, "one", stuckUntil(goOn))
		two := startReplica(t, server, "two", handler.SyncFunc(rig.Copier))
		rig.CreateParent(t, server, "p", "v")
		rig.Elapse(time.Second)
		one.cancel()
		begin := time.Now()
		rig.Elapse(time.Minute + 4*time.Second)
		require.Equal(t, "one", holder(server), "its handler may still return in time")
		require.NoError(t, one.runner.Healthy())
		err := <-one.ended
		require.Equal(t, time.Minute+5*time.Second, time.Since(begin), "ShutdownTimeout, and a little for handlers that clean up")
		require.ErrorContains(t, err, "handler: Sync: Parent ns/p: didn't return within 5s after its context had ended, and still runs")
		require.ErrorContains(t, one.runner.Healthy(), "Lease ns/op: given up: handler: Sync: Parent ns/p")
		require.Contains(t, one.logs.String(), "gave up a call of the handler")
		require.Empty(t, holder(server), "it is released")
		require.Less(t, until(t, time.Minute, func() bool { return holder(server) == "two" }), 4400*time.Millisecond, "2.2 times RetryPeriod")
		synctest.Wait()
		require.NotNil(t, server.Get(k8s.ConfigMap, rig.Key("p")))
		close(goOn)
		synctest.Wait()
		require.Empty(t, writesBy(server, "one"))
		two.cancel()
		require.NoError(t, <-two.ended)
	})
}

// A replica that has been told to stop, and whose lease another one has taken meanwhile,
// doesn't release what isn't its own.
func TestStuckHandler_TakenMeanwhile(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := electionServer()
		goOn := make(chan struct{})
		one := startReplica(t, server, "one", stuckUntil(goOn))
		rig.CreateParent(t, server, "p", "v")
		rig.Elapse(time.Second)
		one.cancel()
		// Its last request before the release is the read, by which it learns of the other.
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Type == leaseType && r.UserAgent == "one" && one.runner.Healthy() != nil && holder(server) == "one" {
				_, err := server.Change(leaseType, rig.Key("op"), func(o map[string]any) { o["spec"].(map[string]any)["holderIdentity"] = "three" })
				return err
			}
			return nil
		}})
		require.ErrorContains(t, <-one.ended, "didn't return within 5s")
		require.Equal(t, "three", holder(server))
		close(goOn)
		synctest.Wait()
	})
}

func TestStuckHandler_WithoutElection(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		goOn := make(chan struct{})
		server := rig.Server()
		r := rig.StartWith(t, server, rig.Config(), stuckUntil(goOn), manager.Options{RESTConfig: server.RESTConfig(), ShutdownTimeout: time.Second})
		r.Create("p", "v")
		synctest.Wait()
		r.Cancel()
		begin := time.Now()
		require.ErrorContains(t, <-r.Ended, "handler: Sync: Parent ns/p: didn't return")
		require.Equal(t, 6*time.Second, time.Since(begin))
		require.ErrorContains(t, r.Manager.Healthy(), "handler: Sync: Parent ns/p: didn't return")
		close(goOn)
		synctest.Wait()
		require.Empty(t, server.Writes())
	})
}

// An assertion of a test in a handler ends the goroutine that calls it. The worker
// goes on.
func TestGoexit(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		cfg := rig.Config()
		cfg.MaxConcurrentSyncs = 1
		server := rig.Server()
		gone := rig.CreateParent(t, server, "gone", "v", "roperator.com/op")
		h := &handler.Funcs{
			SyncFunc: func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
				if req.Parent.Name() == "exits" {
					runtime.Goexit()
				}
				return rig.Copier(ctx, req)
			},
			FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
				runtime.Goexit()
				return nil, nil
			},
		}
		r := rig.Start(t, server, cfg, h)
		r.Create("exits", "v")
		require.NoError(t, server.Delete(gone.Type(), gone.Key()))
		rig.Elapse(time.Second)
		r.Create("good", "v")
		rig.Elapse(time.Second)
		require.NotNil(t, r.Get(k8s.ConfigMap, "good"), "the only worker goes on")
		const text = "ended its goroutine (runtime.Goexit), as a failed assertion of a test does"
		require.Greater(t, len(r.Errors("exits")), 1, "it is tried again")
		require.EqualError(t, r.Errors("exits")[0], "handler: Sync: "+text)
		require.EqualError(t, r.Errors("gone")[0], "handler: Finalize: "+text)
		_, err := rig.Plan(server, cfg, h)
		require.ErrorContains(t, err, "Parent ns/exits: handler: Sync: "+text, "a plan doesn't leave the parent out")
		r.Stop()
	})
}
