package manager_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/transport"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/lead"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/shard"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

const bucketLabel = "roperator.com/bucket"

// A fleet is replicas that share the parents of one operator, on one server, which finds
// every write that its sender has no Lease for.
type fleet struct {
	t      *testing.T
	server *fakeapi.Server
	shards int
	cfg    config.Operator

	mu        sync.Mutex
	violation []string
	writers   map[string][]string // parent -> who wrote for it, one after the other
}

func newFleet(t *testing.T, shards int) *fleet {
	f := &fleet{t: t, server: fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"), fakeapi.ConfigMaps(), fakeapi.Secrets(), fakeapi.Leases()), shards: shards, cfg: rig.Config(), writers: map[string][]string{}}
	f.server.NameUIDs()
	f.server.SetHooks(fakeapi.Hooks{Before: f.check})
	return f
}

// check notes a write for a parent that its sender may not make. Parents and children have
// the same names.
func (f *fleet) check(r fakeapi.Request) error {
	if r.UserAgent == "" || !r.Writes() || r.Type != sample.ParentType() && r.Type != k8s.ConfigMap {
		return nil
	}
	parent := f.server.Get(sample.ParentType(), r.Key)
	f.mu.Lock()
	defer f.mu.Unlock()
	if of := f.writers[r.Key.Name]; len(of) == 0 || of[len(of)-1] != r.UserAgent {
		f.writers[r.Key.Name] = append(of, r.UserAgent)
	}
	if parent == nil {
		return nil
	}
	if has := f.holderOf(parent); has != r.UserAgent {
		f.violation = append(f.violation, fmt.Sprintf("%s by %s, while %s holds the Lease", r, r.UserAgent, has))
	}
	return nil
}

// holderOf returns who may write for a parent.
func (f *fleet) holderOf(parent *resource.Resource) string {
	name := "op"
	whole := f.server.Get(leaseType, rig.Key(name))
	if whole == nil {
		return "nobody"
	}
	holder, _ := whole.Field("spec", "holderIdentity")
	if !strings.HasPrefix(fmt.Sprint(holder), "shards/") {
		return fmt.Sprint(holder)
	}
	of, err := strconv.Atoi(strings.TrimPrefix(holder.(string), "shards/"))
	require.NoError(f.t, err)
	lease := f.server.Get(leaseType, rig.Key(fmt.Sprintf("op-shard-%d", shard.Bucket(parent.UID())*of/shard.Buckets)))
	if lease == nil {
		return "nobody"
	}
	holder, _ = lease.Field("spec", "holderIdentity")
	return fmt.Sprint(holder)
}

// start starts a replica; with no shards, one that isn't divided.
func (f *fleet) start(name string, shards int, h handler.Handler, change ...func(*manager.Options)) *replica {
	r := &replica{name: name, logs: &rig.Logs{}, ended: make(chan error, 1)}
	rc := f.server.RESTConfig()
	rc.UserAgent = name
	opts := manager.Options{
		RESTConfig: rc, LeaderElection: &lead.Config{Namespace: "ns", Identity: name}, ShutdownTimeout: time.Minute, Shards: shards,
		Logger: slog.New(slog.NewTextHandler(r.logs, nil)),
	}
	for _, each := range change {
		each(&opts)
	}
	var err error
	r.runner, err = rig.NewOne(f.cfg, h, opts)
	require.NoError(f.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() { r.ended <- r.runner.Start(ctx) }()
	f.t.Cleanup(func() {
		cancel()
		if f.t.Failed() {
			f.t.Logf("%s said:\n%s", name, r.logs.String())
		}
	})
	synctest.Wait()
	return r
}

// create creates parents.
func (f *fleet) create(from, to int, value string) {
	for i := from; i < to; i++ {
		rig.CreateParent(f.t, f.server, fmt.Sprintf("p%03d", i), value)
	}
}

// edit changes the specs of parents.
func (f *fleet) edit(from, to int, value string) {
	for i := from; i < to; i++ {
		_, err := f.server.Change(sample.ParentType(), rig.Key(fmt.Sprintf("p%03d", i)), func(o map[string]any) {
			o["spec"] = map[string]any{"value": value}
		})
		require.NoError(f.t, err)
	}
}

// requireChildren finds that each parent has its child, with its value and the label of its
// bucket (divided), and that nobody wrote who wasn't to.
func (f *fleet) requireChildren(n int, value string, divided bool) {
	f.t.Helper()
	for i := range n {
		name := fmt.Sprintf("p%03d", i)
		parent, child := f.server.Get(sample.ParentType(), rig.Key(name)), f.server.Get(k8s.ConfigMap, rig.Key(name))
		require.NotNil(f.t, child, name)
		got, _ := child.Field("data", "value")
		require.Equal(f.t, value, got, name)
		status, _ := parent.Field("status", "value")
		require.Equal(f.t, value, status, name)
		if divided {
			bucket, _ := child.Label(bucketLabel)
			require.Equal(f.t, strconv.Itoa(shard.Bucket(parent.UID())), bucket, name)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	require.Empty(f.t, f.violation)
}

// counts returns how many shards each replica holds, by the Leases.
func (f *fleet) counts() map[string]int {
	out := map[string]int{}
	for i := range f.shards {
		if lease := f.server.Get(leaseType, rig.Key(fmt.Sprintf("op-shard-%d", i))); lease != nil {
			holder, _ := lease.Field("spec", "holderIdentity")
			out[fmt.Sprint(holder)]++
		}
	}
	return out
}

// requireSilence finds that nobody writes anything but Leases for a while.
func (f *fleet) requireSilence() {
	f.t.Helper()
	rig.Elapse(20 * time.Second)
	before := f.writes()
	rig.Elapse(5 * time.Minute)
	require.Equal(f.t, before, f.writes(), "nothing is written where nothing has changed")
}

func (f *fleet) writes() int {
	n := 0
	for _, r := range f.server.Requests() {
		if r.Writes() && r.Type != leaseType && r.UserAgent != "" {
			n++
		}
	}
	return n
}

// Replicas come and go, and the parents change all the while.
func TestDivided_Shared(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		const parents = 60
		f := newFleet(t, 8)
		h := handler.SyncFunc(rig.Copier)
		f.create(0, parents, "v1")
		one := f.start("one", 8, h)
		rig.Elapse(20 * time.Second)
		require.NoError(t, one.runner.Ready())
		require.Equal(t, map[string]int{"one": 8}, f.counts())
		f.requireChildren(parents, "v1", true)
		f.requireSilence()

		two := f.start("two", 8, h)
		f.edit(0, parents, "v2")
		rig.Elapse(20 * time.Second)
		require.Equal(t, map[string]int{"one": 4, "two": 4}, f.counts())
		f.edit(0, parents, "v3")
		rig.Elapse(5 * time.Second)
		f.requireChildren(parents, "v3", true)
		require.NoError(t, two.runner.Ready())
		f.requireSilence()

		three := f.start("three", 8, h)
		f.edit(0, parents, "v4")
		rig.Elapse(20 * time.Second)
		require.Equal(t, []int{2, 3, 3}, sortedCounts(f.counts()))
		f.requireChildren(parents, "v4", true)

		two.cancel()
		require.NoError(t, <-two.ended)
		f.edit(0, parents, "v5")
		rig.Elapse(10 * time.Second)
		require.Equal(t, []int{4, 4}, sortedCounts(f.counts()))
		f.requireChildren(parents, "v5", true)
		for _, r := range []*replica{one, three} {
			r.cancel()
			require.NoError(t, <-r.ended)
		}
		lease := f.server.Get(leaseType, rig.Key("op"))
		holder, _ := lease.Field("spec", "holderIdentity")
		require.Empty(t, holder, "the last one has released what all of them held")
	})
}

func sortedCounts(counts map[string]int) []int {
	var out []int
	for name, n := range counts {
		if name != "" && name != "<nil>" {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// An operator is divided by a rolling upgrade, the number of shards is changed, and it is
// undivided again. No child is made anew, whatever its strategy, and none is written more
// often than needed.
func TestDivided_Upgrades(t *testing.T) {
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Recreate, config.OnDelete, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				const parents = 40
				f := newFleet(t, 8)
				f.cfg.Children[0].Strategy = strategy
				h := handler.SyncFunc(rig.Copier)
				f.create(0, parents, "v1")
				old := f.start("old", 0, h)
				rig.Elapse(5 * time.Second)
				f.requireChildren(parents, "v1", false)
				uids := map[string]types.UID{}
				for i := range parents {
					name := fmt.Sprintf("p%03d", i)
					uids[name] = f.server.Get(k8s.ConfigMap, rig.Key(name)).UID()
				}
				same := func() {
					t.Helper()
					for name, uid := range uids {
						require.Equal(t, uid, f.server.Get(k8s.ConfigMap, rig.Key(name)).UID(), "%s wasn't made anew", name)
					}
				}

				first, second := f.start("first", 8, h), f.start("second", 8, h)
				rig.Elapse(time.Minute)
				require.NoError(t, first.runner.Ready(), "a rolling update goes on")
				require.NoError(t, first.runner.Healthy())
				require.Empty(t, writesBy(f.server, "first"), "they wait for the undivided one")
				old.cancel()
				require.NoError(t, <-old.ended)
				rig.Elapse(20 * time.Second)
				require.Equal(t, []int{4, 4}, sortedCounts(f.counts()))
				f.requireChildren(parents, "v1", true)
				same()
				f.requireSilence()

				f.shards = 16
				finer := f.start("finer", 16, h)
				rig.Elapse(time.Minute)
				require.Empty(t, writesBy(f.server, "finer"))
				first.cancel()
				require.NoError(t, <-first.ended)
				rig.Elapse(time.Minute)
				require.Empty(t, writesBy(f.server, "finer"), "one of eight shards is there still")
				second.cancel()
				require.NoError(t, <-second.ended)
				rig.Elapse(20 * time.Second)
				require.Equal(t, 16, f.counts()["finer"])
				same()
				f.requireSilence()
				require.Empty(t, writesBy(f.server, "finer"), "there was nothing to write")

				f.start("back", 0, h)
				rig.Elapse(time.Minute)
				finer.cancel()
				require.NoError(t, <-finer.ended)
				rig.Elapse(20 * time.Second)
				same()
				f.requireSilence()
				f.create(parents, parents+1, "v1")
				rig.Elapse(20 * time.Second)
				require.NotEmpty(t, writesBy(f.server, "back"))
				f.requireChildren(parents+1, "v1", false)
				f.requireSilence()
			})
		})
	}
}

