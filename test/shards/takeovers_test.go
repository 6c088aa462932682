package shards

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roperator/roperator/internal/engine/shard"
)

// A move is something that has shards change hands, and the time at which the test did it.
type move struct {
	what string
	at   time.Time
}

// takeovers writes how long it took after each move until the new holder of a shard wrote its
// Lease, and until it wrote for one of its parents. That comes later where nobody changes one
// of the shard's parents at once.
func takeovers(t *testing.T, o *oracle, h history, moves []move) {
	t.Helper()
	var out strings.Builder
	fmt.Fprintf(&out, "%-34s %6s   %-26s   %s\n", "after", "shards", "the Lease, after seconds", "the first write for a parent, after seconds")
	for i, m := range moves {
		until := time.Now()
		if i+1 < len(moves) {
			until = moves[i+1].at
		}
		var leases, writes []time.Duration
		for index := range shard.Buckets {
			as, at := takenBetween(h.leases[shardLease(o.operator, index)], m.at, until)
			if as == "" {
				continue
			}
			leases = append(leases, at.Sub(m.at))
			for _, w := range h.writes {
				if w.As == as && o.shardOf(w) == index && !w.refused && !w.Received.Before(at) {
					writes = append(writes, w.Received.Sub(m.at))
					break
				}
			}
		}
		fmt.Fprintf(&out, "%-34s %6d   %-26s   %s\n", m.what, len(leases), spread(leases), spread(writes))
	}
	t.Logf("takeovers:\n%s", out.String())
}

// takenBetween returns who was the first to take a Lease from another holder, or from nobody.
func takenBetween(writes []leaseWrite, from, until time.Time) (as string, at time.Time) {
	before := "" // the last holder
	for _, w := range writes {
		if w.holder == "" {
			continue
		}
		if w.holder != before && w.received.After(from) && w.received.Before(until) {
			return w.as, w.received
		}
		before = w.holder
	}
	return "", time.Time{}
}

// spread returns the least, the median and the greatest of durations.
func spread(d []time.Duration) string {
	if len(d) == 0 {
		return "none"
	}
	slices.Sort(d)
	return fmt.Sprintf("%.2f / %.2f / %.2f", d[0].Seconds(), d[len(d)/2].Seconds(), d[len(d)-1].Seconds())
}
