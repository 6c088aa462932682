package watch

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// comingAndGoing returns a watcher of one stream with a mirror of its own, as there are several
// in turn of what parents refer to.
func comingAndGoing(h *History) *Watcher {
	return &Watcher{
		Config: Config{History: h, Store: store.New(sample.ParentType(), sample.TrackingLabel)},
		stream: store.Stream{Type: k8s.Secret, Namespace: "ns", Selected: "related Secret ns/one"},
	}
}

// isNewsTo is isNews for the content of a watcher.
func (h *History) isNewsTo(w *Watcher, asked ask) bool { return h.isNews(w.content(), asked) }

// asks returns what is known when a list is asked for now.
func (h *History) asks() ask { return ask{history: h.current()} }

// A running watcher is told of a new history until it has listed its objects. To a watcher
// that has begun to run since, nothing is news: it lists them anyway.
func TestHistory_News(t *testing.T) {
	h := NewHistory()
	old := comingAndGoing(h)
	h.join(old)
	require.False(t, h.isNewsTo(old, h.asks()), "there is only one history")
	early := h.asks()
	h.begin(early.history)
	require.False(t, h.isNewsTo(old, early), "the list was asked for before the new history was known")
	h.note(old, early, false)
	require.True(t, h.isNewsTo(old, h.asks()))
	young := comingAndGoing(h)
	h.join(young)
	require.False(t, h.isNewsTo(young, h.asks()), "it hasn't listed anything of another history")
	require.True(t, h.isNewsTo(old, h.asks()), "whatever another one has listed")
	h.note(old, h.asks(), false)
	require.False(t, h.isNewsTo(old, h.asks()))
}

// A list that shows a new history is news to all others, and not to the watcher that has
// listed it.
func TestHistory_ShownByAList(t *testing.T) {
	h := NewHistory()
	by, other := comingAndGoing(h), comingAndGoing(h)
	h.join(by)
	h.join(other)
	h.note(by, h.asks(), true)
	require.False(t, h.isNewsTo(by, h.asks()))
	require.True(t, h.isNewsTo(other, h.asks()))
	require.Equal(t, sure, by.mu.unsure)
	require.Equal(t, unsureOfAll, other.mu.unsure)
}

// A watch ends, and another one of the same stream begins. The first watcher may still be
// running by then: it leaves after the second one has joined. That takes nothing from the
// second one, to which the histories before it aren't news.
func TestHistory_ComesAgain(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(h *History, first, second *Watcher)
	}{
		"OneAfterTheOther": {"The first one has ended.", func(h *History, first, second *Watcher) { h.leave(first); h.join(second) }},
		"Overlapping":      {"The first one is slow to end.", func(h *History, first, second *Watcher) { h.join(second); h.leave(first) }},
		"AfterTheList": {"It ends when the second one has listed.", func(h *History, first, second *Watcher) {
			h.join(second)
			h.note(second, h.asks(), false)
			h.leave(first)
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			h := NewHistory()
			first, second := comingAndGoing(h), comingAndGoing(h)
			h.join(first)
			h.begin(h.current())
			tc.change(h, first, second)
			require.False(t, h.isNewsTo(second, h.asks()), tc.reason)
			h.begin(h.current())
			require.True(t, h.isNewsTo(second, h.asks()), "a history that has begun since is news. %s", tc.reason)
		})
	}
}

// A watcher that only lists fills the mirror of one that runs. What either has listed is news
// to neither.
func TestHistory_SharedMirror(t *testing.T) {
	h := NewHistory()
	runs := comingAndGoing(h)
	h.join(runs)
	h.begin(h.current())
	lists := &Watcher{Config: runs.Config, stream: runs.stream}
	require.True(t, h.isNewsTo(lists, h.asks()))
	h.note(lists, h.asks(), false)
	require.False(t, h.isNewsTo(lists, h.asks()))
	require.False(t, h.isNewsTo(runs, h.asks()))
}

// Nothing is left of a watcher that has left.
func TestHistory_ForgetsWhoHasLeft(t *testing.T) {
	h := NewHistory()
	for range 3 {
		w := comingAndGoing(h)
		h.join(w)
		h.begin(h.current())
		h.note(w, h.asks(), false)
		h.leave(w)
	}
	require.Empty(t, h.mu.running)
	require.Empty(t, h.mu.listed)
}
