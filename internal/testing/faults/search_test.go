package faults

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSeeds(t *testing.T) {
	var mu sync.Mutex
	var seen []uint64
	played := Seeds(t, 5, 40, func(_ *testing.T, seed uint64) bool {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, seed)
		return false
	})
	require.EqualValues(t, 40, played)
	slices.Sort(seen)
	require.Len(t, slices.Compact(seen), 40, "each of them once")
	require.EqualValues(t, 5, seen[0])
	require.EqualValues(t, 44, seen[39])

	played = Seeds(t, 1, 1_000_000, func(_ *testing.T, seed uint64) bool { return seed == 3 })
	require.Less(t, played, uint64(1_000_000), "one that is enough ends the search")
}

func TestDiary(t *testing.T) {
	d := NewDiary()
	d.Note("a %d", 1)
	d.Violated("b %d", 2)
	d.Violated("b %d", 2)
	d.Violated("c")
	require.Equal(t, []string{"b 2", "c"}, d.Violations(), "one that is seen twice is told once")
	require.Len(t, d.mu.history, 3, "the history has them, too")
}

func TestReduce(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		n      int
		needed []int
		calls  int // at most
	}{
		"Empty":     {"there is nothing to ask", 0, nil, 0},
		"None":      {"all goes at once", 100, nil, 1},
		"TheOne":    {"it can't go", 1, []int{0}, 1},
		"First":     {"one is found by halves", 100, []int{0}, 20},
		"Middle":    {"wherever it is", 100, []int{50}, 20},
		"Last":      {"even if it is the last", 100, []int{99}, 20},
		"Two":       {"each needs halves of its own", 100, []int{20, 70}, 40},
		"Neighbors": {"two that are side by side", 100, []int{49, 50}, 40},
		"Ends":      {"two that are far apart", 100, []int{0, 99}, 40},
		"OddNumber": {"halves needn't be of one size", 7, []int{2, 6}, 14},
		"All":       {"nothing goes", 8, []int{0, 1, 2, 3, 4, 5, 6, 7}, 15},
	} {
		t.Run(name, func(t *testing.T) {
			var list []int
			for i := range tc.n {
				list = append(list, i)
			}
			calls := 0
			Reduce(tc.n, func(from, to int) bool {
				calls++
				require.Less(t, from, to, "a part has something")
				require.LessOrEqual(t, to, len(list), "a part is of what is left")
				rest := Without(list, from, to)
				for _, i := range tc.needed {
					if !slices.Contains(rest, i) {
						return false
					}
				}
				list = rest
				return true
			})
			require.ElementsMatch(t, tc.needed, list, tc.reason)
			require.LessOrEqual(t, calls, tc.calls, "each call is a run")
		})
	}
}
