package plan

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWait(t *testing.T) {
	for name, tc := range map[string]struct {
		reason            string
		before, now, news []string
	}{
		"First":        {"nothing was waited for", nil, []string{"a", "b"}, []string{"a", "b"}},
		"Same":         {"it was told", []string{"a", "b"}, []string{"a", "b"}, nil},
		"More":         {"only the new one is told", []string{"a", "c"}, []string{"a", "b", "c"}, []string{"b"}},
		"Less":         {"the end of a wait is not told", []string{"a", "b"}, []string{"b"}, nil},
		"Other order":  {"each was told", []string{"a", "b"}, []string{"b", "a"}, nil},
		"Others":       {"none of them was told", []string{"a"}, []string{"b", "c"}, []string{"b", "c"}},
		"Nothing":      {"the wait is over", []string{"a"}, nil, nil},
		"Still none":   {"there is nothing to tell", nil, []string{}, nil},
		"Empty after":  {"an empty slice is as none", []string{"a"}, []string{}, nil},
		"Begins again": {"a wait that was over is told again", []string{}, []string{"a"}, []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &ParentMemory{}
			p.Wait(tc.before)
			require.Equal(t, tc.news, p.Wait(tc.now), tc.reason)
			require.ElementsMatch(t, tc.now, p.Waits(), tc.reason)
			require.Empty(t, p.Wait(tc.now), "each is told once")
		})
	}
}

// A quiet reconciliation allocates nothing for what it waits for.
func TestWait_Allocations(t *testing.T) {
	p := &ParentMemory{}
	for _, texts := range [][]string{nil, {"a", "b"}} {
		p.Wait(texts)
		require.Zero(t, testing.AllocsPerRun(100, func() { p.Wait(texts) }), "%v", texts)
	}
}

// BenchmarkWait waits for 10,000 children, of which half are others each time.
func BenchmarkWait(b *testing.B) {
	texts := func(from int) (out []string) {
		for i := range 10_000 {
			out = append(out, fmt.Sprintf("ConfigMap namespace/child-of-a-long-name-%05d is being deleted and has finalizers", from+i))
		}
		return out
	}
	each, p := [2][]string{texts(0), texts(5_000)}, &ParentMemory{}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p.Wait(each[i%2])
	}
}
