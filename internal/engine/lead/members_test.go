package lead

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/sample"
)

// A wire carries the requests of one member until it is cut.
type wire struct {
	server http.RoundTripper
	cut    atomic.Bool
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.cut.Load() {
		return nil, errors.New("cut off")
	}
	return w.server.RoundTrip(r)
}

// A fleet watches over the members of a test.
type fleet struct {
	t      *testing.T
	server *fakeapi.Server
	all    []*runningMember
}

// A runningMember is a process that takes part.
type runningMember struct {
	*Members
	identity string
	wire     *wire
	stop     context.CancelFunc
	ended    chan error
	fatal    chan error
	slow     atomic.Int64 // how long work takes to end when it is told to
	begun    atomic.Int64 // how many works were begun
	cuts     atomic.Int64 // how many works were cut short
	failWith atomic.Pointer[error]
}

func newFleet(t *testing.T) *fleet {
	return &fleet{t: t, server: fakeapi.New(fakeapi.Leases())}
}

// newTestMembers returns a member that doesn't run.
func newTestMembers(t *testing.T, server http.RoundTripper, identity string, shards int) *Members {
	t.Helper()
	config := Config{Namespace: "ns", Identity: identity}.WithDefaults("op")
	m, err := NewMembers(config, shards, fakeapi.New().RESTConfig(), func() *http.Client { return &http.Client{Transport: server} }, sample.DiscardLog())
	require.NoError(t, err)
	return m
}

// join starts a member.
func (f *fleet) join(identity string, shards int) *runningMember {
	f.t.Helper()
	r := &runningMember{identity: identity, wire: &wire{server: f.server}, ended: make(chan error, 1), fatal: make(chan error, 1)}
	r.Members = newTestMembers(f.t, r.wire, identity, shards)
	ctx, stop := context.WithCancel(f.t.Context())
	r.stop = stop
	f.all = append(f.all, r)
	go func() {
		r.ended <- r.Run(ctx, func(err error) { r.fatal <- err }, r.work)
	}()
	synctest.Wait()
	return r
}

// work works until it is told to end, and then for as long as the member is slow.
func (r *runningMember) work(ctx, passes context.Context, _ int, held interface{ Held() bool }) error {
	r.begun.Add(1)
	<-ctx.Done()
	if slow := time.Duration(r.slow.Load()); slow > 0 {
		select {
		case <-passes.Done():
		case <-time.After(slow):
		}
	}
	if !held.Held() {
		select {
		case <-passes.Done():
		case <-time.After(time.Second):
			return errors.New("the lease was released before the work had ended")
		}
	}
	if passes.Err() != nil {
		r.cuts.Add(1)
	}
	if failure := r.failWith.Load(); failure != nil {
		return *failure
	}
	return nil
}

// elapse lets time pass until the condition holds, and finds never two that may write for
// one shard. It returns how long that took.
func (f *fleet) elapse(limit time.Duration, until func() bool) time.Duration {
	f.t.Helper()
	begin := time.Now()
	for !until() {
		require.Less(f.t, time.Since(begin), limit, "it takes too long: %s", f)
		<-time.After(10 * time.Millisecond)
		f.check()
	}
	synctest.Wait()
	return time.Since(begin)
}

// check finds that no two members may write for one shard, nor members that divide the parents
// otherwise at all.
func (f *fleet) check() {
	f.t.Helper()
	synctest.Wait() // else a shard may pass from one member to another between two looks
	holders, divided := map[int]string{}, 0
	for _, r := range f.all {
		for _, shard := range r.Members.Held() {
			require.Empty(f.t, holders[shard], "%s writes for shard %d, too: %s", r.identity, shard, f)
			require.True(f.t, divided == 0 || divided == r.shards, "members divide the parents differently: %s", f)
			holders[shard], divided = r.identity, r.shards
		}
	}
}

// quiet lets time pass.
func (f *fleet) quiet(d time.Duration) {
	f.t.Helper()
	end := time.Now().Add(d)
	f.elapse(d+time.Second, func() bool { return !time.Now().Before(end) })
}

func (f *fleet) String() string {
	var all []string
	for _, r := range f.all {
		all = append(all, fmt.Sprintf("%s %v", r.identity, r.Members.Held()))
	}
	return strings.Join(all, ", ")
}

// have returns a condition: the members have so many shards.
func have(counts map[*runningMember]int) func() bool {
	return func() bool {
		for r, n := range counts {
			if len(r.Members.Held()) != n {
				return false
			}
		}
		return true
	}
}

