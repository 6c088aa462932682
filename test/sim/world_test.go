package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/faults"
	"github.com/roperator/roperator/internal/testing/past"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
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
	former       = "sim.example.com/former" // a finalizer of an earlier build of the operator
	shards       = 4
	tracking     = "roperator.com/parent-uid"
	ownership    = "roperator.com/operator"
)

// A world is one run.
type world struct {
	*faults.Diary
	script   *script
	dice     *dice
	plans    *plans
	verbose  bool
	server   *fakeapi.Server
	begin    time.Time
	acting   atomic.Bool  // a change may be an action's
	past     *past.Record // of what may be related
	restore  func()       // nil: there is no backup
	restores atomic.Int64 // of backups, so far
	lost     atomic.Int64 // those of them by which a change was lost

	mu struct {
		sync.Mutex
		processes map[string]*process // running ones, by replica
		down      time.Time           // the API server can't be reached before; zero: it can
		allocated map[types.UID]struct{}
		released  map[types.UID]struct{}
		foreign   map[types.UID]string         // resourceVersion of objects that only their creator may change
		letGo     map[types.UID]struct{}       // objects that a foreign finalizer was taken off
		theirs    map[types.UID]struct{}       // children that may have more than is desired: fields that other clients have set
		first     map[types.UID]map[string]any // objects as they were created
		ending    map[types.UID]struct{}       // parents that are being deleted, or gone
		followed  map[string]types.UID         // children that went after their parents had begun to, by familyKey
		names     map[types.UID]string         // of parents
		requests  []string
		seen      map[string]int // faults that aren't drawn, by kind
		led       string         // who held the lease last
		ill       illness
		written   map[string]writtenPart // Parts, by name
		calls     map[types.UID]int      // of the handler, by parent
		recent    map[types.UID]int      // those since the last action
		changes   int                    // of objects, Leases and Events aside
		states    map[string]struct{}    // that objects had, by kind, name and resourceVersion; in a run with a restore
		unjudged  bool                   // an object has had two states of one resourceVersion: no client can tell them apart; or see changed
	}
}

func newWorld(s *script, d *dice, verbose bool) *world {
	w := &world{Diary: faults.NewDiary(), script: s, dice: d, plans: newPlans(), verbose: verbose, begin: time.Now()}
	w.past = past.NewRecord(sourceType().Kind, zoneType().Kind, k8s.ConfigMap.Kind, parentType().Kind)
	parents := fakeapi.Custom(parentType(), "parents")
	parents.Generation = !s.is(noGeneration)
	w.server = fakeapi.New(parents, s.parts(), fakeapi.Typed(fakeapi.ConfigMaps()), fakeapi.Typed(fakeapi.Secrets()), fakeapi.Leases(),
		fakeapi.Custom(sourceType(), "sources"), fakeapi.Kind{Type: zoneType(), Plural: "zones", ClusterScoped: true, Status: true, Generation: true})
	w.server.NoteRequests(false)
	if s.is(withShards) { // which the hash of short UIDs wouldn't tell apart
		w.server.NameUIDs()
	}
	if s.is(byLists) {
		w.server.RefuseWatchLists()
	}
	if s.is(inPages) {
		w.server.LimitPages(2)
	}
	w.server.SetHooks(fakeapi.Hooks{Changed: w.changed, Admit: w.admit})
	w.mu.processes = map[string]*process{}
	w.mu.allocated, w.mu.released = map[types.UID]struct{}{}, map[types.UID]struct{}{}
	w.mu.letGo = map[types.UID]struct{}{}
	w.mu.seen = map[string]int{}
	w.mu.first = map[types.UID]map[string]any{}
	w.mu.ending, w.mu.followed = map[types.UID]struct{}{}, map[string]types.UID{}
	w.mu.foreign, w.mu.theirs = map[types.UID]string{}, map[types.UID]struct{}{}
	w.mu.ill.parts, w.mu.ill.values = map[types.NamespacedName]string{}, map[string]struct{}{}
	w.mu.written = map[string]writtenPart{}
	w.mu.names, w.mu.calls, w.mu.recent = map[types.UID]string{}, map[types.UID]int{}, map[types.UID]int{}
	if slices.ContainsFunc(s.Actions, func(a action) bool { return a.Verb == "restore" }) {
		w.mu.states = map[string]struct{}{}
	}
	return w
}

