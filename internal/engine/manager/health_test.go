package manager_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// A type that needn't be served is told of, and nothing is wrong; any other must be there.
func TestReady_TypeThatIsNotServed(t *testing.T) {
	for name, tc := range map[string]struct {
		optional bool
		code     int
		path     string
		want     string
	}{
		"Optional": {true, http.StatusOK, "/readyz", "[+]type/op/v1/Secret ok: not served; it is optional\nok"},
		"Verbose":  {true, http.StatusOK, "/readyz?verbose", "[+]type/op/v1/Secret ok: not served; it is optional\nreadyz check passed\n"},
		"Required": {false, http.StatusInternalServerError, "/readyz", "[-]type/op/v1/Secret failed: v1/Secret: the API server doesn't serve this type; check apiVersion and kind, or the version of the cluster\nreadyz check failed\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, cfg := rig.Server(), rig.Config()
			cfg.Children = append(cfg.Children, config.Child{Type: k8s.Secret, Strategy: config.Replace, Optional: tc.optional})
			m, err := manager.New(manager.Options{RESTConfig: server.RESTConfig(), Logger: sample.DiscardLog()}, manager.Spec{Config: cfg, Handler: handler.SyncFunc(rig.Copier)})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- m.Start(ctx) }()
			require.Eventually(t, func() bool { return m.Ready() == nil }, time.Minute, 10*time.Millisecond)
			server.Withdraw(k8s.Secret)
			require.Eventually(t, func() bool {
				answer := httptest.NewRecorder()
				m.Readyz(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, tc.path, nil))
				return answer.Code == tc.code && strings.HasSuffix(answer.Body.String(), tc.want)
			}, time.Minute, 10*time.Millisecond)
			cancel()
			require.NoError(t, <-ended)
		})
	}
}
