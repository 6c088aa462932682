package manager_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/lead"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
)

// deaf is an API server that takes requests, and never answers.
type deaf struct{}

func (deaf) RoundTrip(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

// An operator that is told to stop before it begins has nothing to complain about.
func TestStart_ToldToStopBefore(t *testing.T) {
	for name, opts := range map[string]manager.Options{
		"Health":  {HealthAddress: "no-such-host.invalid:8081"},
		"Metrics": {MetricsAddress: "no-such-host.invalid:8081"},
		"Lease":   {LeaderElection: &lead.Config{}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			opts.RESTConfig, opts.Logger = rig.Server().RESTConfig(), sample.DiscardLog()
			require.NoError(t, rig.RunOne(ctx, rig.Config(), handler.SyncFunc(rig.Copier), opts))
		})
	}
}

func TestRunner_DeafAPIServer(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		rc := rig.Server().RESTConfig()
		rc.Transport = deaf{}
		begin := time.Now()
		err := rig.RunOne(t.Context(), rig.Config(), handler.SyncFunc(rig.Copier), manager.Options{RESTConfig: rc, Logger: sample.DiscardLog()})
		require.ErrorContains(t, err, "can't be reached")
		require.LessOrEqual(t, time.Since(begin), 10*time.Second, "it isn't waited for any longer (C70)")
	})
}