// admit rejects ConfigMaps where the script says so, in other words each time.
func (w *world) admit(r fakeapi.Request, o map[string]any) error {
	if !w.script.is(rejecting) || r.Type != k8s.ConfigMap || r.Verb != "create" && r.Verb != "update" {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, r.Key.Name, field.ErrorList{field.Invalid(field.NewPath("data"), valueIn(o), "no")})
}

// run plays a script. It must be called in a bubble. Without verbose, the operators' logs are dropped.
func run(s *script, d *dice, verbose bool) *report {
	w := newWorld(s, d, verbose)
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range s.Replicas {
		wg.Go(func() { w.replica(ctx, fmt.Sprint("replica-", i)) })
	}
	if !s.is(dense) {
		wg.Go(func() { w.collectGarbage(ctx) })
	}
	if s.is(withReadiness) {
		wg.Go(func() { w.observeParts(ctx) })
	}
	for _, a := range s.Actions {
		w.await(a)
		w.Note("%s", strings.TrimPrefix(a.String(), fmt.Sprintf("at %v ", a.At)))
		w.act(a)
	}
	if s.is(counted) {
		stop()
		wg.Wait()
		return w.report()
	}
	w.settle()
	w.Note("the checks begin")
	w.checkEnd()
	old := w.sizes()
	stop()
	wg.Wait()
	w.checkFresh(old)
	return w.report()
}

// await lets the time pass that an action waits for.
func (w *world) await(a action) {
	switch a.When {
	case then:
		w.pause(0)
		synctest.Wait()
	case at:
		w.pause(time.Until(w.begin.Add(a.At)))
	case after:
		w.pause(a.At)
	}
}

// pause lets time pass in which nothing but the operators acts, and judges how often they have called
// handlers since the pause before.
func (w *world) pause(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
	most := 30 + 10*int(d/time.Second)
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, n := range w.mu.recent {
		if n > most && !w.script.is(counted) {
			w.Violated("the handler was called %d times for %s within %v", n, uid, max(d, 0))
		}
	}
	clear(w.mu.recent)
}

// settle ends the faults, and waits until the operators have done what follows: retries have a
// backoff, a lease may have to expire, and conflict loops are remembered for a while.
func (w *world) settle() {
	if w.script.is(dense) {
		synctest.Wait()
	} else {
		w.pause(5 * time.Second)
	}
	w.Note("the faults end")
	w.dice.Heal()
	w.plans.heal()
	w.mend()
	if w.restores.Load() > 0 {
		w.pause(10 * time.Second) // in which each process finds out, unless it was overtaken
		w.restartRestored()
	}
	if w.script.is(dense) {
		for range 3 {
			w.pause(9 * time.Second)
			w.server.CollectGarbage()
		}
		w.pause(40 * time.Second)
	} else {
		w.pause(settleTime)
		w.renew()
	}
	synctest.Wait()
}

const (
	settleTime   = 5 * time.Minute
	maxBackoff   = 20 * time.Second
	denseBackoff = 8 * time.Second
)

// silence is how long a settled operator is watched.
func (s *script) silence() time.Duration {
	if s.is(dense) {
		return 30 * time.Second
	}
	return 10 * time.Minute
}

// A report is what became of a run.
type report struct {
	*faults.Diary
	script *script        // what was done and met
	faults map[string]int // by kind
	calls  int            // of the handler
	// unjudged says that nothing can be judged: see world.
	unjudged bool
}

// failed says whether something has happened that must not have.
func (r *report) failed() bool { return !r.unjudged && len(r.Violations()) > 0 }

func (w *world) report() *report {
	played, count, calls := *w.script, w.dice.count(), w.sumOfCalls()
	played.Faults = w.dice.Met()
	w.mu.Lock()
	defer w.mu.Unlock()
	for kind, n := range w.mu.seen {
		count[kind] += n
	}
	return &report{w.Diary, &played, count, calls, w.mu.unjudged}
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

// called notes that the handler is called for a parent, and returns the how manieth call that is.
func (w *world) called(uid types.UID) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.calls[uid]++
	w.mu.recent[uid]++
	return w.mu.calls[uid]
}

// sumOfCalls returns how often handlers were called.
func (w *world) sumOfCalls() (sum int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.mu.calls {
		sum += n
	}
	return sum
}

func isChildOf(r *resource.Resource, parent types.UID) bool {
	label, _ := r.Label(tracking)
	name, _ := r.Label(ownership)
	return label == string(parent) && name == operatorName && metaController(r) == parent
}

func sorted[V any](m map[types.UID]V) []types.UID { return slices.Sorted(maps.Keys(m)) }
