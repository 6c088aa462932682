package faults

import (
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
)

// Reduce calls without with parts of a list that has n items, larger ones first, which says whether
// the list can do without the part.
func Reduce(n int, without func(from, to int) bool) {
	for size := n; size > 0; size /= 2 {
		for from := 0; from < n; {
			to := min(from+size, n)
			if without(from, to) {
				n -= to - from
			} else {
				from += size
			}
		}
	}
}

// Without returns a list without a part of it.
func Without[T any](list []T, from, to int) []T {
	return slices.Concat(list[:from], list[to:])
}

// Seeds plays count seeds from first on, as many at once as there are CPUs, until one of them says
// that it was enough. It returns how many were played.
func Seeds(t *testing.T, first, count uint64, play func(t *testing.T, seed uint64) (enough bool)) uint64 {
	t.Helper()
	var next, played atomic.Uint64
	var enough atomic.Bool
	t.Run("seeds", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				for n := next.Add(1); n <= count && !enough.Load(); n = next.Add(1) {
					if play(t, first+n-1) {
						enough.Store(true)
					}
					played.Add(1)
				}
			})
		}
	})
	return played.Load()
}