// end ends members, and waits for each before it ends the next one.
func (f *fleet) end(members ...*runningMember) {
	f.t.Helper()
	for _, r := range members {
		r.stop()
		f.elapse(time.Minute, func() bool { return len(r.ended) == 1 })
		require.NoError(f.t, <-r.ended)
		require.Empty(f.t, r.Members.Held())
	}
}

// leases returns the names of the Leases that there are.
func (f *fleet) leases() []string {
	var names []string
	for _, lease := range f.server.List(fakeapi.Leases().Type) {
		names = append(names, lease.Name())
	}
	return names
}

// holder returns who holds a Lease.
func (f *fleet) holder(name string) string {
	lease := f.server.Get(fakeapi.Leases().Type, types.NamespacedName{Namespace: "ns", Name: name})
	if lease == nil {
		return ""
	}
	value, _ := lease.Field("spec", "holderIdentity")
	holder, _ := value.(string)
	return holder
}

func TestMembers_One(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		require.EqualError(t, newTestMembers(t, f.server, "idle", 8).Joined(), "Lease ns/op: this process has not begun to take part")
		one := f.join("one", 8)
		require.Zero(t, f.elapse(time.Second, have(map[*runningMember]int{one: 8})), "nobody is waited for")
		require.NoError(t, one.Joined())
		require.Equal(t, types.NamespacedName{Namespace: "ns", Name: "op"}, one.Key())
		holder, renewed := one.Seen()
		require.Equal(t, "shards/8", holder)
		require.WithinDuration(t, time.Now(), renewed, 2500*time.Millisecond)
		f.quiet(time.Minute)
		require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7}, one.Members.Held())
		require.EqualValues(t, 8, one.begun.Load(), "all is quiet")

		shard := f.server.Get(fakeapi.Leases().Type, types.NamespacedName{Namespace: "ns", Name: "op-shard-3"})
		require.Equal(t, map[string]string{annotationShards: "8"}, shard.Annotations(), "nobody takes a shard over")
		require.Equal(t, map[string]string{labelFleet: one.fleetLabel}, shard.Labels())
		requests := f.server.Requests()
		f.quiet(time.Minute)
		writes := 0
		for _, r := range f.server.Requests()[len(requests):] {
			if r.Writes() {
				writes++
			}
		}
		require.LessOrEqual(t, writes, 30*10, "each of 10 Leases is renewed once in RetryPeriod")

		f.end(one)
		require.NotContains(t, f.leases(), one.memberName)
		require.Empty(t, f.holder("op"))
		require.Empty(t, f.holder("op-shard-3"))
		holder, renewed = one.Seen()
		require.Empty(t, holder)
		require.Zero(t, renewed)
	})
}

func TestMembers_JoinAndLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		one := f.join("one", 8)
		f.quiet(17500 * time.Millisecond)
		two := f.join("two", 8)
		took := f.elapse(2*2*time.Second, have(map[*runningMember]int{one: 4, two: 4}))
		t.Logf("4+4 after %v", took)
		f.quiet(time.Minute)
		require.EqualValues(t, 8, one.begun.Load())
		require.EqualValues(t, 4, two.begun.Load(), "a join moves no more than the joiner's share")
		three := f.join("three", 8)
		f.elapse(2*2*time.Second, func() bool { return len(three.Members.Held()) >= 2 })
		f.quiet(time.Minute)
		require.EqualValues(t, 4+8+2, one.begun.Load()+two.begun.Load()+three.begun.Load(), "two shards have moved: the others have three each")

		two.slow.Store(int64(20 * time.Second))
		two.stop()
		f.quiet(10 * time.Second)
		require.Len(t, two.Members.Held(), 3, "running passes may end by themselves")
		require.Equal(t, "shards/8", f.holder("op"))
		took = f.elapse(20*time.Second, have(map[*runningMember]int{one: 4, two: 0, three: 4}))
		t.Logf("taken %v after the work ended", took-10*time.Second)
		require.LessOrEqual(t, took, 10*time.Second+3*time.Second, "what a member releases is taken soon")
		require.NoError(t, <-two.ended)
		f.end(one)
		f.elapse(5*time.Second, have(map[*runningMember]int{three: 8}))
		f.end(three)
		require.Empty(t, f.holder("op"))
	})
}

