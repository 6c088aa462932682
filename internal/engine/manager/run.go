package manager

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/roperator/roperator/internal/engine/lead"
	"github.com/roperator/roperator/internal/engine/reconcile"
)

// A passesUntil makes passes until ctx ends, and cuts the running ones short when passes
// ends. It gives the lease away if none of the lists that come first makes progress for
// RenewDeadline. A nil lease stays.
type passesUntil func(ctx, passes context.Context, lease *lead.Lease) error

// A leading calls work once this process leads, and returns after it.
type leading func(ctx context.Context, stop func(error), work passesUntil) error

// A starting is an operator of which the watchers run.
type starting struct {
	engine   *reconcile.Engine
	mirrored chan struct{} // closed once every type that is served is mirrored
}

// run starts the watches, and calls elect once the types of one operator are mirrored. Each
// operator begins to work once this process leads and its own types are mirrored: a type that
// can't be listed holds back none but the operators that need it. run returns when all have
// ended: after outer has ended, or with the error that ended them before. standby says that
// others may have written before elect calls work.
func (m *Manager) run(outer context.Context, operators []*operator, engines []*reconcile.Engine, standby bool, elect leading) error {
	ctx, stop := context.WithCancelCause(outer)
	defer stop(nil)
	var wg sync.WaitGroup
	first := make(chan struct{}) // closed with the first mirrored
	one := sync.OnceFunc(func() { close(first) })
	var all []starting
	for i, e := range engines {
		operators[i].warn(ctx, e)
		if standby {
			e.Standby()
		}
		e.Watchers(stop)
		operators[i].began(e)
		wg.Go(func() { e.KeepSchemas(ctx) })
		wg.Go(func() { e.KeepRelated(ctx) })
		wg.Go(func() { stampAndWatch(ctx, e, stop) })
		mirrored := make(chan struct{})
		all = append(all, starting{e, mirrored})
		wg.Go(func() {
			if !e.AwaitSynced(ctx) {
				return
			}
			e.LogStart(ctx)
			e.Listed(standby)
			close(mirrored)
			one()
			if !m.opts.NamespacesExist {
				e.WarnMissingNamespaces(ctx)
			}
		})
	}
	var err error
	if receive(ctx, first) {
		err = elect(ctx, stop, func(ctx, passes context.Context, lease *lead.Lease) error {
			return m.work(ctx, passes, all, stop, standby, lease)
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

// stampAndWatch runs the watchers of an operator until ctx ends. Where replicas share the
// parents, the children get their labels first: the Lease of the shard is held already. It
// calls stop with the error of a list that is forbidden.
func stampAndWatch(ctx context.Context, e *reconcile.Engine, stop func(error)) {
	if e.Shard.Divides() {
		if err := e.Stamp(ctx); err != nil {
			if ctx.Err() == nil {
				stop(err)
			}
			return
		}
	}
	e.Watch(ctx)
}

// receive waits until a channel is closed, and returns false if ctx has ended before.
func receive(ctx context.Context, closed <-chan struct{}) bool {
	select {
	case <-closed:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
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
		if !receive(ctx, m.opts.Elected) {
			return nil
		}
		m.log.InfoContext(ctx, "leading")
	}
	return lead.Run(ctx, stop, lock, func(ctx, passes context.Context) error { return work(ctx, passes, lock) })
}

// work makes the passes of all operators until ctx ends, and cuts the running
// passes short when passes ends. It returns after the last Event is written. It calls
// stop with an error that makes a start pointless. The error of work names the calls of
// handlers that still run: see reconcile.Engine.Work. For lease see passesUntil.
func (m *Manager) work(ctx, passes context.Context, all []starting, stop func(error), standby bool, lease *lead.Lease) error {
	var wg sync.WaitGroup
	listing, began := context.WithCancel(ctx)
	defer began()
	if lease != nil {
		wg.Go(func() { m.watchLists(listing, all, lease) })
	}
	errs := make([]error, len(all))
	for i, o := range all {
		wg.Go(func() {
			switch err := o.list(ctx, standby); {
			case ctx.Err() != nil:
			case err != nil:
				stop(err)
			default:
				began()
				errs[i] = o.engine.Work(ctx, passes, m.opts.ShutdownTimeout)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// list makes the lists that an operator needs before its first reconciliation, once its types
// are mirrored. It returns an error if ctx ends, or if a list is forbidden.
func (o starting) list(ctx context.Context, standby bool) error {
	if !receive(ctx, o.mirrored) {
		return ctx.Err()
	}
	if standby {
		if err := o.engine.Refresh(ctx); err != nil {
			return err
		}
	}
	if err := o.engine.FindUnlabelled(ctx); err != nil {
		return err
	}
	return o.engine.FindFormer(ctx)
}

// watchLists gives the lease away if no list of any operator makes progress for RenewDeadline.
// A page of a list is progress. It returns then, and when ctx ends: an operator has all lists
// that it needs.
func (m *Manager) watchLists(ctx context.Context, all []starting, lease *lead.Lease) {
	last := time.Now()
	for {
		for _, o := range all {
			if at := o.engine.ListedAt(); at.After(last) {
				last = at
			}
		}
		left := time.Until(last.Add(lease.RenewDeadline()))
		if left <= 0 {
			m.log.WarnContext(ctx, "giving the lease away: no list of any operator has made progress, so no parent is reconciled here", "for", lease.RenewDeadline())
			lease.GiveAway()
			return
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// canList returns true once all lists of an operator have succeeded: a process that has given
// the lease away must not take it to do nothing once more. It returns false if ctx ends, and
// after it has called stop with the error of a list that is forbidden.
func canList(ctx context.Context, engines []*reconcile.Engine, stop func(error)) bool {
	trying, found := context.WithCancel(ctx)
	defer found()
	var wg sync.WaitGroup
	for _, e := range engines {
		wg.Go(func() {
			if !e.AwaitSynced(trying) {
				return
			}
			switch err := e.Refresh(trying); {
			case err == nil:
				found()
			case trying.Err() == nil:
				stop(err)
			}
		})
	}
	wg.Wait()
	return ctx.Err() == nil
}
