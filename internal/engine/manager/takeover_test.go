package manager_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/lead"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// startTaking starts a process that takes the lease over.
func startTaking(t *testing.T, server *fakeapi.Server, name string, h handler.Handler) *replica {
	t.Helper()
	r := &replica{name: name, logs: &rig.Logs{}, ended: make(chan error, 1)}
	rc := server.RESTConfig()
	rc.UserAgent = name
	var err error
	r.runner, err = rig.NewOne(rig.Config(), h, manager.Options{
		RESTConfig: rc, LeaderElection: &lead.Config{Namespace: "ns", Identity: name}, TakeOver: "alice@laptop",
		Logger: slog.New(slog.NewTextHandler(r.logs, nil)),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() { r.ended <- r.runner.Start(ctx) }()
	t.Cleanup(cancel)
	synctest.Wait()
	return r
}

// TestTakeOver: a replica that is asked for its lease finishes its passes, lets the other
// process work, and works again when that has ended, without being started anew.
func TestTakeOver(t *testing.T) {
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
		rig.CreateParent(t, server, "slow", "v")
		rig.Elapse(time.Second)
		dev := startTaking(t, server, "dev", handler.SyncFunc(rig.Copier))
		rig.Elapse(20 * time.Second)
		require.Equal(t, "one", holder(server), "a pass still runs")
		rig.CreateParent(t, server, "second", "v")
		synctest.Wait()
		require.Nil(t, server.Get(k8s.ConfigMap, rig.Key("second")), "but no new one begins")
		close(goOn)
		until(t, time.Minute, func() bool { return holder(server) == "dev" })
		require.NotNil(t, server.Get(k8s.ConfigMap, rig.Key("slow")))
		rig.Elapse(5 * time.Second)
		require.NotNil(t, server.Get(k8s.ConfigMap, rig.Key("second")))
		require.Empty(t, one.ended, "it waits for its turn")
		require.NoError(t, one.runner.Ready())
		require.NoError(t, one.runner.Healthy())

		before := len(writesBy(server, "one"))
		for i := range 20 {
			rig.CreateParent(t, server, fmt.Sprint("p", i), "v")
			rig.Elapse(3 * time.Second)
		}
		require.Len(t, writesBy(server, "one"), before, "one process writes")
		require.NotNil(t, server.Get(k8s.ConfigMap, rig.Key("p19")))

		dev.cancel()
		require.NoError(t, <-dev.ended)
		took := until(t, time.Minute, func() bool { return holder(server) == "one" })
		require.LessOrEqual(t, took, 4400*time.Millisecond)
		_, err := server.Change(sample.ParentType(), rig.Key("p3"), func(o map[string]any) { o["spec"] = map[string]any{"value": "w"} })
		require.NoError(t, err)
		rig.Elapse(time.Second)
		require.Greater(t, len(writesBy(server, "one")), before, "it works again")
		one.cancel()
		require.NoError(t, <-one.ended)
	})
}
