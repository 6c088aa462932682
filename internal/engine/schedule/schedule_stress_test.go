package schedule

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// Real goroutines in real time show data races, under the race detector, and lost
// wake-ups.
func TestSchedulerStress(t *testing.T) {
	const workers, parents, adders, adds = 8, 200, 4, 25_000
	s := New(3*time.Millisecond, nil)
	var version, seen [parents]atomic.Int64
	var busy [parents]atomic.Bool
	index := map[types.UID]int{}
	for i := range parents {
		index[types.UID(fmt.Sprint("p", i))] = i
	}
	var working, adding sync.WaitGroup
	for range workers {
		working.Go(func() {
			for d, ok := s.Next(t.Context()); ok; d, ok = s.Next(t.Context()) {
				i := index[d.UID]
				if !busy[i].CompareAndSwap(false, true) {
					t.Errorf("%s runs twice at once", d.UID)
				}
				o := Outcome{Err: rand.IntN(4) == 0, Again: rand.IntN(8) == 0, Throttled: rand.IntN(16) == 0}
				if v := version[i].Load(); !o.Err {
					seen[i].Store(v)
				}
				busy[i].Store(false)
				s.Done(d.UID, o)
			}
		})
	}
	for range adders {
		adding.Go(func() {
			for range adds {
				i := rand.IntN(parents)
				version[i].Add(1)
				s.Add(types.UID(fmt.Sprint("p", i)), Fresh, "", 0)
			}
		})
	}
	adding.Wait()
	require.Eventually(t, func() bool {
		for i := range parents {
			if seen[i].Load() != version[i].Load() {
				return false
			}
		}
		return true
	}, 5*time.Minute, time.Millisecond, "every parent's last change is seen by a pass that succeeds")
	s.Close()
	working.Wait()
}

func BenchmarkScheduler(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		uids := make([]types.UID, n)
		for i := range uids {
			uids[i] = types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i))
		}
		b.Run(fmt.Sprintf("queued=%d", n), func(b *testing.B) { // every parent is always due
			s := New(0, nil)
			for _, uid := range uids {
				s.Add(uid, Fresh, "parent", 0)
			}
			b.ReportAllocs()
			for b.Loop() {
				d, _ := s.Next(b.Context())
				s.Done(d.UID, Outcome{})
				s.Add(d.UID, Fresh, "parent", 0)
			}
		})
		b.Run(fmt.Sprintf("timers=%d", n), func(b *testing.B) { // every parent waits for a resync
			s := New(0, nil)
			for i, uid := range uids {
				s.Add(uid, Fresh, "parent", 0)
				d, _ := s.Next(b.Context())
				s.Done(d.UID, Outcome{Resync: time.Hour + time.Duration(i)*time.Millisecond})
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				s.Add(uids[i%n], Fresh, "parent", 0)
				d, _ := s.Next(b.Context())
				s.Done(d.UID, Outcome{Resync: time.Hour})
				i += 7919
			}
		})
	}
}
