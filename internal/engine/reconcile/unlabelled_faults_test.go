package reconcile_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/resource/k8s"
)

// Whichever request of an adoption fails, before or after it is carried out, and whether
// the operator goes on or another process begins anew: the end is the same.
func TestUnlabelled_Faults(t *testing.T) {
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Recreate, config.OnDelete} {
		for _, restarts := range []bool{false, true} {
			for n := range 8 {
				for _, carriedOut := range []bool{false, true} {
					t.Run(fmt.Sprint(strategy, "/restarts=", restarts, "/", n, "/carriedOut=", carriedOut), func(t *testing.T) {
						rig.Bubble(t, func(t *testing.T) { adoptWithFault(t, strategy, restarts, n, carriedOut) })
					})
				}
			}
		}
	}
}

// adoptWithFault lets the n-th request about a ConfigMap fail.
func adoptWithFault(t *testing.T, strategy config.UpdateStrategy, restarts bool, n int, carriedOut bool) {
	t.Helper()
	server := rig.Server()
	p := rig.CreateParent(t, server, "one", "1")
	for _, name := range []string{"one", "old"} {
		create(t, server, unlabelled(name, p))
	}
	var seen atomic.Int64
	fault := func(r fakeapi.Request) error {
		if r.Type == k8s.ConfigMap && r.Verb != "watch" && seen.Add(1) == int64(n+1) {
			return errors.New("connection reset")
		}
		return nil
	}
	hooks := fakeapi.Hooks{Before: fault}
	if carriedOut {
		hooks = fakeapi.Hooks{After: fault}
	}
	server.SetHooks(hooks)
	cfg := adopting()
	cfg.Children[0].Strategy, cfg.MaxConcurrentSyncs = strategy, 1
	r := rig.Start(t, server, cfg, handler.SyncFunc(rig.Copier))
	if restarts {
		r.Stop()
		r = rig.Start(t, server, cfg, handler.SyncFunc(rig.Copier))
	}
	rig.Elapse(10 * time.Minute)
	before, writes := r.Passes(), len(server.Writes())
	rig.Elapse(time.Hour)
	require.Equal(t, before, r.Passes(), "it is silent")
	require.Len(t, server.Writes(), writes)
	require.Nil(t, r.Get(k8s.ConfigMap, "old"))
	require.Len(t, r.Get(k8s.ConfigMap, "one").Labels(), 2)
	value, _ := r.Get(k8s.ConfigMap, "one").Field("data", "value")
	require.Equal(t, map[bool]string{true: "theirs", false: "1"}[strategy == config.OnDelete], value)
	require.Zero(t, r.Manager.Engine().Sizes()["unlabelled"])
	require.Empty(t, r.Manager.Engine().Loops())
	r.Stop()
}
