package watch

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/revision"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/resource"
)

// While a list or a watch fails, it is tried again after firstRetry, then after twice
// as long each time, up to lastRetry. Each wait is longer by up to as much again, at
// random.
const firstRetry, lastRetry = 800 * time.Millisecond, 15 * time.Second

// calmAfter is how long nothing must fail until the next wait is firstRetry again.
const calmAfter = 2 * time.Minute

// shortWatch is how long a watch lasts at least that is followed by another one at once.
const shortWatch = time.Second

// retrySteps is how often the wait is doubled: until it is lastRetry.
const retrySteps = 6

// retries returns the waits between tries that fail. client-go's own wait up to a minute.
func retries() wait.Backoff {
	return wait.Backoff{Duration: firstRetry, Cap: lastRetry, Steps: retrySteps, Factor: 2, Jitter: 1}
}

// A Mirror is where a Watcher puts what it observes. A *store.Store is one. Each method
// is that of a Store. They may be called concurrently.
type Mirror interface {
	Observe(from store.Stream, res *resource.Resource) store.Change
	ObserveDeleted(from store.Stream, res *resource.Resource) store.Change
	Replace(from store.Stream, list []*resource.Resource, listVersion string) store.Change
	Bookmark(from store.Stream, version string)
	HoldFields(res *resource.Resource, entries []string)
}

// A Config holds the parts of a Watcher. Kind, Client, Store, Log, Metrics and Changed are
// required.
type Config struct {
	Kind      *catalog.Kind
	Namespace string // empty: all namespaces
	Selector  string // a label selector; empty: every object
	Fields    string // a field selector; empty: every object
	Selected  string // see store.Stream
	// Owns says whether an object with this UID is stored. Nil: every object is.
	Owns    func(uid types.UID) bool
	Client  *client.Client
	Store   Mirror
	Log     *slog.Logger
	Metrics *observe.TypeMetrics
	// Changed is called after each change of the store, with the parents that the
	// change concerns, the class in which they are due, and the reason. It may be
	// called concurrently.
	Changed func(store.Change, schedule.Priority, schedule.Trigger)
	// Fatal is called with an error that retrying can't mend, if no watch has been
	// served so far: the API server forbids the list or the watch, or rejects the
	// credentials. Run calls it, Refresh doesn't. It may be nil if the watcher
	// isn't run.
	Fatal func(error)
	// Established is called when the API server has begun to serve a watch, before the
	// first event. It may be nil.
	Established func()
	// Interrupted is called when the API server has ended a watch before its time,
	// or serves the type no longer (gone). It does so when the CRD of the type
	// changes or goes, and when it stops itself. Interrupted may be nil.
	Interrupted func(gone bool)
	// Listing is called before each list. It may be nil.
	Listing func()
}

// A Watcher keeps the store up to date with the objects of one type, in one
// namespace or in all. It implements cache.ReflectorStore, so that a client-go
// Reflector writes into the store directly. Its methods may be called
// concurrently.
type Watcher struct {
	Config
	stream  store.Stream
	known   *revision.Type       // of the type
	delay   func() time.Duration // returns how long to wait after a watch that was lost at once
	resumes atomic.Bool          // the present watch resumes an earlier one
	heard   atomic.Int64         // when the API server last sent anything, in ns since 1970; 0: never

	mu struct {
		sync.Mutex
		established bool      // a watch has been served at least once
		synced      bool      // a complete list has arrived
		broken      error     // why there is no watch at present; nil: there is one, or none was tried
		lacking     bool      // the log says since then that a right is missing
		until       time.Time // when the API server is to end the watch; zero: there was none
		begun       time.Time // when the last watch began; zero: there was none
		since       uint64    // the newest version that was known when the Reflector asked for its last list
	}
	synced chan struct{} // closed with the first complete list
	ended  chan struct{} // closed when Run returns
}

// New returns a watcher that doesn't run yet. It makes no request.
func New(c Config) *Watcher {
	return &Watcher{
		Config: c, stream: store.Stream{Type: c.Kind.Type, Namespace: c.Namespace, Selected: c.Selected}, known: c.Client.Revision(c.Kind.Type),
		synced: make(chan struct{}), ended: make(chan struct{}),
	}
}

// selected returns the options that select the objects which the watcher observes.
func (w *Watcher) selected() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: w.Selector, FieldSelector: w.Fields}
}

// Name returns the type, and the namespace if the watcher has one. It differs
// between the watchers of an operator.
func (w *Watcher) Name() string {
	if w.Namespace == "" {
		return w.Kind.Type.String()
	}
	return w.Kind.Type.String() + ",namespace=" + w.Namespace
}

// Run lists and watches until ctx ends. It must be called only once.
func (w *Watcher) Run(ctx context.Context) {
	defer close(w.ended)
	lw := &cache.ListWatch{ListWithContextFunc: w.list, WatchFuncWithContext: w.watch}
	// The watcher itself logs, once, what a user needs to know. The Reflector's
	// own log would quote whole objects.
	logger := logr.Discard()
	backoff := retries()
	reflector := cache.NewReflectorWithOptions(lw, nil, w, cache.ReflectorOptions{
		Logger: &logger, Name: w.Kind.Type.String(), TypeDescription: w.Kind.Type.String(), Backoff: &backoff, Clock: patientClock{resumes: &w.resumes},
	})
	delay := backoff.DelayWithReset(clock.RealClock{}, calmAfter)
	w.delay = delay
	// The Reflector's own loop hands errors to client-go's error handlers. They are one for
	// the whole program, and let everybody wait who meets an error soon after another one.
	_ = delay.Until(klog.NewContext(ctx, logger), true, true, func(ctx context.Context) (bool, error) {
		_ = reflector.ListAndWatchWithContext(ctx) // list and watch have told of it
		return false, nil
	})
}