func TestMembers_Death(t *testing.T) {
	for offset := range 8 {
		t.Run(fmt.Sprint(offset), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				one, two := f.join("one", 8), f.join("two", 8)
				f.elapse(time.Minute, have(map[*runningMember]int{one: 4, two: 4}))
				f.quiet(time.Minute + time.Duration(offset)*290*time.Millisecond)
				two.wire.cut.Store(true)
				lost := f.elapse(10*time.Second, have(map[*runningMember]int{two: 0}))
				took := lost + f.elapse(20*time.Second, have(map[*runningMember]int{one: 8}))
				t.Logf("lost after %v, taken over after %v", lost, took)
				require.LessOrEqual(t, took, 15*time.Second+3*time.Second)
				require.ErrorContains(t, two.Joined(), "cut off")
				require.EqualValues(t, 4, two.cuts.Load(), "work of a lost shard is cut short")
				if offset%2 == 1 {
					f.quiet(time.Minute)
					require.NotContains(t, f.leases(), two.memberName, "it counts as gone for good")
				}

				two.wire.cut.Store(false)
				f.elapse(10*time.Second, have(map[*runningMember]int{one: 4, two: 4}))
				require.NoError(t, two.Joined())
				two.wire.cut.Store(true)
				two.stop()
				require.NoError(t, <-two.ended)
				f.quiet(40 * time.Second)
				require.NotContains(t, f.leases(), two.memberName, "what the dead leave behind is deleted")
				f.end(one)
				require.Empty(t, f.holder("op"))
			})
		})
	}
}

// An undivided operator, which may be an older build, takes turns with the members as with any
// other replica.
func TestMembers_Undivided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		old := startLease(t, f.server, "old", "", 0)
		<-time.After(10 * time.Second)
		one, two := f.join("one", 8), f.join("two", 8)
		f.quiet(time.Minute)
		require.True(t, old.Held())
		require.Empty(t, one.Members.Held())
		require.NoError(t, one.Joined(), "it knows who leads")
		holder, renewed := one.Seen()
		require.Equal(t, "old", holder)
		require.Zero(t, renewed)
		require.NotContains(t, f.leases(), "op-shard-0")
		old.stop()
		require.NoError(t, <-old.ended)
		took := f.elapse(time.Minute, have(map[*runningMember]int{one: 4, two: 4}))
		t.Logf("members take over from an undivided operator after %v", took)
		require.LessOrEqual(t, took, 6*time.Second)

		_, annotations := leaseOf(f.server)
		require.Empty(t, annotations)
		next := startLease(t, f.server, "next", "", 0)
		alone := func() { require.True(t, !next.Held() || len(one.Members.Held())+len(two.Members.Held()) == 0) }
		f.quiet(time.Minute)
		require.False(t, next.Held())
		f.end(one)
		f.quiet(time.Minute)
		require.False(t, next.Held(), "another member is left")
		two.stop()
		took = f.elapse(time.Minute, func() bool { alone(); return next.Held() })
		t.Logf("an undivided operator takes over from members after %v", took)
		require.LessOrEqual(t, took, 4400*time.Millisecond)
		require.NoError(t, <-two.ended)
		next.stop()
		require.NoError(t, <-next.ended)
	})
}

// Members that die leave the fleet's Lease to an undivided replica after LeaseDuration, and
// one that dies to members.
func TestMembers_UndividedDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		one, two := f.join("one", 8), f.join("two", 8)
		next := startLease(t, f.server, "next", "", 0)
		f.quiet(time.Minute)
		one.wire.cut.Store(true)
		f.quiet(30 * time.Second)
		require.False(t, next.Held())
		two.wire.cut.Store(true)
		took := f.elapse(time.Minute, func() bool {
			require.True(t, !next.Held() || len(two.Members.Held()) == 0)
			return next.Held()
		})
		t.Logf("an undivided operator takes over from dead members after %v", took)
		require.LessOrEqual(t, took, 15*time.Second+4400*time.Millisecond)
		one.wire.cut.Store(false)
		two.wire.cut.Store(false)
		f.quiet(time.Minute)
		require.Empty(t, one.Members.Held())
		require.NoError(t, one.Joined())
		f.server.SetHooks(fakeapi.Hooks{Admit: func(_ fakeapi.Request, o map[string]any) error {
			if spec, _ := o["spec"].(map[string]any); spec["holderIdentity"] == "next" {
				return errors.New("cut off")
			}
			return nil
		}})
		f.elapse(time.Minute, func() bool {
			require.True(t, !next.Held() || len(one.Members.Held())+len(two.Members.Held()) == 0)
			return have(map[*runningMember]int{one: 4, two: 4})()
		})
		require.Error(t, <-next.ended)
		f.end(one, two)
	})
}

