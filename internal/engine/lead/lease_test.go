package lead

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/sample"
)

// TestLease_Held: the lease is held for RenewDeadline from a renewal on, and no longer
// once it was released or lost.
func TestLease_Held(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		then   func(t *testing.T, l *Lease)
		held   bool
	}{
		"Renewed":   {"it is renewed in time", func(*testing.T, *Lease) { <-time.After(9 * time.Second) }, true},
		"Overdue":   {"another replica may lead soon", func(*testing.T, *Lease) { <-time.After(10 * time.Second) }, false},
		"Given up":  {"the work has ended", func(_ *testing.T, l *Lease) { l.lose() }, false},
		"Taken":     {"another process writes already", func(_ *testing.T, l *Lease) { l.takenBy("two") }, false},
		"Unstopped": {"something still runs, and must not write", func(_ *testing.T, l *Lease) { l.leave(http.ErrHandlerTimeout) }, false},
		"Released": {"any replica may take it", func(t *testing.T, l *Lease) {
			<-time.After(2 * time.Second)
			require.NoError(t, l.Update(t.Context(), resourcelock.LeaderElectionRecord{}))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newTestLease(t, fakeapi.New(fakeapi.Leases()), "one")
				require.NoError(t, l.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "one"}))
				require.True(t, l.Held())
				tc.then(t, l)
				require.Equal(t, tc.held, l.Held(), tc.reason)
			})
		})
	}
}

// TestLease_LostForGood: a process that has lost the lease asks for it no more. The
// answer to a renewal that was under way doesn't bring the lease back.
func TestLease_LostForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := fakeapi.New(fakeapi.Leases())
		l := newTestLease(t, server, "one")
		ours := resourcelock.LeaderElectionRecord{HolderIdentity: "one"}
		require.NoError(t, l.Create(t.Context(), ours))
		<-time.After(2 * time.Second)
		server.SetHooks(fakeapi.Hooks{After: func(r fakeapi.Request) error {
			if r.Verb == "update" {
				l.lose()
			}
			return nil
		}})
		require.NoError(t, l.Update(t.Context(), ours))
		require.False(t, l.Held(), "the passes have been told to stop")
		require.LessOrEqual(t, l.left(), time.Duration(0), "and nothing is left to wait for")
		requests := len(server.Requests())
		require.Error(t, l.Update(t.Context(), ours))
		require.Error(t, l.Create(t.Context(), ours))
		_, _, err := l.Get(t.Context())
		require.Error(t, err)
		require.Len(t, server.Requests(), requests, "renewals would keep the other replicas waiting")
	})
}

// TestLease_RequestsEnd: a request that hangs leaves time for another try.
func TestLease_RequestsEnd(t *testing.T) {
	config := Config{Namespace: "ns", Identity: "one"}.WithDefaults("op")
	c := &http.Client{}
	_, err := NewLease(config, fakeapi.New().RESTConfig(), c, sample.DiscardLog())
	require.NoError(t, err)
	require.Positive(t, c.Timeout)
	require.LessOrEqual(t, c.Timeout, config.RenewDeadline/2)
}
