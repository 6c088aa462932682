package manager_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
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