func TestMembers_OtherNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		one, two := f.join("one", 8), f.join("two", 8)
		f.elapse(time.Minute, have(map[*runningMember]int{one: 4, two: 4}))
		a, b := f.join("a", 4), f.join("b", 4)
		f.quiet(time.Minute)
		require.NoError(t, a.Joined())
		require.True(t, have(map[*runningMember]int{one: 4, two: 4, a: 0, b: 0})(), "they don't count")
		f.end(one)
		f.quiet(time.Minute)
		require.Len(t, two.Members.Held(), 8)
		two.stop()
		took := f.elapse(time.Minute, have(map[*runningMember]int{a: 2, b: 2}))
		t.Logf("members of another number take over after %v", took)
		require.NoError(t, <-two.ended)
		require.Equal(t, "shards/4", f.holder("op"))
		f.end(a, b)
	})
}

// A member joins while the last one leaves: either one of them renews the Lease, or it is
// free. There is never a member that thinks that it holds a Lease that is free.
func TestMembers_JoinWhileTheLastLeaves(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		at     string // the last member's request before which the other one joins; the first one is the delete
		holder string // of the fleet's Lease after the other one joined
	}{
		"Before the member's Lease is deleted": {"it is listed", "delete", "shards/8"},
		"Before the fleet's Lease is read":     {"it is listed", "get", "shards/8"},
		"Before the list":                      {"it is listed", "list", "shards/8"},
		"Before the release":                   {"the update is refused", "update", "shards/8"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				one := f.join("one", 8)
				f.quiet(time.Minute)
				var two *runningMember
				var resigns, joined atomic.Bool
				f.server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
					if r.Verb == "delete" {
						resigns.Store(true)
					}
					if resigns.Load() && r.Verb == tc.at && joined.CompareAndSwap(false, true) {
						two = f.join("two", 8)
					}
					return nil
				}})
				one.stop()
				require.NoError(t, <-one.ended)
				require.True(t, joined.Load())
				require.Equal(t, tc.holder, f.holder("op"), tc.reason)
				f.elapse(20*time.Second, have(map[*runningMember]int{two: 8}))
				require.Equal(t, "shards/8", f.holder("op"))
				f.end(two)
			})
		})
	}
}

func TestMembers_APIServerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		one, two := f.join("one", 8), f.join("two", 8)
		f.quiet(time.Minute)
		one.wire.cut.Store(true)
		two.wire.cut.Store(true)
		f.quiet(10 * time.Second)
		require.True(t, have(map[*runningMember]int{one: 0, two: 0})())
		f.quiet(50 * time.Second)
		require.Error(t, one.Joined())
		one.wire.cut.Store(false)
		two.wire.cut.Store(false)
		took := f.elapse(time.Minute, have(map[*runningMember]int{one: 4, two: 4}))
		t.Logf("members work again after %v", took)
		require.LessOrEqual(t, took, 4*time.Second)
		begun := one.begun.Load() + two.begun.Load()
		f.quiet(time.Minute)
		require.Equal(t, begun, one.begun.Load()+two.begun.Load())
		require.EqualValues(t, 8+4+8, begun, "each shard went straight to whose it is")
		f.end(one, two)
	})
}

func TestMembers_Forbidden(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, verb, object, err string
	}{
		"Own":    {"it can't take part", "get", "op-member-", "is forbidden"},
		"Create": {"it can't take part", "create", "op-member-", "is forbidden"},
		"Fleet":  {"it can't join", "get", "op", "Lease ns/op: get: leases.coordination.k8s.io"},
		"List":   {"it would hold no shard", "list", "", "Leases in ns: list: leases.coordination.k8s.io"},
		"Shards": {"it would hold no shard", "get", "op-shard-", "is forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				forbid := func() {
					f.server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
						if r.Verb == tc.verb && (r.Key.Name == tc.object || strings.HasSuffix(tc.object, "-") && strings.HasPrefix(r.Key.Name, tc.object)) {
							why := fmt.Sprintf(`User "u" cannot %s resource "leases" in API group "coordination.k8s.io" in the namespace "ns"`, r.Verb)
							return apierrors.NewForbidden(schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, r.Key.Name, errors.New(why))
						}
						return nil
					}})
				}
				forbid()
				one := f.join("one", 8)
				f.elapse(5*time.Second, func() bool { return len(one.fatal) == 1 })
				err := <-one.fatal
				require.ErrorContains(t, err, tc.err, tc.reason)
				require.ErrorContains(t, err, `{apiGroups: ["coordination.k8s.io"]`, "the rule is named")
				require.NoError(t, <-one.ended)
				require.Zero(t, one.begun.Load())

				f.server.SetHooks(fakeapi.Hooks{})
				two := f.join("two", 8)
				f.elapse(20*time.Second, have(map[*runningMember]int{two: 8}))
				forbid()
				f.quiet(time.Minute)
				require.Empty(t, two.fatal, "it has worked, and may again")
				f.server.SetHooks(fakeapi.Hooks{})
				f.elapse(20*time.Second, have(map[*runningMember]int{two: 8}))
				f.end(two)
			})
		})
	}
}