// Somebody takes the label of the bucket off, or gives it another value. The API server
// doesn't send the child any more, and it is found all the same.
func TestDivided_LabelsTakenOff(t *testing.T) {
	for name, labels := range map[string]map[string]any{
		"taken off": {bucketLabel: nil}, "another": {bucketLabel: "x"}, "of nobody": {bucketLabel: "64"}, "all": {bucketLabel: nil, sample.TrackingLabel: nil},
		"of another shard": {bucketLabel: "other"},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				const parents = 20
				f := newFleet(t, 4)
				h := handler.SyncFunc(rig.Copier)
				f.create(0, parents, "v1")
				f.start("one", 4, h)
				f.start("two", 4, h)
				rig.Elapse(20 * time.Second)
				for i := range parents {
					name := rig.Key(fmt.Sprintf("p%03d", i))
					parent := f.server.Get(sample.ParentType(), name)
					_, err := f.server.Change(k8s.ConfigMap, name, func(o map[string]any) {
						has := o["metadata"].(map[string]any)["labels"].(map[string]any)
						for key, value := range labels {
							switch value {
							case nil:
								delete(has, key)
							case "other":
								has[key] = strconv.Itoa((shard.Bucket(parent.UID()) + 32) % shard.Buckets)
							default:
								has[key] = value
							}
						}
					})
					require.NoError(t, err)
				}
				rig.Elapse(time.Minute)
				f.requireChildren(parents, "v1", true)
				f.requireSilence()
			})
		})
	}
}

