package sim

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/faults"
	"github.com/roperator/roperator/internal/testing/past"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
)

func parentType() resource.Type {
	return resource.Type{APIVersion: "sim.example.com/v1", Kind: "Parent"}
}

func partType() resource.Type {
	return resource.Type{APIVersion: "sim.example.com/v1", Kind: "Part"}
}

const (
	operatorName = "simulated"
	finalizer    = "roperator.com/" + operatorName
	shards       = 4
	tracking     = "roperator.com/parent-uid"
	ownership    = "roperator.com/operator"
)

// A world is one run.
type world struct {
	*faults.Diary
	script *script
	dice   *dice
	server *fakeapi.Server
	begin  time.Time
	acting atomic.Bool  // a change may be an action's
	past   *past.Record // of what may be related
	calls  atomic.Int64 // of handlers

	mu struct {
		sync.Mutex
		processes map[string]*process // running ones, by replica
		down      time.Time           // the API server can't be reached before; zero: it can
		allocated map[types.UID]struct{}
		released  map[types.UID]struct{}
		foreign   map[types.UID]string         // resourceVersion of objects that nobody but their owner may touch
		letGo     map[types.UID]struct{}       // objects that a foreign finalizer was taken off
		theirs    map[types.UID]struct{}       // children that may have more than is desired: fields that others have set
		first     map[types.UID]map[string]any // objects as they were created
		ending    map[types.UID]struct{}       // parents that are being deleted, or gone
		followed  map[string]types.UID         // children that went after their parents had begun to, by familyKey
		requests  []string
		seen      map[string]int // faults that aren't drawn, by kind
		led       string         // who held the lease last
		ill       illness
		written   map[string]writtenPart // Parts, by name
	}
}

// run plays a script, whose faults the seed decides unless it has its own. It
// must be called in a bubble.
func run(s *script, d *dice) *report {
	w := &world{Diary: faults.NewDiary(), script: s, dice: d, begin: time.Now(), past: past.NewRecord(sourceType().Kind, zoneType().Kind, k8s.ConfigMap.Kind, parentType().Kind)}
	w.server = fakeapi.New(fakeapi.Custom(parentType(), "parents"), parts(), fakeapi.Typed(fakeapi.ConfigMaps()), fakeapi.Typed(fakeapi.Secrets()), fakeapi.Leases(),
		fakeapi.Custom(sourceType(), "sources"), fakeapi.Kind{Type: zoneType(), Plural: "zones", ClusterScoped: true, Status: true, Generation: true})
	if s.is(withShards) { // which the hash of short UIDs wouldn't tell apart
		w.server.NameUIDs()
	}
	if s.is(byLists) {
		w.server.RefuseWatchLists()
	}
	if s.is(inPages) {
		w.server.LimitPages(2)
	}
	w.server.SetHooks(fakeapi.Hooks{Changed: w.changed})
	w.mu.processes = map[string]*process{}
	w.mu.allocated, w.mu.released = map[types.UID]struct{}{}, map[types.UID]struct{}{}
	w.mu.letGo = map[types.UID]struct{}{}
	w.mu.seen = map[string]int{}
	w.mu.first = map[types.UID]map[string]any{}
	w.mu.ending, w.mu.followed = map[types.UID]struct{}{}, map[string]types.UID{}
	w.mu.foreign, w.mu.theirs = map[types.UID]string{}, map[types.UID]struct{}{}
	w.mu.ill.parts, w.mu.ill.values = map[types.NamespacedName]string{}, map[string]struct{}{}
	w.mu.written = map[string]writtenPart{}

	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range s.Replicas {
		wg.Go(func() { w.replica(ctx, fmt.Sprint("replica-", i)) })
	}
	wg.Go(func() { w.collectGarbage(ctx) })
	if s.is(withReadiness) {
		wg.Go(func() { w.observeParts(ctx) })
	}
	for _, a := range s.Actions {
		if d := time.Until(w.begin.Add(a.At)); d > 0 {
			<-time.After(d)
		}
		w.Note("%s", strings.TrimPrefix(a.String(), fmt.Sprintf("at %v ", a.At)))
		w.act(a)
	}
	<-time.After(5 * time.Second)
	w.Note("the faults end")
	d.Heal()
	w.mend()
	<-time.After(settleTime)
	w.renew()
	synctest.Wait()
	w.mu.Lock()
	quiet := len(w.mu.requests)
	w.mu.Unlock()
	w.Note("the checks begin")
	w.checkCluster()
	<-time.After(silence)
	w.checkSilence(quiet)
	w.checkWatches()
	w.checkUnrelated()
	w.checkSilence(quiet)

	stop()
	wg.Wait()
	return w.report()
}

const (
	settleTime = 5 * time.Minute
	silence    = 10 * time.Minute
	maxBackoff = 20 * time.Second
)

// A report is what became of a run.
type report struct {
	*faults.Diary
	script *script        // what was done and met
	faults map[string]int // by kind
}

func (w *world) report() *report {
	played, count := *w.script, w.dice.count()
	played.Faults = w.dice.Met()
	w.mu.Lock()
	defer w.mu.Unlock()
	for kind, n := range w.mu.seen {
		count[kind] += n
	}
	return &report{w.Diary, &played, count}
}

