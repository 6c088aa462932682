package reconcile_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/resource"
)

// S4: a call of Relate that takes too long keeps no worker.
func TestRelated_RelateTakesLong(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		timeout time.Duration // the handler's
		takes   time.Duration // a call of Relate; 0: it returns when it is released
		err     string        // empty: none
		good    bool          // the other parent is served meanwhile
	}{
		"In time":     {"it is waited for", 5 * time.Second, 4 * time.Second, "", true},
		"Too long":    {"it has no context, so that it can't heed its end", 5 * time.Second, 0, "handler: Relate: context deadline exceeded (HandlerTimeout is 5s)", true},
		"No timeout":  {"only the author knows how long it may take", 0, 0, "", false},
		"Ends itself": {"the next call is made after the one before", 5 * time.Second, 6 * time.Second, "handler: Relate: context deadline exceeded (HandlerTimeout is 5s)", true},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				var running, most, calls atomic.Int64
				goOn := make(chan struct{})
				release := sync.OnceFunc(func() { close(goOn) })
				defer release() // if the test fails before
				h := &reader{relate: func(parent *resource.Resource) ([]handler.Ref, error) {
					if parent.Name() != "bad" {
						return nil, nil
					}
					calls.Add(1)
					most.Store(max(most.Load(), running.Add(1)))
					defer running.Add(-1)
					var over <-chan time.Time
					if tc.takes > 0 {
						over = time.After(tc.takes)
					}
					select {
					case <-goOn:
					case <-over:
					}
					return nil, nil
				}}
				cfg := relating()
				cfg.HandlerTimeout, cfg.MaxConcurrentSyncs, cfg.MaxErrorBackoff = tc.timeout, 1, 10*time.Second
				r := rig.Start(t, rig.Server(), cfg, h)
				r.Create("bad", "")
				rig.Elapse(time.Second)
				r.Create("good", "")
				rig.Elapse(time.Minute)
				require.Equal(t, tc.good, len(h.seen("good")) > 0, tc.reason)
				require.EqualValues(t, 1, most.Load(), "one call at a time")
				errs := r.Errors("bad")
				require.Equal(t, tc.err == "", len(errs) == 0, tc.reason)
				if tc.err != "" {
					require.EqualError(t, errs[0], tc.err, tc.reason)
				}
				if tc.takes == 0 {
					require.EqualValues(t, 1, calls.Load(), tc.reason)
				}
				if tc.takes == 0 && tc.err != "" {
					require.EqualError(t, errs[len(errs)-1], "handler: Relate: an earlier call for this parent hasn't returned")
				}
				release()
				rig.Elapse(time.Minute)
				require.NotEmpty(t, h.seen("bad"), "it is served once Relate returns in time")
				require.NoError(t, r.Manager.Engine().Stuck())
				r.Stop()
			})
		})
	}
}
