package reconcile

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/internal/engine/watch"
	"github.com/roperator/roperator/resource"
)

// A follower runs the watchers of an engine, and follows types that come and go. It belongs
// to one goroutine.
type follower struct {
	*Engine
	watchers sync.WaitGroup
	arrivals chan *catalog.Kind // types of children whose objects are in the store
	absent   map[resource.Type]*absence
}

// An absence is a type that isn't served, perhaps.
type absence struct {
	since    time.Time       // when the API server said so
	left     bool            // it was asked, and the type isn't watched any more
	dropped  bool            // the objects of the type count as gone
	arriving *catalog.Kind   // how the type of children is served that is watched, and isn't mirrored yet
	similar  []resource.Type // what may be meant instead, as far as was found out: see catalog.SimilarTo
}

// withSimilar returns the arguments of a line of the log about a type that isn't served.
func withSimilar(t resource.Type, similar []resource.Type) []any {
	args := []any{"type", t.String()}
	if len(similar) > 0 {
		args = append(args, "served", catalog.TypeList(similar))
	}
	return args
}

// Watch runs the watchers until ctx ends, and follows types that come and go. It returns when
// its goroutines have ended. It must be called only once, after Watchers.
func (e *Engine) Watch(ctx context.Context) {
	f := follower{Engine: e, arrivals: make(chan *catalog.Kind), absent: map[resource.Type]*absence{}}
	defer f.watchers.Wait()
	f.run(ctx, e.Running())
	f.watchers.Go(func() { watch.FindRestore(ctx, e.client.Storage(), e.Running) })
	for _, m := range e.Missing() {
		e.log.InfoContext(ctx, "type isn't served yet", withSimilar(m.Type, m.Similar)...)
		f.absent[m.Type] = &absence{left: true, dropped: true}
	}
	timer := time.NewTimer(lookEvery)
	timer.Stop()
	defer timer.Stop()
	looks := false // the timer runs. What wakes this loop meanwhile doesn't put it off
	for {
		if absent := len(f.absent) > 0; absent != looks {
			if looks = absent; looks {
				timer.Reset(lookEvery)
			} else {
				timer.Stop()
			}
		}
		select {
		case <-ctx.Done():
			return
		case k := <-f.arrivals:
			f.arrived(ctx, k)
			continue
		case <-e.serving.wake:
		case <-timer.C:
			looks = false
			for t := range f.absent {
				f.look(ctx, t)
			}
			continue
		}
		for _, t := range e.serving.doubts() {
			if a := f.absent[t]; a == nil || a.arriving != nil {
				f.look(ctx, t)
			}
		}
	}
}

// run runs watchers until ctx or watching.end ends them.
func (f *follower) run(ctx context.Context, watchers []*watch.Watcher) {
	for _, w := range watchers {
		f.watchers.Go(func() { f.watching.run(ctx, w) })
	}
}

// look asks the API server whether it serves a type.
func (f *follower) look(ctx context.Context, t resource.Type) {
	if f.absent[t] == nil {
		f.absent[t] = &absence{since: time.Now()}
	}
	a, find := f.absent[t], f.serving.finder.Find
	if a.dropped {
		find = f.serving.finder.FindLost
	}
	found, err := find(ctx, t)
	switch {
	case err != nil: // it is asked again, and how long the type has been away counts from an answer on
		a.since = time.Now()
	case found == nil:
		f.leave(ctx, t, a)
		if !a.dropped && time.Since(a.since) >= goneAfter {
			f.drop(t)
			a.dropped = true
		}
	case !a.left && f.servedAs(found):
		delete(f.absent, t) // it was away for a moment, and its watches come back by themselves
	case a.arriving != nil && a.arriving.ServedAs(found):
	default:
		f.leave(ctx, t, a)
		f.arrive(ctx, found, a)
	}
}

// servedAs says whether a type is watched as it is served.
func (f *follower) servedAs(found *catalog.Kind) bool {
	child, related := f.types().Of(found.Type), f.types().RelatedTo(found.Type)
	return (child == nil || child.ServedAs(found)) && (related == nil || related.ServedAs(found))
}

// leave ends the watchers of a type of children. Its children wait from now on. The parents
// that fail are due: those that couldn't write such a child learn why.
func (f *follower) leave(ctx context.Context, t resource.Type, a *absence) {
	if !a.left {
		a.similar = f.serving.finder.Similar(ctx, t)
		f.log.WarnContext(ctx, "type isn't served any more", withSimilar(t, a.similar)...)
	}
	a.left, a.arriving = true, nil
	if f.types().Of(t) == nil {
		return
	}
	f.watching.end(t)
	f.replaceSettings(func(s *catalog.Settings) *catalog.Settings { return s.With(s.Types.Of(t).Gone(a.similar)) })
	f.changed(store.Change{Parents: f.queue.Failing()}, schedule.Fresh, "end of "+schedule.Trigger(t.Kind))
}

