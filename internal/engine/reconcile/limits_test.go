package reconcile_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
)

// A busyAPI refuses the first create of a ConfigMap with 429 and a Retry-After, as API
// priority and fairness does.
type busyAPI struct {
	next  http.RoundTripper
	after time.Duration

	mu      sync.Mutex
	creates []time.Time
}

func (b *busyAPI) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodPost || !strings.HasSuffix(req.URL.Path, "/configmaps") {
		return b.next.RoundTrip(req)
	}
	b.mu.Lock()
	b.creates = append(b.creates, time.Now())
	first := len(b.creates) == 1
	b.mu.Unlock()
	if !first {
		return b.next.RoundTrip(req)
	}
	return &http.Response{
		StatusCode: http.StatusTooManyRequests, Status: "429 Too Many Requests", Request: req,
		Header: http.Header{"Retry-After": {fmt.Sprint(int(b.after.Seconds()))}, "Content-Type": {"application/json"}},
		Body:   io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429}`)),
	}, nil
}

// seen returns when the creates came.
func (b *busyAPI) seen() []time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.creates)
}

// startBehind starts an operator whose rest.Config says nothing of rates.
func startBehind(t *testing.T, server *fakeapi.Server, transport http.RoundTripper) *rig.Rig {
	t.Helper()
	rc := server.RESTConfig()
	rc.QPS, rc.Transport = 0, transport
	return rig.StartWith(t, server, rig.Config(), handler.SyncFunc(rig.Copier), manager.Options{RESTConfig: rc})
}

// TestNoRateLimitByDefault: client-go's five requests a second would be felt
// after the first ten. Events had them once, and came long after what they told
// of.
func TestNoRateLimitByDefault(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		const parents = 100
		server := rig.Server()
		for i := range parents {
			rig.CreateParent(t, server, fmt.Sprint("p", i), "v")
		}
		start := time.Now()
		r := startBehind(t, server, server)
		require.Len(t, server.Writes(), 2*parents, "a child and a status for each")
		require.Zero(t, r.Manager.Engine().Activity().Events, "no Event waits")
		require.Equal(t, start, time.Now(), "and no time has passed")
		r.Stop()
	})
}

// TestRetryAfterIsHonoured: a server that is busy says when to come again.
func TestRetryAfterIsHonoured(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		rig.CreateParent(t, server, "one", "v")
		api := &busyAPI{next: server, after: 7 * time.Second}
		r := startBehind(t, server, api)
		rig.Elapse(6 * time.Second)
		require.Len(t, api.seen(), 1, "not earlier than told")
		rig.Elapse(2 * time.Second)
		require.Len(t, api.seen(), 2)
		require.Equal(t, 7*time.Second, api.seen()[1].Sub(api.seen()[0]))
		require.Equal(t, []string{"create ConfigMap ns/one", "update status Parent ns/one"}, server.Writes())
		require.Empty(t, r.Errors("one"), "waiting is no failure")
		r.Stop()
	})
}