// cutAfter returns a transport whose requests fail once dead is closed.
func cutAfter(dead <-chan struct{}) transport.WrapperFunc {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			select {
			case <-dead:
				return nil, errors.New("connection refused")
			default:
				return next.RoundTrip(req)
			}
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

// A replica that can't reach the API server any more loses its shards to the others.
func TestDivided_Death(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		const parents = 40
		f := newFleet(t, 8)
		h := handler.SyncFunc(rig.Copier)
		f.create(0, parents, "v1")
		dead := make(chan struct{})
		one := f.start("one", 8, h, func(o *manager.Options) { o.RESTConfig.Wrap(cutAfter(dead)) })
		f.start("two", 8, h)
		rig.Elapse(20 * time.Second)
		require.Equal(t, []int{4, 4}, sortedCounts(f.counts()))
		close(dead)
		f.edit(0, parents, "v2")
		took := until(t, time.Minute, func() bool { return f.counts()["two"] == 8 })
		t.Logf("taken over after %v", took)
		require.LessOrEqual(t, took, 15*time.Second+4400*time.Millisecond, "LeaseDuration and 2.2 times RetryPeriod")
		rig.Elapse(5 * time.Second)
		f.requireChildren(parents, "v2", true)
		require.NoError(t, one.runner.Healthy(), "it takes part again once it can")
		require.Error(t, one.runner.Ready())
		one.cancel()
		require.NoError(t, <-one.ended)
	})
}

