package lead

import (
	"cmp"
	"maps"
	"slices"
)

// This file decides which shards a member has. It makes no request and reads no clock.

// A stage says how far this process is with a shard.
type stage int

const (
	untouched stage = iota // this process doesn't have the shard
	trying                 // it tries to take the shard's Lease
	working                // it holds the shard's Lease, and works
	ending                 // it has told the work to end, and releases the Lease then
)

// share returns how many of n shards a member should have. held says how many each
// living member has at present, the member itself among them. All members have the same
// number, and the ones that have the most at present have one more each if n can't be
// divided evenly: so fewest shards move.
func share(self string, held map[string]int, n int) int {
	order := slices.SortedFunc(maps.Keys(held), func(a, b string) int {
		return cmp.Or(cmp.Compare(held[b], held[a]), cmp.Compare(a, b))
	})
	at := slices.Index(order, self)
	if at < 0 {
		return 0
	}
	if at < n%len(order) {
		return n/len(order) + 1
	}
	return n / len(order)
}

// balance returns which shards a member should try to take, and which ones it should give
// up. living has the identities of all members that take shards. holders has the
// identity of each shard's holder, "" if the shard is free. stages says how far this
// process is with each shard.
//
// A member gives up its highest shards. It takes free ones beginning at a place of its
// own, so that members that take shards at the same time rarely want the same ones.
func balance(self string, living, holders []string, stages []stage) (take, give []int) {
	held := map[string]int{self: 0}
	for _, member := range living {
		held[member] = 0
	}
	for _, holder := range holders {
		if _, alive := held[holder]; alive {
			held[holder]++
		}
	}
	target := share(self, held, len(holders))
	var tries, works, own, free []int
	for i, s := range stages {
		switch others := holders[i] != "" && holders[i] != self; {
		case s == trying && others:
			give = append(give, i) // another member was faster
		case s == trying:
			tries = append(tries, i)
		case s == working:
			works = append(works, i)
		case s == untouched && holders[i] == self:
			own = append(own, i) // a request that took it seemed to fail
		case s == untouched && !others:
			free = append(free, i)
		}
	}
	if excess := len(works) + len(tries) - target; excess > 0 {
		last := append(works, tries...) // tries are given up first
		return nil, append(give, last[len(last)-excess:]...)
	}
	first := int(hash(self) % uint64(len(holders)))
	at, _ := slices.BinarySearch(free, first)
	take = slices.Concat(own, free[at:], free[:at])
	return take[:min(len(take), target-len(works)-len(tries))], give
}
