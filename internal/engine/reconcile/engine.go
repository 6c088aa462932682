package reconcile

import (
	"context"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/apply"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/conflict"
	"github.com/roperator/roperator/internal/engine/journal"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/relate"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/resource"
)

// maxWrites bounds how many writes of one operator run at once.
const maxWrites = 64

// A Config is what an Engine is made of. Fields may be nil only where it says so.
type Config struct {
	Settings *catalog.Settings
	Handler  handler.Handler
	Client   *client.Client     // nil: for an engine that makes no request
	Events   *observe.EventSink // nil: no Event is recorded
	Metrics  *observe.Metrics   // nil: for an engine that only releases parents
	Tracing  *observe.Tracing   // nil: no spans are made
	Log      *slog.Logger
	Schemas  *catalog.Schemas // nil: for an engine that reads no schemas
	Finder   *catalog.Finder  // nil: for an engine whose types neither come nor go
	// RelatedClient reads related objects, and nothing else uses it. Nil: there are none.
	RelatedClient *client.Client
	// DepartedWithin is a label selector (empty: every object) of the parents among
	// which those are looked for that have left the ParentSelector while no operator
	// ran.
	DepartedWithin string
	// KeepHistory keeps the newest errors of each parent and the conflict loops,
	// for Engine.Errors and Engine.Loops.
	KeepHistory bool
	// FinalizeOnly leaves parents alone that aren't being deleted.
	FinalizeOnly bool
	// Slots bound the reconciliations of all engines that share them, and order their
	// parents. Nil: this engine's reconciliations are bounded by its workers alone.
	Slots *schedule.Slots
	// Journal keeps what the passes did, for Survey and Family. Nil: nothing is kept.
	Journal *journal.Journal
	// Jitter is that of schedule.New. Nil: waits are lengthened at random.
	Jitter func() float64
}

// An Engine is one operator: everything that its passes share. Its exported
// methods may be called concurrently.
type Engine struct {
	*catalog.Settings // as they were at the start, before any schema was read
	// current are the settings with the schemas that are known now. A pass keeps
	// those that it began with. Only keeper stores them.
	current  atomic.Pointer[catalog.Settings]
	keeper   schemaKeeper
	former   formerChildren
	owned    ownedLists
	serving  servedTypes
	watching watching
	handler  handler.Handler
	client   *client.Client
	store    *store.Store
	queue    *schedule.Scheduler
	memory   *plan.Memory
	loops    *conflict.Detector
	events   *observe.EventSink
	history  *history
	journal  *journal.Journal // nil: there is none
	survey   surveyor
	metrics  *observe.Metrics
	tracing  *observe.Tracing
	lessons  *apply.Lessons
	slots    chan struct{} // one for each write under way
	lists    chan struct{} // one for each list of the start under way: see makeLists
	listing  chan struct{} // has room for one: the pass that lists the parents
	deleted  chan struct{} // has room for one, which says that children were deleted: see confirmDeletes
	missing  chan struct{} // has room for one, which says that parents were missing from a list: see findDepartedAgain
	lacking  chan struct{} // has room for one, which says that children may lack the label of their bucket: see keepStamped
	looking  atomic.Bool   // for departed parents, for the first time
	standby  atomic.Bool   // no pass is made: see Standby
	dropped  atomic.Bool   // it was told that the API server drops conditions: see noteDropped
	stuck    stuckCalls
	mistakes handlerMistakes
	passes   passesUnderWay
	resolver *relate.Resolver  // of what parents refer to
	related  *relate.Relations // nil: no type is related
	relates  bool              // the handler says what parents refer to
	once     bool              // related objects are asked for in the pass: see PlanAll
	supposed suppositions      // of PlanFor

	departedWithin string // see Config
	finalizeOnly   bool   // see Config
	log            *slog.Logger
}

// New returns an engine whose store is empty. It starts no goroutine and makes no
// request.
func New(c Config) *Engine {
	e := &Engine{
		Settings: c.Settings,
		handler:  c.Handler,
		client:   c.Client,
		store:    store.New(c.Settings.Config.Parent, c.Settings.Config.TrackingLabel),
		queue:    c.newQueue(),
		memory:   plan.NewMemory(),
		loops:    conflict.New(),
		events:   c.Events,
		history:  &history{on: c.KeepHistory},
		journal:  c.Journal,
		survey:   surveyor{seed: maphash.MakeSeed()},
		metrics:  c.Metrics,
		tracing:  c.Tracing,
		lessons:  &apply.Lessons{},
		slots:    make(chan struct{}, maxWrites),
		lists:    make(chan struct{}, listsAtOnce),
		listing:  make(chan struct{}, 1),
		deleted:  make(chan struct{}, 1),
		missing:  make(chan struct{}, 1),
		lacking:  make(chan struct{}, 1),
		log:      c.Log,

		departedWithin: c.DepartedWithin,
		finalizeOnly:   c.FinalizeOnly,
	}
	e.current.Store(c.Settings)
	e.keeper.init(c.Schemas)
	e.serving.init(c.Finder)
	e.stuck.abandoned = make(chan struct{})
	e.store.KeepDeparted(c.Settings.Config.ParentSelector != "")
	if c.Settings.Shard.Divides() {
		e.store.ReadLost()
	}
	if e.client != nil {
		e.client.Shorten(e.store.Shorten)
		e.client.Track(e.beginWrite)
	}
	e.relates = handler.Relates(c.Handler)
	e.resolver = relate.NewResolver(c.Settings.Config.Related)
	if c.RelatedClient != nil {
		e.related = relate.New(relate.Config{
			Kinds: c.Settings.Types.Related, Client: c.RelatedClient, Log: c.Log, Metrics: c.Metrics, FamilyOf: e.familyOf, Changed: e.relatedChanged,
			Doubt: e.doubtServed, Everywhere: e.mayReadEverywhere,
		})
	}
	return e
}

