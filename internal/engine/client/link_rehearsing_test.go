package client

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/testing/sample"
)

// answersAll answers every request with nothing.
type answersAll struct{}

func (answersAll) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(""))}, nil
}

// TestLink_Rehearsing: nothing is written through such a link, whoever holds a lease.
func TestLink_Rehearsing(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, method, query string
		sent                  bool
	}{
		"Read":        {"it changes nothing", http.MethodGet, "", true},
		"DryRun":      {"nor does this", http.MethodPost, "?dryRun=All&fieldManager=op", true},
		"DryRunPatch": {"nor does this", http.MethodPatch, "?dryRun=All", true},
		"Write":       {"it does", http.MethodPut, "", false},
		"Delete":      {"it does", http.MethodDelete, "", false},
		"NoDryRun":    {"a value that the API server doesn't know", http.MethodPost, "?dryRun=", false},
		"Twice":       {"which of them counts is the API server's to say", http.MethodPost, "?dryRun=All&dryRun=None", false},
		"Other":       {"another parameter", http.MethodPost, "?x=dryRun=All", false},
	} {
		t.Run(name, func(t *testing.T) {
			link, err := Connect(&rest.Config{Host: "http://api", Transport: answersAll{}}, sample.DiscardLog())
			require.NoError(t, err)
			req, err := http.NewRequestWithContext(t.Context(), tc.method, "http://api/x"+tc.query, http.NoBody)
			require.NoError(t, err)
			resp, err := link.Under(held(true)).Rehearsing().As("op", nil).Do(req)
			if !tc.sent {
				require.ErrorIs(t, err, apierror.ErrNoLease, tc.reason)
				return
			}
			require.NoError(t, err, tc.reason)
			require.NoError(t, resp.Body.Close())
		})
	}
}
