package failable

import (
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/handler"
)

// minMemory is how long a failing parent is remembered at least.
const minMemory = time.Hour

// An ErrorBackoff counts the errors of each parent, for handlers that say
// themselves when to try again: in the Resync or Retry of the response that
// goes along with an error. Handlers made by [Wrap] with an Options.Backoff
// have one inside. The zero value is ready to use. It must not be copied after
// first use; its methods may be called concurrently.
//
// A parent is known by its UID and takes up about 100 bytes from the first
// call of Next until Reset. A handler isn't told of deletions, so call Reset
// after a Finalize that succeeded, too. Parents whose Finalize is never called
// are forgotten after twice the longest interval, at least an hour, without a
// call of Next; and so are those given up on, if they are left in peace that
// long. Nothing is kept over a restart.
type ErrorBackoff struct {
	// Config is how long to wait. It must not be changed after first use.
	Config BackoffConfig

	rnd func() float64 // numbers from 0 to 1; nil means math/rand/v2

	mu struct {
		sync.Mutex
		failing map[types.UID]*failure // parent UID -> the errors since its last success
		swept   time.Time
	}
}

// A failure is a row of errors of one parent.
type failure struct {
	generation int64     // of the parent
	snapshot   uint64    // of the newest error, see snapshotOf
	first      time.Time // when the row began
	newest     time.Time // the last call of Next
	interval   float64   // the newest one, not randomized, in nanoseconds; 0: none
	due        time.Time // when the retry is
}

// Next counts an error of the parent and returns when to try again, which is
// always more than 0 from now; false means to give up, for which the error is
// returned as handler.Permanent makes it.
//
// An error is not counted if it comes before the retry is due and the parent
// or a child has changed since the last one: that pass was owed to the change
// (often that of the status just written), and Next returns what is left of
// the interval. So a parent's own writes and the coming and going of its
// children don't lengthen its backoff.
//
// A new generation of the parent, as after an edit of its spec or at the start
// of its deletion, starts over: from the initial interval, and also if the one
// before it was given up.
func (b *ErrorBackoff) Next(req *handler.SyncRequest) (time.Duration, bool) {
	if b.Config.GiveUpAfter < 0 {
		return 0, false
	}
	c, rnd := b.Config.curve(), b.rnd
	if rnd == nil {
		rnd = rand.Float64
	}
	uid, generation := identityOf(req)
	snapshot := snapshotOf(req)
	now := time.Now()

	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweepLocked(now, c.memory())
	f := b.mu.failing[uid]
	if f == nil || f.generation != generation || now.Sub(f.newest) > c.memory() {
		f = &failure{generation: generation, snapshot: snapshot, first: now}
		b.mu.failing[uid] = f
	}
	changed := f.snapshot != snapshot
	f.snapshot, f.newest = snapshot, now
	if changed && now.Before(f.due) {
		return f.due.Sub(now), true
	}
	if b.Config.GiveUpAfter > 0 && now.Sub(f.first) >= b.Config.GiveUpAfter {
		f.due = now
		return 0, false
	}
	f.interval = c.after(f.interval)
	wait := min(c.randomized(f.interval, rnd()), c.longest())
	f.due = now.Add(wait)
	return wait, true
}

// Reset ends the parent's row of errors: the next one is its first. Call it
// after each success; it is cheap.
func (b *ErrorBackoff) Reset(req *handler.SyncRequest) {
	uid, _ := identityOf(req)
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.mu.failing, uid)
}

// sweepLocked forgets parents without a call of Next for the given time, but
// looks only that often.
func (b *ErrorBackoff) sweepLocked(now time.Time, memory time.Duration) {
	if b.mu.failing == nil {
		b.mu.failing = map[types.UID]*failure{}
		b.mu.swept = now
	}
	if now.Sub(b.mu.swept) <= memory {
		return
	}
	b.mu.swept = now
	for uid, f := range b.mu.failing {
		if now.Sub(f.newest) > memory {
			delete(b.mu.failing, uid)
		}
	}
}

// memory returns for how long a parent without errors is remembered: well over
// the time in which a failing one has its next.
func (c curve) memory() time.Duration {
	longest := c.longest()
	if longest > math.MaxInt64/2 {
		return math.MaxInt64
	}
	return max(2*longest, minMemory)
}

func identityOf(req *handler.SyncRequest) (types.UID, int64) {
	if req == nil || req.Parent == nil {
		return "", 0
	}
	return req.Parent.UID(), req.Parent.Generation()
}

// snapshotOf returns a hash of which versions of the parent and the children
// are in the request.
func snapshotOf(req *handler.SyncRequest) uint64 {
	hash := fnv.New64a()
	write := func(texts ...string) {
		for _, text := range texts {
			_, _ = io.WriteString(hash, text) // a hash never fails
			_, _ = hash.Write([]byte{0})
		}
	}
	if req != nil && req.Parent != nil {
		write(req.Parent.ResourceVersion())
	}
	if req != nil {
		for child := range req.Children.All() {
			write(string(child.UID()), child.ResourceVersion())
		}
	}
	return hash.Sum64()
}
