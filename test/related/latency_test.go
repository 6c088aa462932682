package related

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A change is somebody's, of a Secret, and leads to one update of a child.
type change struct {
	of      func(parent int) string // name of the Secret
	arrived func(a arrival) time.Time
	// For each time: when the request was sent, its watch event arrived, the update left.
	sent, event, left []time.Time
}

// ofRelated changes what a parent refers to. Its child follows.
func ofRelated() *change {
	return &change{of: secretName, arrived: func(a arrival) time.Time { return a.related }}
}

// ofChild changes the child of a parent, which is changed back.
func ofChild() *change {
	return &change{of: parentName, arrived: func(a arrival) time.Time { return a.children }}
}

// once makes the change, and notes how long it took.
func (c *change) once(w *world, o *operator, parent int, to, want string) {
	w.t.Helper()
	begin := time.Now()
	_, err := w.typed.CoreV1().Secrets(w.namespace).Patch(w.t.Context(), c.of(parent), types.MergePatchType, fmt.Appendf(nil, `{"stringData":{"text":%q}}`, to), metav1.PatchOptions{})
	require.NoError(w.t, err)
	var updates []update
	until(w.t, "the operator has answered", func() bool {
		updates = append(updates, o.takeUpdates()...)
		return len(updates) > 0 && o.rests()
	})
	text, version := w.child(parent)
	require.Equal(w.t, want, text)
	until(w.t, "the operator has seen its own write", func() bool { return o.holds(w, parent, version) && o.rests() })
	updates = append(updates, o.takeUpdates()...)
	require.Len(w.t, updates, 1)
	c.sent, c.event, c.left = append(c.sent, begin), append(c.event, c.arrived(updates[0].arrived)), append(c.left, updates[0].left)
}

// between returns the times from one moment of each change to another one.
func between(from, to []time.Time) []time.Duration {
	out := make([]time.Duration, len(from))
	for i := range from {
		out[i] = to[i].Sub(from[i])
	}
	return out
}

// TestLatency changes related Secrets and children in turn. RELATED_CHANGES says how many of each.
func TestLatency(t *testing.T) {
	changes, foreign := fromEnv(t, "RELATED_CHANGES", 20), fromEnv(t, "RELATED_SECRETS", 0)
	for _, parents := range []int{50, 100} { // a watch each, and one of all
		w := newWorld(t, fmt.Sprintf("latency-%d-", parents), parents, foreign)
		related, child := ofRelated(), ofChild()
		for len(child.sent) < changes {
			w.inTurn(related, child, min(changes-len(child.sent), mostOfAParent*parents))
		}
		reportLatency(parents, related, child)
	}
}

// mostOfAParent is how often a child may be changed before its operator takes that for a
// conflict loop.
const mostOfAParent = 3

// inTurn starts an operator, and makes so many changes of both kinds.
func (w *world) inTurn(related, child *change, count int) {
	w.t.Helper()
	o := start(w)
	defer o.stop()
	o.takeUpdates()
	for i := range count {
		parent, text := i%w.parents, fmt.Sprint("text ", len(child.sent))
		before, _ := w.child(parent)
		if i%2 == 0 { // so that none always follows the other
			related.once(w, o, parent, text, text)
			child.once(w, o, parent, "drift", text)
		} else {
			child.once(w, o, parent, "drift", before)
			related.once(w, o, parent, text, text)
		}
	}
}

func reportLatency(parents int, related, child *change) {
	for _, of := range []struct {
		name   string
		values func(c *change) []time.Duration
	}{
		{"from the request to the event", func(c *change) []time.Duration { return between(c.sent, c.event) }},
		{"from the event to the update", func(c *change) []time.Duration { return between(c.event, c.left) }},
		{"from the request to the update", func(c *change) []time.Duration { return between(c.sent, c.left) }},
	} {
		for _, q := range []float64{0.5, 0.95, 0.99} {
			a, b := quantile(of.values(related), q), quantile(of.values(child), q)
			fmt.Printf("bench-related: %d parents, %s: p%.0f %.2f ms if what a parent refers to changes, %.2f ms if a child does: %.2f\n",
				parents, of.name, 100*q, milliseconds(a), milliseconds(b), float64(a)/float64(b))
		}
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// quantile returns the value that a share of all doesn't exceed.
func quantile(values []time.Duration, share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}
