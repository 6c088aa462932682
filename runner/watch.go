package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/roperator/roperator/resource"
)

// A watcher keeps the resource map up to date with one type of objects, in
// one namespace or in all. It is the store that a client-go Reflector writes
// into: there is no second cache.
type watcher struct {
	kind     *kind
	stream   stream
	selector string
	client   *client
	store    *resourceMap
	log      *slog.Logger
	metrics  *typeMetrics
	changed  func(change, priority, trigger)
	heard    atomic.Int64 // when the API server last said anything, in ns since 1970; 0: never

	mu struct {
		sync.Mutex
		established bool  // a watch has been served at least once
		synced      bool  // a complete list has arrived
		broken      error // why there is no watch at present
	}
	synced chan struct{} // closed with the first complete list
	fatal  func(error)   // called with what makes a start pointless
}

// name tells it from the operator's others.
func (w *watcher) name() string {
	if w.stream.Namespace == "" {
		return w.kind.Type.String()
	}
	return w.kind.Type.String() + ",namespace=" + w.stream.Namespace
}

// run lists and watches until ctx ends.
func (w *watcher) run(ctx context.Context) {
	lw := &cache.ListWatch{ListWithContextFunc: w.list, WatchFuncWithContext: w.watch}
	// The watcher says itself, and once, what a user needs to know; what
	// client-go says on the way would quote whole objects.
	logger := logr.Discard()
	reflector := cache.NewReflectorWithOptions(lw, nil, w, cache.ReflectorOptions{
		Logger:          &logger,
		Name:            w.kind.Type.String(),
		TypeDescription: w.kind.Type.String(),
	})
	reflector.RunWithContext(klog.NewContext(ctx, logger))
}

// list is the fallback for API servers that can't stream a list.
func (w *watcher) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	if opts.ResourceVersion == "0" {
		opts.ResourceVersion = "" // "0" may be answered from a stale cache
	}
	opts.LabelSelector = w.selector
	list, err := w.client.list(ctx, w.kind, w.stream.Namespace, opts)
	if err != nil {
		return nil, w.failed(ctx, "list", err)
	}
	return list, nil
}

func (w *watcher) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.LabelSelector = w.selector
	events, err := w.client.watch(ctx, w.kind, w.stream.Namespace, opts)
	if err != nil {
		return nil, w.failed(ctx, "watch", err)
	}
	w.mu.Lock()
	if w.mu.broken != nil {
		w.log.InfoContext(ctx, "watch is back", "type", w.kind.Type.String())
	}
	w.hear()
	w.mu.established, w.mu.broken = true, nil
	w.mu.Unlock()
	return events, nil
}

// failed notes why there is no watch. Before there ever was one, what retrying
// can't mend ends the start.
func (w *watcher) failed(ctx context.Context, verb string, err error) error {
	if ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsInvalid(err) {
		return err // ended, or the Reflector knows what to do
	}
	w.metrics.watchFailures.Inc()
	w.mu.Lock()
	first, established := w.mu.broken == nil, w.mu.established
	w.mu.broken = err
	w.mu.Unlock()
	switch {
	case apierrors.IsForbidden(err) && !established:
		w.fatal(fmt.Errorf("%s: %s is forbidden: %w; add the rule %s", w.kind.Type, verb, err, w.kind.rule("get", "list", "watch")))
	case apierrors.IsUnauthorized(err) && !established:
		w.fatal(fmt.Errorf("%s: %s: %w; check the credentials", w.kind.Type, verb, err))
	case first:
		w.log.WarnContext(ctx, "watch lost, retrying", "type", w.kind.Type.String(), "verb", verb, "error", err)
	}
	return err
}

// hear notes that the API server has said something.
func (w *watcher) hear() { w.heard.Store(time.Now().UnixNano()) }

// heardAt is when the API server last said anything; zero: never.
func (w *watcher) heardAt() time.Time {
	if ns := w.heard.Load(); ns != 0 {
		return time.Unix(0, ns)
	}
	return time.Time{}
}

