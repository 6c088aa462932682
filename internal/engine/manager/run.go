package manager

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/lead"
	"github.com/roperator/roperator/internal/engine/reconcile"
	"github.com/roperator/roperator/internal/engine/watch"
)

// A passesUntil makes passes until ctx ends, and cuts the running ones short when passes
// ends.
type passesUntil func(ctx, passes context.Context) error

// run starts the watches, and the workers once every type is mirrored and lead calls what it
// gets. It returns when all of them have ended: after outer has ended, or
// with the error that ended them before. standby says that others may have written before
// lead does so.
func (m *Manager) run(
	outer context.Context, operators []*operator, engines []*reconcile.Engine, standby bool, lead func(context.Context, func(error), passesUntil) error,
) error {
	ctx, stop := context.WithCancelCause(outer)
	defer stop(nil)
	var wg sync.WaitGroup
	for i, e := range engines {
		operators[i].warn(ctx, e)
		if standby {
			e.Standby()
		}
		e.Watchers(stop)
		operators[i].began(e)
		wg.Go(func() { e.KeepSchemas(ctx) })
		wg.Go(func() { e.KeepRelated(ctx) })
		wg.Go(func() { e.Watch(ctx) })
	}
	var err error
	if awaitSynced(ctx, engines) {
		for _, e := range engines {
			e.LogStart(ctx)
			e.Listed(standby)
			if !m.opts.NamespacesExist {
				wg.Go(func() { e.WarnMissingNamespaces(ctx) })
			}
		}
		err = lead(ctx, stop, func(ctx, passes context.Context) error {
			if !standby || m.refresh(ctx, engines, stop) {
				return m.work(ctx, passes, engines, stop)
			}
			return nil
		})
	}
	stop(nil)
	wg.Wait()
	if err != nil {
		return err
	}
	if cause := context.Cause(ctx); outer.Err() == nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	for _, o := range operators {
		o.log.Info("stopped")
	}
	return nil
}

// warn logs what its parents' status and its children's owners will lack.
func (o *operator) warn(ctx context.Context, e *reconcile.Engine) {
	if doubt := o.doubtStatus(); doubt != "" {
		o.log.WarnContext(ctx, "the status of parents will lack something", "type", o.cfg.Parent.String(), "reason", doubt)
	} else {
		e.WarnNoStatus()
	}
	e.WarnUnowned()
}

// lead calls work once this process leads, and returns what lead.Run does.
func (m *Manager) lead(ctx context.Context, stop func(error), lock *lead.Lease, work passesUntil) error {
	if m.opts.Elected != nil {
		select {
		case <-m.opts.Elected:
			m.log.InfoContext(ctx, "leading")
		case <-ctx.Done():
			return nil
		}
	}
	return lead.Run(ctx, stop, lock, work)
}

// work makes the passes of all operators until ctx ends, and cuts the running
// passes short when passes ends. It returns after the last Event is written. It calls
// stop with an error that makes a start pointless. The error of work names the calls of
// handlers that still run: see reconcile.Engine.Work.
func (m *Manager) work(ctx, passes context.Context, engines []*reconcile.Engine, stop func(error)) error {
	var wg sync.WaitGroup
	errs := make([]error, len(engines))
	for i, e := range engines {
		wg.Go(func() {
			err := e.FindUnlabelled(ctx)
			if err == nil {
				err = e.FindFormer(ctx)
			}
			switch {
			case ctx.Err() != nil:
			case err != nil:
				stop(err)
			default:
				errs[i] = e.Work(ctx, passes, m.opts.ShutdownTimeout)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// refresh lists every type into the stores, which are up to date then with what
// another replica has done while it held the lease: a handler must not be shown a
// parent that was finalized by the other replica, and of which the watch hasn't
// told yet. A list that fails is tried again every second, and the log has each new
// text of an error. A list that is forbidden is an error for stop instead: this process
// must not hold the lease and do nothing. refresh returns false then, and if ctx has
// ended. A type that isn't served any more, or has just come, is left out.
func (m *Manager) refresh(ctx context.Context, engines []*reconcile.Engine, stop func(error)) bool {
	said := ""
	var watchers []*watch.Watcher
	for _, e := range engines {
		watchers = append(watchers, e.Mirroring()...)
	}
	for _, w := range watchers {
		for err := w.Refresh(ctx); err != nil && !ended(w); err = w.Refresh(ctx) {
			if apierrors.IsForbidden(err) {
				stop(fmt.Errorf("can't begin to lead: %w", catalog.Forbidden(w.Kind, "list", err)))
				return false
			}
			if text := err.Error(); text != said {
				said = text
				m.log.WarnContext(ctx, "can't begin to lead yet, retrying", "error", err)
			}
			select {
			case <-ctx.Done():
				return false
			case <-time.After(time.Second):
			}
		}
	}
	return ctx.Err() == nil
}

// ended says whether a watcher doesn't run any more.
func ended(w *watch.Watcher) bool {
	select {
	case <-w.Ended():
		return true
	default:
		return false
	}
}

// awaitSynced returns true once every type that is served is mirrored, false if ctx has
// ended.
func awaitSynced(ctx context.Context, engines []*reconcile.Engine) bool {
	for _, e := range engines {
		if !e.AwaitSynced(ctx) {
			return false
		}
	}
	return true
}