// A member that holds no shard yet isn't ended by rights that are gone for a moment, also not just
// when it would take its first shard.
func TestMembers_RightsGone(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		begins func(r fakeapi.Request) bool // whether rights are gone from this request on
	}{
		"Waiting": {"it has listed the Leases before", func(r fakeapi.Request) bool { return r.Verb == "list" }},
		"Shards":  {"it has asked for no shard's Lease before", func(r fakeapi.Request) bool { return strings.HasPrefix(r.Key.Name, "op-shard-") }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				one := f.join("one", 2)
				f.elapse(20*time.Second, have(map[*runningMember]int{one: 2}))
				two, three := f.join("two", 2), f.join("three", 2) // one of them gets none
				f.elapse(20*time.Second, func() bool {
					return len(one.Members.Held()) == 1 && len(two.Members.Held())+len(three.Members.Held()) == 1
				})
				one.stop()
				require.NoError(t, <-one.ended)
				var gone atomic.Pointer[time.Time]
				f.server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
					if gone.Load() == nil && tc.begins(r) {
						now := time.Now()
						gone.Store(&now)
					}
					if since := gone.Load(); since != nil && time.Since(*since) < 10*time.Second {
						return apierrors.NewForbidden(schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, r.Key.Name, errors.New("no"))
					}
					return nil
				}})
				f.elapse(time.Minute, have(map[*runningMember]int{two: 1, three: 1}))
				require.NotNil(t, gone.Load())
				require.Empty(t, three.fatal, tc.reason)
				require.Empty(t, two.fatal)
				f.end(two, three)
			})
		})
	}
}

func TestMembers_NoNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Verb == "create" {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "ns")
			}
			return nil
		}})
		one := f.join("one", 8)
		require.ErrorContains(t, <-one.fatal, "create the namespace")
		require.NoError(t, <-one.ended)
	})
}

// A renewal that comes after the fleet's Lease was lost doesn't bring the term back, even if
// nobody has noticed the loss yet: the machine has slept.
func TestTerm(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		then   func(m *Members, t *term)
		held   bool
		over   bool
	}{
		"Not begun":      {"nobody has renewed", func(*Members, *term) {}, false, false},
		"Begun":          {"it was renewed", func(_ *Members, t *term) { t.renew(time.Now()) }, true, false},
		"A slow round":   {"others may count from its beginning", func(_ *Members, t *term) { t.renew(time.Now().Add(-10 * time.Second)) }, false, false},
		"Renewed":        {"it goes on", func(_ *Members, t *term) { t.renew(time.Now()); <-time.After(9 * time.Second); t.renew(time.Now()) }, true, false},
		"Overdue":        {"it has ended", func(_ *Members, t *term) { t.renew(time.Now()); <-time.After(10 * time.Second) }, false, true},
		"Renewed late":   {"it has ended before", func(_ *Members, t *term) { t.renew(time.Now()); <-time.After(10 * time.Second); t.renew(time.Now()) }, false, true},
		"Taken":          {"another process writes already", func(_ *Members, t *term) { t.renew(time.Now()); t.lose(errors.New("taken")) }, false, true},
		"Taken, renewed": {"it was under way", func(_ *Members, t *term) { t.renew(time.Now()); t.lose(errors.New("taken")); t.renew(time.Now()) }, false, true},
		"A late round": {
			"it joins no more: work of the term has yet to end", func(m *Members, t *term) {
				m.mu.term = t
				t.renew(time.Now())
				<-time.After(10 * time.Second)
				m.round(context.Background())
			}, false, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newTestMembers(t, fakeapi.New(fakeapi.Leases()), "one", 8)
				over, term := m.newTerm(t.Context())
				tc.then(m, term)
				require.Equal(t, tc.held, term.held(), tc.reason)
				require.Equal(t, tc.over, term.settle(), tc.reason)
				require.Equal(t, tc.over, over.Err() != nil, "its context ends with it")
			})
		})
	}
}

