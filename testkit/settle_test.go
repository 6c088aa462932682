package testkit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// It takes time and looks to tell that an operator is at rest: a machine that stands still
// passes the time, and has looked at nothing.
func TestQuietness(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		every  time.Duration // a look
		looks  int           // after which it is over
	}{
		"Idle":   {"the period counts", quietPeriod / 20, 20},
		"Busy":   {"both are over at once", quietPeriod / quietLooks, quietLooks},
		"Stands": {"each look comes late, and all are needed", 2 * quietPeriod, quietLooks},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			q := quietness{since: now}
			looks := 1
			for now = now.Add(tc.every); !q.lasts(now); now = now.Add(tc.every) {
				looks++
			}
			require.Equal(t, tc.looks, looks, tc.reason)
		})
	}
}