// drop lets the objects of a type count as gone.
func (f *follower) drop(t resource.Type) {
	why := "end of " + schedule.Trigger(t.Kind)
	if f.types().Of(t) != nil {
		f.changed(f.store.Drop(t), schedule.Fresh, why)
	}
	at := slices.IndexFunc(f.Config.Related, func(r config.Related) bool { return r.Type == t && r.Optional })
	if at < 0 {
		return
	}
	change := f.related.Unserve(t)
	f.replaceSettings(func(s *catalog.Settings) *catalog.Settings {
		return s.WithRelated(s.Types.Related[at].Gone(f.absent[t].similar))
	})
	f.changed(change, schedule.Fresh, why)
}

// arrive begins to watch a type that is served as found says.
func (f *follower) arrive(ctx context.Context, found *catalog.Kind, a *absence) {
	t := found.Type
	if f.types().RelatedTo(t) != nil {
		k, err := f.current.Load().ServedRelated(found)
		if f.refuse(ctx, t, err) {
			return
		}
		// In this order, a pass that has begun with the former settings is either named
		// by Serve, or finds that the settings are new.
		f.replaceSettings(func(s *catalog.Settings) *catalog.Settings { return s.WithRelated(k) })
		f.changed(f.related.Serve(k), schedule.Fresh, "begin of "+schedule.Trigger(t.Kind))
	}
	if f.types().Of(t) == nil {
		delete(f.absent, t)
		f.log.InfoContext(ctx, "type is served", "type", t.String())
		return
	}
	k, err := f.current.Load().Served(found)
	if f.refuse(ctx, t, err) {
		return
	}
	a.arriving = k
	if f.Shard.Divides() { // before a pass could take what isn't delivered for gone
		for _, l := range f.listsOf(k) {
			if failed, err := f.stampAll(ctx, l); failed || err != nil {
				f.stampAgain()
			}
		}
	}
	watchers := f.watchersOf(k, func(err error) {
		f.log.ErrorContext(ctx, "type can't be watched, retrying", "type", t.String(), "error", err)
	})
	f.watching.add(watchers...)
	f.run(ctx, watchers)
	f.watchers.Go(func() { f.await(ctx, k, watchers) })
}

// refuse notes why a type can't be watched, and logs it once. It says whether there is a
// reason.
func (f *follower) refuse(ctx context.Context, t resource.Type, err error) bool {
	if f.serving.fail(t, err) {
		f.log.ErrorContext(ctx, "type can't be watched", "type", t.String(), "error", err)
	}
	return err != nil
}

// await waits until the objects of a type are in the store, also the unlabelled ones, and
// tells of the type's arrival. It does nothing if its watchers have ended before.
func (f *follower) await(ctx context.Context, k *catalog.Kind, watchers []*watch.Watcher) {
	for _, w := range watchers {
		select {
		case <-w.Synced():
		case <-w.Ended():
			return
		}
	}
	if err := f.retryLists(ctx, f.adoptableListsOf(k), unlabelledChildren(), f.listUnlabelled); err != nil && ctx.Err() == nil {
		f.log.ErrorContext(ctx, "can't look for unlabelled children", "type", k.Type.String(), "error", err)
	}
	select {
	case f.arrivals <- k:
	case <-ctx.Done():
	}
}

// arrived lets passes write children of a type, whose objects are in the store. The parents
// that waited for it are due, and those that have children of the type: passes couldn't delete what
// isn't wanted.
func (f *follower) arrived(ctx context.Context, k *catalog.Kind) {
	if a := f.absent[k.Type]; a == nil || a.arriving != k {
		return // it has gone since
	}
	delete(f.absent, k.Type)
	f.log.InfoContext(ctx, "type is served", "type", k.Type.String())
	f.replaceSettings(func(s *catalog.Settings) *catalog.Settings { return s.With(k) })
	f.doubtSchema(k)
	due := slices.Concat(f.serving.waited(k.Type), f.store.Owners(k.Type))
	f.changed(store.Change{Parents: due}, schedule.Fresh, "begin of "+schedule.Trigger(k.Type.Kind))
}

// replaceSettings replaces the engine's settings.
func (e *Engine) replaceSettings(change func(*catalog.Settings) *catalog.Settings) {
	e.keeper.mu.Lock()
	defer e.keeper.mu.Unlock()
	e.current.Store(change(e.current.Load()))
}
