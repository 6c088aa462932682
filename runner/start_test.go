package runner

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
)

// deaf is an API server that takes requests, and never answers.
type deaf struct{}

func (deaf) RoundTrip(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

func TestRunner_DeafAPIServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rc := rigServer().RESTConfig()
		rc.Transport = deaf{}
		begin := time.Now()
		err := Run(t.Context(), rigConfig(), handler.SyncFunc(copier), Options{RESTConfig: rc, Logger: discardLog()})
		require.ErrorContains(t, err, "can't be reached")
		require.LessOrEqual(t, time.Since(begin), 10*time.Second, "it isn't waited for any longer (C70)")
	})
}
