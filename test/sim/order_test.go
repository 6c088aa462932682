package sim

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/budget"
	"github.com/roperator/roperator/internal/testing/faults"
)

// lives is the number of lives in `go test`.
const lives = 300

// inOrder plays the life of a seed in one order.
func inOrder(t *testing.T, seed uint64, order string) *report {
	t.Helper()
	s := lifeScript(seed)
	s.Options = append(s.Options, order)
	r := play(t, s, played(s), false)
	r.tell(t)
	return r
}

// TestOrder plays the lives of ORDER_SEEDS seeds from ORDER_FIRST on. Whether the event of an own write or
// the response to it arrives first must not change how often the handler is called. (S63)
func TestOrder(t *testing.T) {
	count, first := budget.Count(t, "ORDER_SEEDS", lives), budget.FromEnv(t, "ORDER_FIRST", 1)
	var mu sync.Mutex // guards what follows
	var calls [2]int
	var differ []string
	faults.Seeds(t, first, count, func(t *testing.T, seed uint64) bool {
		response, event := inOrder(t, seed, responseFirst).calls, inOrder(t, seed, eventFirst).calls
		mu.Lock()
		defer mu.Unlock()
		calls[0], calls[1] = calls[0]+response, calls[1]+event
		if response != event {
			differ = append(differ, fmt.Sprintf("seed %6d: %d calls if responses arrive first, %d if events do", seed, response, event))
		}
		return false
	})
	slices.Sort(differ)
	t.Logf("%d of %d lives have another number of calls: %d calls if responses arrive first, %d if events do", len(differ), count, calls[0], calls[1])
	require.Empty(t, differ, strings.Join(differ, "\n"))
}

// TestOrder_CountsRepeat holds that a life has the same number of calls each time, in either order.
func TestOrder_CountsRepeat(t *testing.T) {
	count, first := budget.Count(t, "ORDER_SEEDS", lives/10), budget.FromEnv(t, "ORDER_FIRST", 1)
	faults.Seeds(t, first, count, func(t *testing.T, seed uint64) bool {
		for _, order := range []string{responseFirst, eventFirst} {
			once, again := inOrder(t, seed, order), inOrder(t, seed, order)
			require.Equal(t, once.calls, again.calls, "seed %d, %s: %s", seed, order, once.script)
		}
		return false
	})
}
