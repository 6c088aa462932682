package runner

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/resource/k8s"
)

// Who joins a manager is started by it, and is ready as long as that has to wait.
func TestRunner_ReadyInManager(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		elected := make(chan struct{})
		for name, tc := range map[string]struct {
			reason      string
			opts        Options
			asked       bool // whether a manager asks when to start the Runner
			needs       bool
			readyBefore bool
		}{
			"Joined":      {"it is started when the manager leads", Options{}, true, true, true},
			"JoinedWarm":  {"it is started at once", Options{Elected: elected}, true, false, false},
			"OwnElection": {"the same", Options{LeaderElection: &LeaderElection{}}, true, false, false},
			"Alone":       {"somebody has forgotten to start it", Options{}, false, false, false},
		} {
			p := newProgram()
			tc.opts.RESTConfig = p.server.RESTConfig()
			r, err := New(rig.Config(), handler.SyncFunc(rig.Copier), tc.opts)
			require.NoError(t, err)
			if tc.asked {
				require.Equal(t, tc.needs, r.NeedLeaderElection(), "%s: %s", name, tc.reason)
			}
			require.Equal(t, tc.readyBefore, r.Ready() == nil, "%s: %s", name, tc.reason)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			p.server.Withdraw(k8s.ConfigMap)
			go func() { ended <- r.Start(ctx) }()
			rig.Elapse(time.Second)
			require.Error(t, r.Ready(), "%s: once started, it says what is missing", name)
			cancel()
			require.ErrorContains(t, <-ended, "serve", name)
		}
	})
}

// A replica that waits for another's election has everything at hand, and does nothing.
func TestRunner_Elected(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		p, elected := newProgram(), make(chan struct{})
		r, err := New(rig.Config(), handler.SyncFunc(rig.Copier), Options{RESTConfig: p.server.RESTConfig(), Elected: elected})
		require.NoError(t, err)
		p.createParents(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Start(ctx) }()
		rig.Elapse(time.Minute)
		require.NoError(t, r.Ready())
		require.Empty(t, p.server.Writes())
		rig.CreateParent(t, p.server, "later", "v")
		rig.Elapse(time.Second)
		close(elected)
		rig.Elapse(time.Second)
		require.NotNil(t, p.server.Get(k8s.ConfigMap, rig.Key("one")))
		require.NotNil(t, p.server.Get(k8s.ConfigMap, rig.Key("later")))
		require.NoError(t, r.Ready())
		cancel()
		require.NoError(t, <-ended)
	})
	t.Run("StoppedBefore", func(t *testing.T) {
		rig.Bubble(t, func(t *testing.T) {
			p := newProgram()
			r, err := New(rig.Config(), handler.SyncFunc(rig.Copier), Options{RESTConfig: p.server.RESTConfig(), Elected: make(chan struct{})})
			require.NoError(t, err)
			p.createParents(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			require.NoError(t, r.Start(ctx))
			require.Empty(t, p.server.Writes())
		})
	})
	_, err := New(config.Operator{}, handler.SyncFunc(rig.Copier), Options{LeaderElection: &LeaderElection{}, Elected: make(chan struct{})})
	require.Error(t, err)
	_, err = New(rig.Config(), handler.SyncFunc(rig.Copier), Options{LeaderElection: &LeaderElection{}, Elected: make(chan struct{})})
	require.EqualError(t, err, "runner: Options: LeaderElection and Elected are both set; there must be one election")
}