// Only the version of a Lease that was seen to expire is free.
func TestPart(t *testing.T) {
	holder := "dead"
	lease := func(version string) *coordination.Lease {
		l := &coordination.Lease{Spec: coordination.LeaseSpec{HolderIdentity: &holder}}
		l.ResourceVersion = version
		return l
	}
	for name, tc := range map[string]struct {
		reason           string
		expired, version string
		holder           string
	}{
		"Expired":     {"the holder is dead", "7", "7", ""},
		"Renewed":     {"the holder lives", "7", "8", "dead"},
		"Not expired": {"the elector counts itself", "", "7", "dead"},
		"No version":  {"nothing was seen", "", "", "dead"},
	} {
		t.Run(name, func(t *testing.T) {
			l := lease(tc.version)
			(&part{expired: tc.expired}).free(l)
			require.Equal(t, tc.holder, holderOf(l), tc.reason)
		})
	}
	(&part{expired: "7"}).free(nil)
}

// A shard's Lease whose holder renews it after it was seen to expire isn't taken.
func TestMembers_HolderComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		one, two := f.join("one", 2), f.join("two", 2)
		f.elapse(time.Minute, have(map[*runningMember]int{one: 1, two: 1}))
		shard := two.Members.Held()[0]
		key := types.NamespacedName{Namespace: "ns", Name: shardName("op", shard)}
		two.wire.cut.Store(true)
		var back atomic.Bool
		f.server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Verb == "update" && r.Key == key && back.CompareAndSwap(false, true) {
				_, err := f.server.Change(fakeapi.Leases().Type, key, func(o map[string]any) {
					o["spec"].(map[string]any)["renewTime"] = time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00")
				})
				return err
			}
			return nil
		}})
		f.elapse(20*time.Second, back.Load)
		f.quiet(10 * time.Second)
		require.Equal(t, "two", f.holder(key.Name))
		require.Len(t, one.Members.Held(), 1)
		f.elapse(10*time.Second, have(map[*runningMember]int{one: 2}))
		two.stop()
		require.NoError(t, <-two.ended)
		f.end(one)
	})
}

// A shard whose Lease is lost is tried anew, and the others go on.
func TestMembers_LosesOneShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		one := f.join("one", 4)
		f.quiet(time.Minute)
		_, err := f.server.Change(fakeapi.Leases().Type, types.NamespacedName{Namespace: "ns", Name: "op-shard-2"}, func(o map[string]any) {
			o["spec"].(map[string]any)["holderIdentity"] = "other"
		})
		require.NoError(t, err)
		f.elapse(3*time.Second, func() bool { return !one.Holds(2) })
		require.Equal(t, []int{0, 1, 3}, one.Members.Held())
		require.EqualValues(t, 1, one.cuts.Load())
		f.elapse(20*time.Second, have(map[*runningMember]int{one: 4}))
		f.end(one)
	})
}

// The members end their work at once if somebody else takes the fleet's Lease by force.
func TestMembers_FleetTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		one := f.join("one", 4)
		one.slow.Store(int64(time.Hour))
		f.quiet(time.Minute)
		_, err := f.server.Change(fakeapi.Leases().Type, types.NamespacedName{Namespace: "ns", Name: "op"}, func(o map[string]any) {
			o["spec"].(map[string]any)["holderIdentity"] = "other"
		})
		require.NoError(t, err)
		f.elapse(3*time.Second, func() bool { return one.cuts.Load() == 4 })
		require.Empty(t, one.Members.Held())
		f.quiet(10 * time.Second)
		require.NoError(t, one.Joined())
		require.Empty(t, f.holder("op-shard-0"), "it is released")
		f.elapse(20*time.Second, have(map[*runningMember]int{one: 4}))
		one.slow.Store(0)
		f.end(one)
	})
}