func (w *world) config() config.Operator {
	strategy := func(i int) config.UpdateStrategy { return config.UpdateStrategy(w.script.Strategies[i]) }
	cfg := config.Operator{
		Name: operatorName, Parent: parentType(), MaxErrorBackoff: maxBackoff,
		Children: []config.Child{
			{Type: k8s.ConfigMap, Strategy: strategy(0)},
			{Type: k8s.Secret, Strategy: strategy(1)},
			{Type: partType(), Strategy: strategy(2), Roll: w.script.roll()},
		},
		ReadyCondition: w.script.is(withReadiness),
	}
	if w.script.is(withTeardown) {
		cfg.Teardown = config.TeardownOrdered
	}
	if w.script.is(withRelated) {
		cfg.Related = relatedConfig()
	}
	if w.script.is(inNamespaces) {
		cfg.Namespaces = []string{"ns", "ns2"}
	}
	if w.script.is(withSelector) {
		cfg.ParentSelector = aside + "!=true"
	}
	return cfg
}

// replica runs one process after the other.
func (w *world) replica(ctx context.Context, name string) {
	for n := 1; ; n++ {
		pctx, cancel := context.WithCancel(ctx)
		p := &process{world: w, Process: faults.NewProcess(fmt.Sprintf("%s.%d", name, n), cancel), witness: w.past.Witness()}
		p.link = p.connect()
		p.mu.passes = map[string]*pass{}
		p.mu.deleting = map[types.UID]struct{}{}
		p.mu.told, p.mu.deleted, p.mu.syncing = map[string]seen{}, map[types.UID]struct{}{}, map[types.UID]struct{}{}
		p.mu.watches = map[past.Ref]int{}
		p.mu.finalized, p.mu.anew = map[types.UID]struct{}{}, map[string]struct{}{}
		p.mu.shown, p.mu.lists = map[types.UID]struct{}{}, map[string]int{}
		w.mu.Lock()
		w.mu.processes[name] = p
		w.mu.Unlock()
		rc := w.server.RESTConfig()
		rc.Transport = p
		opts := runner.Options{
			RESTConfig: rc, ShutdownTimeout: 5 * time.Second,
			Logger: slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelInfo})),
		}
		if w.script.Replicas > 1 {
			opts.LeaderElection = &runner.LeaderElection{Namespace: "ns", Name: "lease", Identity: p.Name}
		}
		if w.script.is(withShards) && (!w.script.is(dividing) || n > 1 || name != "replica-0") {
			opts.Sharding.Shards = shards
		}
		w.Note("%s starts", p.Name)
		ended := make(chan struct{})
		go p.checkEnd(pctx, ended)
		err := runner.Run(pctx, w.config(), w.handler(p), opts)
		close(ended)
		cancel()
		p.Kill()
		w.Note("%s ended: %v", p.Name, err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(2 * time.Second):
		}
	}
}

// process returns the one of a replica that runs, nil if none has begun.
func (w *world) process(name string) *faults.Process {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.mu.processes[name]; p != nil {
		return p.Process
	}
	return nil
}

// collectGarbage is the garbage collector: every second it deletes what has
// lost its owners.
func (w *world) collectGarbage(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.server.CollectGarbage()
		}
	}
}

// count counts a fault that wasn't drawn.
func (w *world) count(kind string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.seen[kind]++
}

// sent notes a request.
func (p *process) sent(name string, f faults.Fault) {
	if !strings.Contains(name, "/leases") || f.Outcome != "" {
		p.Note("%s: %s %s %v", p.Name, name, f.Outcome, f.Delay)
	}
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	p.world.mu.requests = append(p.world.mu.requests, name)
}

func (w *world) isDown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Before(w.mu.down)
}

func (w *world) allocate(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.allocated[uid] = struct{}{}
}

func (w *world) release(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.released[uid] = struct{}{}
	delete(w.mu.allocated, uid)
}

// onDelete says whether children of a type are never changed.
func (w *world) onDelete(kind string) bool {
	at := slices.Index([]string{"ConfigMap", "Secret", "Part"}, kind)
	return at >= 0 && w.script.Strategies[at] == string(config.OnDelete)
}

// renew deletes children that are never changed, so that they come back as
// they are to be, the ConfigMaps first: the others tell of them.
func (w *world) renew() {
	for _, kinds := range [][]string{{"ConfigMap"}, {"Part", "Secret"}} {
		deleted := false
		live := w.live()
		for _, uid := range sorted(live) {
			r := live[uid]
			if slices.Contains(kinds, r.Type().Kind) && w.onDelete(r.Type().Kind) && metaController(r) != "" {
				deleted = w.server.Delete(r.Type(), r.Key()) == nil || deleted
			}
		}
		if deleted {
			<-time.After(settleTime)
		}
	}
}

func (w *world) types() []resource.Type {
	return []resource.Type{parentType(), k8s.ConfigMap, k8s.Secret, partType()}
}

// byKey returns the live object of "Kind namespace/name".
func (w *world) byKey(key string) *resource.Resource {
	kind, name, _ := strings.Cut(key, " ")
	namespace, name, _ := strings.Cut(name, "/")
	for _, t := range w.types() {
		if t.Kind == kind {
			return w.server.Get(t, types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
	return nil
}

func (w *world) live() map[types.UID]*resource.Resource {
	out := map[types.UID]*resource.Resource{}
	for _, t := range w.types() {
		for _, r := range w.server.List(t) {
			out[r.UID()] = r
		}
	}
	return out
}

func metaController(r *resource.Resource) types.UID {
	for _, ref := range r.OwnerReferences() {
		if ref.Controller != nil && *ref.Controller {
			return ref.UID
		}
	}
	return ""
}

func isChildOf(r *resource.Resource, parent types.UID) bool {
	label, _ := r.Label(tracking)
	name, _ := r.Label(ownership)
	return label == string(parent) && name == operatorName && metaController(r) == parent
}

func sorted[V any](m map[types.UID]V) []types.UID { return slices.Sorted(maps.Keys(m)) }