// The passes of all shards of a process together are no more than MaxConcurrentSyncs.
// A shard asks for each object once when it is taken: its Lease was held before. Of the children
// it asks besides which of them lack the label of their bucket.
func TestDivided_ListsOnce(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		const parents, shards = 12, 4
		f := newFleet(t, shards)
		f.create(0, parents, "v")
		for _, name := range []string{"one", "two"} {
			r := f.start(name, shards, handler.SyncFunc(rig.Copier))
			rig.Elapse(20 * time.Second)
			f.requireChildren(parents, "v", true)
			r.cancel()
			require.NoError(t, <-r.ended)
		}
		reads := map[string]int{} // of the second one, which finds all in place
		for _, req := range f.server.Requests() {
			if req.UserAgent == "two" && !req.Writes() && req.Type != leaseType {
				reads[req.Verb+" "+req.Type.Kind]++
			}
		}
		require.Equal(t, map[string]int{"watch Parent": shards, "watch ConfigMap": shards, "list ConfigMap": shards}, reads)
	})
}

func TestDivided_Concurrency(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		f := newFleet(t, 8)
		f.cfg.MaxConcurrentSyncs = 2
		var running, most atomic.Int32
		f.create(0, 30, "v1")
		f.start("one", 8, handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
			return rig.Copier(ctx, req)
		}))
		rig.Elapse(30 * time.Second)
		f.requireChildren(30, "v1", true)
		require.Equal(t, int32(2), most.Load())
	})
}

// What a process tells of itself has all of its shards.
func TestDivided_Told(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		f := newFleet(t, 4)
		registry := prometheus.NewRegistry()
		f.create(0, 20, "v1")
		one := f.start("one", 4, handler.SyncFunc(rig.Copier), func(o *manager.Options) { o.Metrics = observe.NewRegistry(registry) })
		rig.Elapse(20 * time.Second)
		families, err := registry.Gather()
		require.NoError(t, err)
		parents, leaders := 0, 0
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				labels := map[string]string{}
				for _, label := range metric.GetLabel() {
					labels[label.GetName()] = label.GetValue()
				}
				switch {
				case family.GetName() == "roperator_shards":
					require.Equal(t, 4, int(metric.GetGauge().GetValue()))
					continue
				case family.GetName() == "roperator_leader":
					leaders += int(metric.GetGauge().GetValue())
				case family.GetName() == "roperator_store_objects" && labels["type"] == sample.ParentType().String():
					parents += int(metric.GetGauge().GetValue())
				}
				require.Contains(t, labels, "shard", family.GetName())
			}
		}
		require.Equal(t, 20, parents)
		require.Equal(t, 4, leaders)
		one.cancel()
		require.NoError(t, <-one.ended)
		families, err = registry.Gather()
		require.NoError(t, err)
		require.Empty(t, families)
	})
}

func TestDivided_Options(t *testing.T) {
	server := electionServer()
	for name, tc := range map[string]struct {
		reason string
		change func(o *manager.Options)
		want   string // empty: it is right
	}{
		"three":    {"a power of two", func(o *manager.Options) { o.Shards = 3 }, "Sharding: Shards: 3 is no number of shards"},
		"negative": {"a power of two", func(o *manager.Options) { o.Shards = -1 }, "Sharding: Shards: -1 is no number of shards"},
		"many":     {"up to 64", func(o *manager.Options) { o.Shards = 128 }, "Sharding: Shards: 128 is no number of shards"},
		"elected":  {"one election", func(o *manager.Options) { o.Elected = make(chan struct{}) }, "Sharding and Elected are both set"},
		"takeover": {"which has all parents", func(o *manager.Options) { o.TakeOver = "me" }, "a process that takes a lease over has all parents"},
		"alone":    {"an election isn't asked for", func(o *manager.Options) { o.LeaderElection = nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			opts := manager.Options{RESTConfig: server.RESTConfig(), Shards: 4}
			tc.change(&opts)
			_, err := rig.NewOne(rig.Config(), handler.SyncFunc(rig.Copier), opts)
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
				return
			}
			require.ErrorContains(t, err, tc.want, tc.reason)
		})
	}
}