// An error of work ends the process: something of the work still runs.
func TestMembers_WorkThatStillRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		one, two := f.join("one", 4), f.join("two", 4)
		f.quiet(time.Minute)
		unfinished := errors.New("still runs")
		one.failWith.Store(&unfinished)
		_, err := f.server.Change(fakeapi.Leases().Type, types.NamespacedName{Namespace: "ns", Name: "op-shard-0"}, func(o map[string]any) {
			o["spec"].(map[string]any)["holderIdentity"] = "other"
		})
		require.NoError(t, err)
		_, err = f.server.Change(fakeapi.Leases().Type, types.NamespacedName{Namespace: "ns", Name: "op-shard-1"}, func(o map[string]any) {
			o["spec"].(map[string]any)["holderIdentity"] = "other"
		})
		require.NoError(t, err)
		f.elapse(10*time.Second, func() bool { return len(one.ended) == 1 })
		require.ErrorIs(t, <-one.ended, unfinished)
		require.Empty(t, one.Members.Held())
		f.elapse(20*time.Second, have(map[*runningMember]int{two: 4}))
		f.end(two)
	})
}

// A member whose work doesn't end after it has lost the fleet's Lease doesn't join again
// before it has ended, and doesn't keep the shards from others.
func TestMembers_SlowToEndALostTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		release := make(chan struct{})
		one := &runningMember{identity: "one", wire: &wire{server: f.server}, ended: make(chan error, 1)}
		one.Members = newTestMembers(t, one.wire, "one", 2)
		ctx, stop := context.WithCancel(t.Context())
		var calls atomic.Int64
		f.all = append(f.all, one)
		go func() {
			one.ended <- one.Run(ctx, nil, func(ctx, passes context.Context, _ int, held interface{ Held() bool }) error {
				if calls.Add(1) > 2 {
					<-ctx.Done()
					return nil
				}
				<-passes.Done()
				<-release
				if held.Held() {
					return errors.New("the work of a lost term may write again")
				}
				return nil
			})
		}()
		f.quiet(20 * time.Second)
		require.Len(t, one.Members.Held(), 2)
		one.wire.cut.Store(true)
		f.quiet(15 * time.Second)
		one.wire.cut.Store(false)
		version := func() any {
			v, _ := f.server.Get(fakeapi.Leases().Type, types.NamespacedName{Namespace: "ns", Name: "op"}).Field("metadata", "resourceVersion")
			return v
		}
		before := version()
		f.quiet(20 * time.Second)
		require.Equal(t, before, version(), "nor does it keep an undivided replica waiting")
		two := f.join("two", 2)
		f.elapse(20*time.Second, have(map[*runningMember]int{two: 2}))
		f.quiet(time.Minute)
		require.ErrorContains(t, one.Joined(), "has yet to end")
		require.Len(t, two.Members.Held(), 2)
		require.EqualValues(t, 2, calls.Load())
		close(release)
		f.elapse(10*time.Second, have(map[*runningMember]int{one: 1, two: 1}))
		stop()
		require.NoError(t, <-one.ended)
		f.end(two)
	})
}

func TestMembers_MoreThanShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		all := []*runningMember{f.join("a", 2), f.join("b", 2), f.join("c", 2)}
		f.quiet(time.Minute)
		held := 0
		for _, r := range all {
			require.NoError(t, r.Joined())
			require.LessOrEqual(t, len(r.Members.Held()), 1)
			held += len(r.Members.Held())
		}
		require.Equal(t, 2, held)
		f.end(all...)
	})
}

// A process that would take the lease over is told what to do instead. An observer finds that
// an operator works.
func TestMembers_SeenByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		one := f.join("one", 8)
		f.quiet(10 * time.Second)
		dev := startLease(t, f.server, "dev", "alice@laptop", 0)
		require.ErrorContains(t, <-dev.fatal, "the operator is divided into 8 shards")
		require.NoError(t, <-dev.ended)
		config := Config{Namespace: "ns", Identity: "observer"}.WithDefaults("op")
		observer, err := NewObserver(config, f.server.RESTConfig(), &http.Client{Transport: f.server})
		require.NoError(t, err)
		standing, err := observer.Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, Renewed, standing)
		require.Equal(t, "shards/8", observer.Holder())
		f.end(one)
		standing, err = observer.Look(t.Context())
		require.NoError(t, err)
		require.Equal(t, Free, standing)
	})
}

func TestNewMembers_Refused(t *testing.T) {
	for _, shards := range []int{-1, 0, 3, 128} {
		_, err := NewMembers(Config{}.WithDefaults("op"), shards, fakeapi.New().RESTConfig(), func() *http.Client { return &http.Client{} }, sample.DiscardLog())
		require.ErrorContains(t, err, "it must be a power of two")
	}
}