// refresh brings the store up to date with everything that was written before
// it was called, by a list, since the watch may lag behind.
func (w *watcher) refresh(ctx context.Context) error {
	objects, version, err := w.client.listPages(ctx, w)
	if err != nil {
		return fmt.Errorf("%s: list: %w", w.kind.Type, err)
	}
	w.changed(w.store.replace(w.stream, objects, version), backlog, "list of "+trigger(w.kind.Type.Kind))
	return nil
}

// ready returns nil if the store mirrors this type, else what is missing.
func (w *watcher) ready() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.mu.broken != nil:
		return fmt.Errorf("%s: %w", w.kind.Type, w.mu.broken)
	case !w.mu.synced:
		return fmt.Errorf("%s: the first list hasn't arrived yet", w.kind.Type)
	}
	return nil
}

// The methods below are those of a cache.ReflectorStore.

func (w *watcher) Add(obj any) error {
	w.metrics.added.Inc()
	return w.take(obj)
}

func (w *watcher) Update(obj any) error {
	w.metrics.modified.Inc()
	return w.take(obj)
}

func (w *watcher) Delete(obj any) error {
	w.metrics.deleted.Inc()
	w.hear()
	res, err := observed(obj)
	if err != nil {
		return err
	}
	w.changed(w.store.observeDeleted(w.stream, res), fresh, w.trigger(res))
	return nil
}

func (w *watcher) Replace(list []any, version string) error {
	objects := make([]*resource.Resource, 0, len(list))
	for _, obj := range list {
		res, err := observed(obj)
		if err != nil {
			return err
		}
		objects = append(objects, res)
	}
	w.metrics.lists.Inc()
	w.hear()
	// What a relist finds changed is fresh; the first list is the backlog.
	w.mu.Lock()
	first := !w.mu.synced
	w.mu.synced = true
	w.mu.Unlock()
	p := fresh
	if first {
		p = backlog
	}
	w.changed(w.store.replace(w.stream, objects, version), p, "list of "+trigger(w.kind.Type.Kind))
	if first {
		close(w.synced)
	}
	return nil
}

func (w *watcher) Bookmark(version string) error {
	w.metrics.bookmarks.Inc()
	w.hear()
	w.store.bookmark(w.stream, version)
	return nil
}

// Resync does nothing: there is nothing that a watch could have missed.
func (w *watcher) Resync() error { return nil }

func (w *watcher) take(obj any) error {
	w.hear()
	res, err := observed(obj)
	if err != nil {
		return err
	}
	w.changed(w.store.observe(w.stream, res), fresh, w.trigger(res))
	return nil
}

func (w *watcher) trigger(res *resource.Resource) trigger {
	return trigger(refOf(res).String())
}

func observed(obj any) (*resource.Resource, error) {
	if o, ok := obj.(*wireObject); ok && o.Resource != nil {
		return o.Resource, nil
	}
	return nil, errors.New("watch: not an object of a watched type")
}

// watchers returns one watcher per type and namespace.
func (r *engine) watchers(fatal func(error)) []*watcher {
	namespaces := r.cfg.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	ours := labels.Set{r.cfg.OwnershipLabel: r.cfg.Name}.String() + "," + r.cfg.TrackingLabel
	var out []*watcher
	for _, k := range r.types.all() {
		selector := ours
		if k == r.types.parent {
			selector = r.cfg.ParentSelector
		}
		for _, ns := range namespaces {
			if !k.namespaced {
				ns = metav1.NamespaceAll
			}
			out = append(out, &watcher{
				kind: k, stream: stream{k.Type, ns}, selector: selector,
				client: r.client, store: r.store, log: r.log,
				metrics: r.metrics.of(k.Type), changed: r.changed, synced: make(chan struct{}), fatal: fatal,
			})
			if !k.namespaced {
				break
			}
		}
	}
	return out
}

// selects says whether a parent is one of this operator's.
func (r *engine) selects(parent *resource.Resource) bool {
	return r.settings.selector == nil || r.settings.selector.Matches(labels.Set(parent.Labels()))
}
