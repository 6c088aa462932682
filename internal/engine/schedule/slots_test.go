package schedule

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// A slotted is schedulers that share slots, with as many workers each. A parent belongs to
// the scheduler whose number its UID begins with, modulo their number.
type slotted struct {
	t          *testing.T
	schedulers []*Scheduler
	stops      []context.CancelFunc

	mu      sync.Mutex
	taken   []types.UID                 // in the order in which they were taken
	waited  map[types.UID]time.Duration // at the last time
	running map[types.UID]chan Outcome
}

func newSlotted(t *testing.T, schedulers, slots int) *slotted {
	shared := NewSlots(slots)
	f := &slotted{t: t, waited: map[types.UID]time.Duration{}, running: map[types.UID]chan Outcome{}}
	for range schedulers {
		f.schedulers = append(f.schedulers, NewSharing(shared, 0, noJitter))
		f.stops = append(f.stops, func() {})
	}
	t.Cleanup(func() {
		for i := range f.schedulers {
			f.stop(i)
		}
	})
	return f
}

// work starts the workers of a scheduler. They end when stop is called.
func (f *slotted) work(i, workers int) {
	ctx, stop := context.WithCancel(f.t.Context())
	f.stops[i] = stop
	for range workers {
		go func() {
			s := f.schedulers[i]
			for d, ok := s.Next(ctx); ok; d, ok = s.Next(ctx) {
				ended := make(chan Outcome)
				f.mu.Lock()
				f.taken = append(f.taken, d.UID)
				f.waited[d.UID], f.running[d.UID] = d.Waited, ended
				f.mu.Unlock()
				select {
				case o := <-ended:
					s.Done(d.UID, o)
				case <-ctx.Done():
					f.mu.Lock()
					delete(f.running, d.UID)
					f.mu.Unlock()
					s.Done(d.UID, Outcome{})
				}
			}
		}()
	}
	synctest.Wait()
}

func (f *slotted) stop(i int) {
	f.stops[i]()
	synctest.Wait()
}

func (f *slotted) of(uid types.UID) *Scheduler {
	return f.schedulers[int(uid[0]-'0')%len(f.schedulers)]
}

// add adds parents: fresh ones in upper case, those of the backlog in lower case.
func (f *slotted) add(uids ...string) {
	for _, uid := range uids {
		p := Backlog
		if upper := strings.ToUpper(uid); upper == uid {
			p = Fresh
		}
		uid := types.UID(strings.ToUpper(uid))
		f.of(uid).Add(uid, p, "", 0)
		synctest.Wait()
	}
}

// end ends the reconciliation that began first, and reports whether there is one.
func (f *slotted) end(o Outcome) bool {
	f.mu.Lock()
	first := slices.IndexFunc(f.taken, func(uid types.UID) bool { return f.running[uid] != nil })
	if first < 0 {
		f.mu.Unlock()
		return false
	}
	uid := f.taken[first]
	ended := f.running[uid]
	delete(f.running, uid)
	f.mu.Unlock()
	ended <- o
	synctest.Wait()
	return true
}

// rest ends all reconciliations with a success, and returns which parents were taken so far.
func (f *slotted) rest() string {
	for f.end(Outcome{}) {
	}
	var all []string
	for _, uid := range f.taken {
		all = append(all, string(uid))
	}
	return strings.Join(all, " ")
}