// sum returns a condition: every shard is held by one of these members.
func sum(shards int, members ...*runningMember) func() bool {
	return func() bool {
		held := 0
		for _, r := range members {
			held += len(r.Members.Held())
		}
		return held == shards
	}
}

// A member that comes before the Leases of a dead one have expired hasn't seen them for as long as the others have. No
// shard waits for it to have done so.
func TestMembers_DeathAndReplacement(t *testing.T) {
	for offset := range 6 {
		t.Run(fmt.Sprint(offset), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				one, two, three := f.join("one", 8), f.join("two", 8), f.join("three", 8)
				f.elapse(time.Minute, sum(8, one, two, three))
				f.quiet(time.Minute)
				two.wire.cut.Store(true)
				died := time.Now()
				f.quiet(time.Duration(offset) * 3 * time.Second)
				four := f.join("four", 8)
				f.quiet(time.Second)
				f.elapse(time.Minute, func() bool { return len(two.Members.Held()) == 0 })
				f.elapse(time.Minute, sum(8, one, three, four))
				took := time.Since(died)
				t.Logf("all are held again after %v", took)
				require.LessOrEqual(t, took, 15*time.Second+4400*time.Millisecond+4*time.Second, "LeaseDuration, 2.2 times RetryPeriod, and twice RetryPeriod")
				f.elapse(time.Minute, func() bool {
					least, most := 8, 0
					for _, r := range []*runningMember{one, three, four} {
						least, most = min(least, len(r.Members.Held())), max(most, len(r.Members.Held()))
					}
					return most-least <= 1 && sum(8, one, three, four)()
				})
				begun := one.begun.Load() + three.begun.Load() + four.begun.Load()
				f.quiet(2 * time.Minute)
				require.Equal(t, begun, one.begun.Load()+three.begun.Load()+four.begun.Load(), "nothing moves any more")
				two.stop()
				require.NoError(t, <-two.ended)
			})
		})
	}
}

// A member keeps nothing of those that have died, however many there were.
func TestMembers_KeepNothingOfTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		one := f.join("one", 1)
		kept := func() int {
			one.mu.Lock()
			defer one.mu.Unlock()
			return len(one.mu.failures) + len(one.mu.rights.given) + len(one.mu.rights.denied)
		}
		var first int
		for i := range 10 {
			dies := f.join(fmt.Sprint("dies", i), 1)
			f.elapse(time.Minute, func() bool { return slices.Contains(f.leases(), dies.memberName) })
			dies.wire.cut.Store(true)
			dies.stop()
			require.NoError(t, <-dies.ended)
			f.quiet(time.Minute)
			require.NotContains(t, f.leases(), dies.memberName)
			if i == 0 {
				first = kept()
			}
		}
		require.Equal(t, first, kept())
		f.end(one)
	})
}

// A member that was frozen thinks for a while that another one lives which has died meanwhile, and leaves a
// shard to it. That is held all the same, and doesn't go to and fro.
func TestMembers_ThawBesideTheDead(t *testing.T) {
	for offset := range 4 {
		t.Run(fmt.Sprint(offset), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				members := []*runningMember{f.join("one", 8), f.join("two", 8), f.join("three", 8), f.join("four", 8), f.join("five", 8)}
				f.elapse(time.Minute, sum(8, members...))
				f.quiet(time.Minute)
				dead, frozen := members[4], members[3]
				frozen.wire.cut.Store(true)
				f.quiet(time.Duration(offset) * time.Second)
				dead.wire.cut.Store(true)
				f.elapse(time.Minute, func() bool { return len(dead.Members.Held())+len(frozen.Members.Held()) == 0 })
				f.elapse(time.Minute, sum(8, members[:3]...))
				frozen.wire.cut.Store(false)
				f.elapse(20*time.Second, func() bool { return len(frozen.Members.Held()) > 0 })
				f.elapse(10*time.Second, sum(8, members[:4]...))
				begun := func() (n int64) {
					for _, r := range members {
						n += r.begun.Load()
					}
					return n
				}
				before := begun()
				f.quiet(time.Minute)
				require.LessOrEqual(t, begun()-before, int64(4), "shards go to and fro")
				require.True(t, sum(8, members[:4]...)())
				dead.stop()
				require.NoError(t, <-dead.ended)
			})
		})
	}
}