// list serves the Reflector if the API server can't stream a list.
func (w *Watcher) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	opts.LabelSelector, opts.FieldSelector = w.Selector, w.Fields
	w.asks(&opts)
	list, err := w.Client.List(ctx, w.Kind, w.Namespace, opts)
	if err != nil {
		return nil, w.failed(ctx, "list", err)
	}
	return list, nil
}

// failed notes why there is no watch, and returns err. If no watch has been served
// so far, and retrying can't mend the error, it calls Fatal.
func (w *Watcher) failed(ctx context.Context, verb string, err error) error {
	if ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsInvalid(err) {
		return err // the context has ended, or the Reflector handles the error itself
	}
	w.Metrics.WatchFailures.Inc()
	if apierrors.IsNotFound(err) && w.Interrupted != nil {
		w.Interrupted(true)
	}
	lacks := apierrors.IsForbidden(err)
	told := catalog.Forbidden(w.Kind, verb, err)
	w.mu.Lock()
	news, established := w.mu.broken == nil || lacks && !w.mu.lacking, w.mu.established
	w.mu.broken, w.mu.lacking = told, w.mu.lacking || lacks
	w.mu.Unlock()
	if !lacks && !apierrors.IsNotFound(err) && !apierrors.IsUnauthorized(err) && !apierrors.IsTooManyRequests(err) {
		w.Client.Storage().ConnectionLost() // an API server that says no has lost no connection
	}
	switch {
	case lacks && !established:
		w.Fatal(fmt.Errorf("%s: %s is forbidden: %w; add the rule %s", w.Kind.Type, verb, err, w.Kind.Rule("get", "list", "watch")))
	case apierrors.IsUnauthorized(err) && !established:
		w.Fatal(fmt.Errorf("%s: %s: %w; check the credentials", w.Kind.Type, verb, err))
	case news:
		w.Log.WarnContext(ctx, "watch lost, retrying", "type", w.Kind.Type.String(), "verb", verb, "error", told)
	}
	return err
}

// hear notes that the API server has sent something.
func (w *Watcher) hear() { w.heard.Store(time.Now().UnixNano()) }

// HeardAt returns when the API server last sent anything for this watcher, the
// zero time if it never has.
func (w *Watcher) HeardAt() time.Time {
	if ns := w.heard.Load(); ns != 0 {
		return time.Unix(0, ns)
	}
	return time.Time{}
}

// Refresh brings the store up to date with every write that ended before the call.
// It lists the objects, since the watch may lag behind. The parents that have changed
// are fresh: the watch will bring the same states, and tell of none of them again.
func (w *Watcher) Refresh(ctx context.Context) error {
	if w.Listing != nil {
		w.Listing()
	}
	listed, version, err := w.Client.ListHeld(ctx, w.Kind, w.Namespace, w.selected())
	if err != nil {
		return fmt.Errorf("%s: list: %w", w.Kind.Type, err)
	}
	listed = w.owned(listed)
	change := w.Store.Replace(w.stream, resourcesOf(listed), version)
	w.hold(listed)
	w.Changed(change, schedule.Fresh, "list of "+schedule.Trigger(w.Kind.Type.Kind))
	return nil
}

// hold notes in the store which fields of the children in a list the operator owns.
func (w *Watcher) hold(listed []*client.WireObject) {
	for _, o := range listed {
		if fields := o.HeldFields(); len(fields) > 0 {
			w.Store.HoldFields(o.Resource, fields)
		}
	}
}

// owned returns those objects of a list that are stored. It may overwrite the list.
func (w *Watcher) owned(listed []*client.WireObject) []*client.WireObject {
	if w.Owns == nil {
		return listed
	}
	return slices.DeleteFunc(listed, func(o *client.WireObject) bool { return !w.Owns(o.UID()) })
}

// resourcesOf returns the objects of a list.
func resourcesOf(listed []*client.WireObject) []*resource.Resource {
	objects := make([]*resource.Resource, 0, len(listed))
	for _, o := range listed {
		objects = append(objects, o.Resource)
	}
	return objects
}

// Synced returns a channel that is closed when the first complete list is in the
// store.
func (w *Watcher) Synced() <-chan struct{} { return w.synced }

// Ended returns a channel that is closed when Run returns.
func (w *Watcher) Ended() <-chan struct{} { return w.ended }

// HasEnded reports whether Run has returned.
func (w *Watcher) HasEnded() bool {
	select {
	case <-w.ended:
		return true
	default:
		return false
	}
}

// Broken returns why there is no watch at present, nil if there is one, or none was tried.
func (w *Watcher) Broken() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.broken
}

// Ready returns nil if the store mirrors the type; otherwise the error names what
// is missing.
func (w *Watcher) Ready() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.mu.broken != nil:
		return fmt.Errorf("%s: %w", w.Kind.Type, w.mu.broken)
	case !w.mu.synced:
		return fmt.Errorf("%s: the first list hasn't arrived yet", w.Kind.Type)
	}
	return nil
}
