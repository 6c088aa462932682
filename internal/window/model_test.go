package window

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/engine/explain"
	"github.com/roperator/roperator/internal/engine/view"
	"github.com/roperator/roperator/internal/testing/budget"
)

// A modelClient does what a client is to do with the events of an overview, and nothing more.
type modelClient struct {
	t       *testing.T
	running bool
	known   bool // the first parents have come
	parents map[[2]string][7]any
}

// apply takes events, in their order.
func (m *modelClient) apply(events []string) {
	for _, each := range events {
		switch names([]string{each})[0] {
		case "begin":
			var begin overviewBegun
			require.NoError(m.t, json.Unmarshal([]byte(only([]string{each}, "begin")[0]), &begin))
			m.running, m.known, m.parents = begin.Running, false, nil
		case "parents":
			var event parentsEvent
			require.NoError(m.t, json.Unmarshal([]byte(only([]string{each}, "parents")[0]), &event))
			m.applyParents(event)
		}
	}
}

func (m *modelClient) applyParents(event parentsEvent) {
	require.LessOrEqual(m.t, len(event.Set), rowsOfEvent)
	require.LessOrEqual(m.t, len(event.Gone), rowsOfEvent)
	require.Equal(m.t, !m.known, event.All, "the first since begin is of all, and no other")
	if m.known = true; event.All {
		m.parents = map[[2]string][7]any{}
	}
	for _, row := range event.Set {
		m.parents[[2]string{row[0].(string), row[1].(string)}] = row
	}
	for _, name := range event.Gone {
		if _, known := m.parents[name]; !known {
			require.Failf(m.t, "unknown parent", "%q has gone, and was never told of", name)
		}
		delete(m.parents, name)
	}
}

// rowsOf returns what a client must hold of parents, by their names.
func rowsOf(t *testing.T, parents []view.Parent) map[[2]string][7]any {
	t.Helper()
	text, err := json.Marshal(rows(parents))
	require.NoError(t, err)
	var list [][7]any
	require.NoError(t, json.Unmarshal(text, &list))
	out := map[[2]string][7]any{}
	for _, row := range list {
		out[[2]string{row[0].(string), row[1].(string)}] = row
	}
	return out
}

// randomParents returns some of size parents, now and then none.
func randomParents(random *rand.Rand, size int) (out []view.Parent) {
	if random.IntN(8) == 0 {
		return nil
	}
	share := 1 + random.IntN(8)
	for i := range size {
		if random.IntN(8) < share {
			out = append(out, view.Parent{
				Namespace: fmt.Sprint("n", i/100), Name: fmt.Sprintf("p%05d", i), State: explain.Waiting,
				Reason: fmt.Sprint(random.IntN(3)), Children: random.IntN(2), Since: time.Unix(int64(random.IntN(2)), 0),
			})
		}
	}
	return out
}

// After any looks, whoever has applied all events has the parents of the last look, through stops, restarts and
// changes that take several events.
func TestModel_AnyLooks(t *testing.T) {
	for name, tc := range map[string]struct {
		reason      string
		size, looks int
		times       uint64
	}{
		"Small": {"names come and go all the time", 12, 60, 40},
		"Large": {"most differences take several events", 2*rowsOfEvent + 700, 12, 2},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range budget.Runs(tc.times) {
				random := rand.New(rand.NewPCG(seed, 7))
				w, _ := opened(t, newSource())
				v := &visitor{t: t, header: map[string][]string{}}
				v.mu.changed = make(chan struct{})
				o := &overviewStream{stream: w.stream(newAnswer(v)), operator: "sites"}
				model := &modelClient{t: t}
				started := time.Unix(1, 0)
				for range tc.looks {
					seen := look{running: random.IntN(6) > 0}
					if seen.running {
						started = started.Add(time.Duration(random.IntN(6)/5) * time.Second)                 // now and then it is another engine
						seen.parents, seen.figures.Started = sorted(randomParents(random, tc.size)), started // as look does
					}
					require.NoError(t, o.tell(seen))
					model.apply(v.events())
					require.Equal(t, seen.running, model.running, "seed %d: %s", seed, tc.reason)
					if seen.running {
						require.True(t, maps.Equal(rowsOf(t, seen.parents), model.parents), "seed %d: %s", seed, tc.reason)
					}
				}
			}
		})
	}
}