// Schedulers that share slots are like one scheduler.
func TestSlots_Order(t *testing.T) {
	tests := map[string]struct {
		reason string
		do     func(f *slotted)
		want   string
	}{
		"Fresh before the backlog of others": {
			reason: "one slot, which 0X has; 1A came last",
			do:     func(f *slotted) { f.add("0x", "0y", "2z", "1A") }, want: "0X 1A 0Y 2Z",
		},
		"First in, first out": {
			reason: "among the fresh ones of all, and then in the backlog of all",
			do:     func(f *slotted) { f.add("0X", "2c", "1C", "0c", "2D", "1e", "0E") }, want: "0X 1C 2D 0E 2C 0C 1E",
		},
		"The backlog has its turn": {
			reason: "one after eight fresh ones, whoever has them",
			do: func(f *slotted) {
				f.add("0X", "2y", "2z", "0A", "1B", "0C", "1D", "0E", "1F", "0G", "1H", "0I", "1J")
			},
			want: "0X 0A 1B 0C 1D 0E 1F 0G 1H 2Y 0I 1J 2Z",
		},
		"A follow-up goes first": {
			reason: "before the fresh ones of all schedulers",
			do: func(f *slotted) {
				f.add("0X", "1A", "2B")
				f.end(Outcome{Again: true})
			},
			want: "0X 0X 1A 2B",
		},
		"Moves up": {
			reason: "a change of a parent in the backlog",
			do:     func(f *slotted) { f.add("0X", "1a", "2b", "0C", "2B") }, want: "0X 0C 2B 1A",
		},
		"A worker without parents keeps no slot": {
			reason: "the other schedulers' workers have waited longer",
			do:     func(f *slotted) { f.add("2A", "2B", "2C") }, want: "2A 2B 2C",
		},
		"A change while it waits for a slot": {
			reason: "leads to no second reconciliation: the parent isn't running yet",
			do:     func(f *slotted) { f.add("0X", "1A", "1A", "1a") }, want: "0X 1A",
		},
		"A retry on time": {
			reason: "a parent that waits for its timer keeps no slot, and has its turn when it is due",
			do: func(f *slotted) {
				f.add("0X")
				f.end(Outcome{Err: true})
				f.add("1A", "1B")
				schedElapse(time.Second)
			},
			want: "0X 1A 1B 0X",
		},
		"Workers that begin late": {
			reason: "their parents hold up no others before, and come in their order then",
			do: func(f *slotted) {
				f.stop(1)
				f.add("0X", "1A", "2B", "2C")
				f.end(Outcome{})
				f.work(1, 1)
			},
			want: "0X 2B 1A 2C",
		},
		"Workers that have ended": {
			reason: "a shard that was given up holds up no other ones, and its running reconciliation frees its slot",
			do: func(f *slotted) {
				f.add("1X", "1A", "2B", "1C")
				f.stop(1)
			},
			want: "1X 2B",
		},
		"Closed": {
			reason: "a scheduler that stops takes no parent, and holds up no other ones",
			do: func(f *slotted) {
				f.add("1X", "1A", "2B")
				f.schedulers[1].Close()
				synctest.Wait()
			},
			want: "1X 2B",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newSlotted(t, 3, 1)
				for i := range 3 {
					f.work(i, 1)
				}
				tc.do(f)
				require.Equal(t, tc.want, f.rest(), tc.reason)
			})
		})
	}
}

// What Activity and Due tell of parents that wait for a slot.
func TestSlots_Activity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newSlotted(t, 4, 2)
		for i := range 4 {
			f.work(i, 2)
		}
		f.add("0A", "1B", "1C", "2D", "3e")
		counts := func() (running, due int) {
			for _, s := range f.schedulers {
				r, d, _ := s.Activity()
				running, due = running+r, due+d
			}
			return running, due
		}
		running, due := counts()
		require.Equal(t, []int{2, 3}, []int{running, due}, "no more run than there are slots, and the others are due")
		schedElapse(10 * time.Second)
		f.end(Outcome{})
		f.end(Outcome{})
		running, due = counts()
		require.Equal(t, []int{2, 1}, []int{running, due})
		schedElapse(10 * time.Second)
		require.Equal(t, "0A 1B 1C 2D 3E", f.rest())
		require.Equal(t, map[types.UID]time.Duration{"0A": 0, "1B": 0, "1C": 10 * time.Second, "2D": 10 * time.Second, "3E": 20 * time.Second}, f.waited,
			"the wait for a slot counts")
	})
}