// newQueue returns the queue of the parents.
func (c *Config) newQueue() *schedule.Scheduler {
	if c.Slots == nil {
		return schedule.New(c.Settings.Config.MaxErrorBackoff, c.Jitter)
	}
	return schedule.NewSharing(c.Slots, c.Settings.Config.MaxErrorBackoff, c.Jitter)
}

// Standby says that no pass will be made before Work, which may come late or never:
// another replica leads. Until then nothing becomes due, and nothing is remembered of
// parents that are gone. It is called before the watchers run.
func (e *Engine) Standby() {
	e.standby.Store(true)
	e.store.KeepDeparted(false)
}

// lead ends the standby: from now on changes make parents due, and so are all
// parents that are held.
func (e *Engine) lead() {
	e.store.KeepDeparted(e.Config.ParentSelector != "")
	standby := e.standby.Swap(false)
	// A change that still found the standby was in the store before this list.
	uids := e.store.AllParents()
	e.memory.Inherit(uids)
	if !standby {
		return
	}
	slices.Sort(uids)
	for _, uid := range uids {
		e.queue.Add(uid, schedule.Backlog, "begin to lead", 0)
	}
}

// LogStart logs that the operator has started. It is called once every watcher is
// synced.
func (e *Engine) LogStart(ctx context.Context) {
	e.log.InfoContext(ctx, "started", "parent", e.Config.Parent.String(), "children", len(e.Config.Children), "parents", len(e.store.AllParents()))
}

// Listed is called once the first lists are in the store. Objects that are read from
// then on come without what managedFields say of them. again says that all types
// will be listed once more before the first pass.
func (e *Engine) Listed(again bool) {
	e.client.DropHeldFields()
	e.store.HoldChildrenOnly()
	if again {
		e.store.ForgetAllFields()
	}
}

// Close returns when the Events that were recorded have been written, or given
// up. It may be called more than once; Work calls it at its end.
func (e *Engine) Close() {
	if e.events != nil {
		e.events.Close()
	}
}

// each calls do for every number from 0 to n-1, at most MaxConcurrentSyncs at a
// time, and returns what each call has returned when all have ended. A panic is an error.
func each[T any](e *Engine, n int, do func(i int) (T, error)) ([]T, []error) {
	out, errs := make([]T, n), make([]error, n)
	slots := make(chan struct{}, e.Config.MaxConcurrentSyncs)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			defer e.recovered(context.Background(), &errs[i], "goroutine panicked")
			out[i], errs[i] = do(i)
		})
	}
	wg.Wait()
	return out, errs
}

// beginWrite opens a write in the store. Its end queues the parents that the response concerns.
func (e *Engine) beginWrite(w client.Write) (end func(live *resource.Resource, ok bool)) {
	open := e.store.Begin(store.Request(w))
	return func(live *resource.Resource, ok bool) {
		var r *store.Response
		if ok {
			r = &store.Response{Live: live, Unwatched: live != nil && !e.isWatched(live)}
		}
		if c := open.End(r); !c.Empty() {
			e.changed(c, schedule.Fresh, schedule.Trigger(w.Ref.String()))
		}
	}
}

// isWatched reports whether a watch delivers an object with these labels.
func (e *Engine) isWatched(live *resource.Resource) bool {
	if live.Type() == e.Config.Parent {
		return e.Selects(live)
	}
	return e.Watched(live)
}

// changed makes the parents due that a change in the store concerns, which another client has made if they are
// fresh. In a standby it does nothing.
func (e *Engine) changed(c store.Change, p schedule.Priority, why schedule.Trigger) {
	cause := schedule.Cause(0)
	if p == schedule.Fresh {
		cause = schedule.Changed
	}
	for _, uid := range c.Edited {
		e.add(uid, schedule.Fresh, why, schedule.Edited)
	}
	for _, uid := range c.Parents {
		e.add(uid, p, why, cause)
	}
	for _, uid := range c.Woken {
		e.add(uid, schedule.Fresh, why, schedule.Changed)
	}
}

// relatedChanged makes the parents due that refer to objects that another client has changed, or that have become known. Which
// it is, the reconciliation is told by Refer.
func (e *Engine) relatedChanged(c store.Change, why schedule.Trigger) {
	for _, uid := range c.Parents {
		e.add(uid, schedule.Fresh, why, 0)
	}
	for _, uid := range c.Own { // of another client's delete the watch of children tells
		e.add(uid, schedule.Backlog, why, 0)
	}
}

// add makes a parent due. In a standby it does nothing.
func (e *Engine) add(uid types.UID, p schedule.Priority, why schedule.Trigger, cause schedule.Cause) {
	if !e.standby.Load() {
		e.queue.Add(uid, p, why, cause)
	}
}
