package lead

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/budget"
	"github.com/roperator/roperator/internal/testing/fakeapi"
)

// A dice is a random source that may be used concurrently.
type dice struct {
	mu     sync.Mutex
	random *rand.Rand
}

func (d *dice) upTo(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.random.IntN(n)
}

// Members of two numbers of shards and undivided replicas come, go, and are cut off, while
// requests are slow and fail, before or after they were carried out. There are never two that
// may write for the same parents. Once it is quiet, the split is even.
func TestMembers_Storm(t *testing.T) {
	for seed := range budget.Runs(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { storm(t, seed) })
		})
	}
}

// An undividedReplica is a replica of an operator without shards.
type undividedReplica struct {
	lease *Lease
	stop  context.CancelFunc
	ended chan error
	works atomic.Bool // its work runs
}

func startUndivided(t *testing.T, server *fakeapi.Server, identity string, slow time.Duration) *undividedReplica {
	t.Helper()
	u := &undividedReplica{lease: newTestLease(t, server, identity), ended: make(chan error, 1)}
	ctx, stop := context.WithCancel(t.Context())
	u.stop = stop
	go func() {
		u.ended <- Run(ctx, nil, u.lease, func(ctx, passes context.Context) error {
			u.works.Store(true)
			defer u.works.Store(false)
			<-ctx.Done()
			if slow > 0 {
				select {
				case <-passes.Done():
				case <-time.After(slow):
				}
			}
			return nil
		})
	}()
	return u
}

func storm(t *testing.T, seed uint64) {
	d := &dice{random: rand.New(rand.NewPCG(seed, 7))}
	f := newFleet(t)
	trouble := func(fakeapi.Request) error {
		switch n := d.upTo(100); {
		case n < 3:
			return errors.New("broken connection")
		case n < 4:
			<-time.After(time.Duration(1+d.upTo(7000)) * time.Millisecond)
		case n < 40:
			<-time.After(time.Duration(1+d.upTo(60)) * time.Millisecond)
		}
		return nil
	}
	f.server.SetHooks(fakeapi.Hooks{Before: trouble, After: trouble})
	var undivided []*undividedReplica
	check := func() {
		f.check()
		alone := 0
		for _, l := range undivided {
			if l.works.Load() && l.lease.Held() {
				alone++
			}
		}
		for _, r := range f.all {
			require.True(t, alone == 0 || len(r.Members.Held()) == 0, "%s writes beside an undivided replica", r.identity)
		}
		require.LessOrEqual(t, alone, 1)
	}
	pass := func(d time.Duration) {
		for end := time.Now().Add(d); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
			check()
		}
	}
	running := map[*runningMember]bool{}
	someone := func() *runningMember {
		for _, r := range f.all {
			if running[r] && d.upTo(3) == 0 {
				return r
			}
		}
		return nil
	}
	for i := range 60 {
		switch what := d.upTo(12); {
		case what < 4 && len(running) < 6:
			shards := 8
			if d.upTo(4) == 0 {
				shards = 4
			}
			r := f.join(fmt.Sprintf("%d-%d", shards, i), shards)
			r.slow.Store(int64(d.upTo(4)) * int64(4*time.Second))
			running[r] = true
		case what < 6:
			if r := someone(); r != nil {
				r.stop()
				delete(running, r)
			}
		case what < 8:
			if r := someone(); r != nil {
				r.wire.cut.Store(!r.wire.cut.Load())
			}
		case what == 8 && len(undivided) < 3:
			undivided = append(undivided, startUndivided(t, f.server, fmt.Sprintf("undivided-%d", i), time.Duration(d.upTo(5))*time.Second))
		case what == 9 && len(undivided) > 0:
			undivided[len(undivided)-1].stop()
		}
		pass(time.Duration(d.upTo(15)) * time.Second)
	}
	for _, l := range undivided {
		l.stop()
	}
	for r := range running {
		if r.shards == 4 {
			r.stop()
			delete(running, r)
		}
		r.wire.cut.Store(false)
	}
	f.server.SetHooks(fakeapi.Hooks{})
	last := f.join("last", 8)
	running[last] = true
	pass(2 * time.Minute)
	held, least, most := 0, 8, 0
	for r := range running {
		n := len(r.Members.Held())
		held, least, most = held+n, min(least, n), max(most, n)
	}
	require.Equal(t, 8, held, "%s", f)
	require.LessOrEqual(t, most-least, 1, "%s", f)
	for _, r := range f.all {
		r.wire.cut.Store(false)
		r.stop()
	}
	for _, r := range f.all {
		require.NoError(t, <-r.ended)
	}
	for _, l := range undivided {
		if err := <-l.ended; err != nil {
			require.NotErrorIs(t, err, context.Canceled)
		}
	}
	synctest.Wait()
	require.Empty(t, f.holder("op"))
}