// Whatever happens to parents, four schedulers that share a slot take them in the order of one.
func TestSlots_LikeOneScheduler(t *testing.T) {
	for seed := range uint64(100) {
		run := func(schedulers int) (taken string) {
			synctest.Test(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, 0))
				f := newSlotted(t, schedulers, 1)
				for i := range schedulers {
					f.work(i, 2) // one of them always waits, and heeds the timers
				}
				for range 300 {
					uid := types.UID(fmt.Sprint(rnd.IntN(20)+10, "P"))
					uid = uid[1:2] + uid
					outcome := Outcome{Again: rnd.IntN(3) == 0, Step: rnd.IntN(2) == 0, Err: rnd.IntN(6) == 0, Throttled: rnd.IntN(12) == 0}
					if rnd.IntN(4) == 0 {
						outcome.Resync = time.Duration(rnd.IntN(int(time.Second)))
					}
					wait := time.Duration(rnd.IntN(int(300 * time.Millisecond)))
					switch rnd.IntN(6) {
					case 0:
						f.of(uid).Add(uid, Fresh, "", Edited)
					case 1:
						f.of(uid).Add(uid, Fresh, "", 0)
					case 2:
						f.of(uid).Add(uid, Backlog, "", 0)
					case 3:
						schedElapse(wait)
					default:
						f.end(outcome)
					}
					schedElapse(time.Duration(1 + rnd.IntN(int(time.Millisecond)))) // no two timers expire at once
					synctest.Wait()
				}
				taken = fmt.Sprint(f.taken)
			})
			return taken
		}
		require.Equal(t, run(1), run(4), "seed %d", seed)
	}
}

// Real goroutines in real time show data races, under the race detector, and lost wake-ups,
// also while workers end and others begin.
func TestSlots_Stress(t *testing.T) {
	const schedulers, slots, parents, adds = 4, 3, 40, 10_000
	shared := NewSlots(slots)
	var version, seen [schedulers][parents]atomic.Int64
	var running atomic.Int64
	var all []*Scheduler
	ctx, end := context.WithCancel(t.Context())
	var working, adding sync.WaitGroup
	for i := range schedulers {
		s := NewSharing(shared, 3*time.Millisecond, nil)
		all = append(all, s)
		for range slots {
			working.Go(func() {
				for ctx.Err() == nil {
					term, cancel := context.WithTimeout(ctx, time.Duration(rand.IntN(int(2*time.Millisecond))))
					for d, ok := s.Next(term); ok; d, ok = s.Next(term) {
						if n := running.Add(1); n > slots {
							t.Errorf("%d reconciliations run at once", n)
						}
						var of int
						_, _ = fmt.Sscan(string(d.UID), &of)
						o := Outcome{Err: rand.IntN(4) == 0, Again: rand.IntN(8) == 0}
						if v := version[i][of].Load(); !o.Err {
							seen[i][of].Store(v)
						}
						running.Add(-1)
						s.Done(d.UID, o)
					}
					cancel()
				}
			})
		}
		adding.Go(func() {
			for range adds {
				of := rand.IntN(parents)
				version[i][of].Add(1)
				s.Add(types.UID(fmt.Sprint(of)), Priority(rand.IntN(2)), "", 0)
			}
		})
	}
	adding.Wait()
	for i := range schedulers { // a backlog add changes nothing for a failed parent
		for of := range parents {
			all[i].Add(types.UID(fmt.Sprint(of)), Fresh, "", 0)
		}
	}
	require.Eventually(t, func() bool {
		for i := range schedulers {
			for of := range parents {
				if seen[i][of].Load() != version[i][of].Load() {
					return false
				}
			}
		}
		return true
	}, 5*time.Minute, time.Millisecond, "every parent's last change is seen by a reconciliation that succeeds")
	end()
	working.Wait()
	require.Empty(t, shared.callers, "nothing is kept of schedulers without workers")
	require.Equal(t, slots, shared.free, "every slot is free again")
}
