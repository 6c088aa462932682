package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/lead"
	"github.com/roperator/roperator/internal/engine/leave"
	"github.com/roperator/roperator/internal/engine/observe"
)

// resumeAfter is how many times RetryPeriod a replica has to take the lease that this
// process has given back.
const resumeAfter = 4

// Leave takes the operators of the manager out of the cluster, as package leave says.
// agree is asked once it is known what there is, and before the first write. tell gets
// lines for people. The Departure has what is known, also beside an error. The lease is
// that of Options.LeaderElection, which must be set; it is taken only to let go of what is to
// stay, and only if there is one.
func (m *Manager) Leave(ctx context.Context, how leave.How, agree func(d *leave.Departure) bool, tell func(string)) (*leave.Departure, error) {
	d := &leave.Departure{}
	l, err := client.Connect(m.opts.RESTConfig, m.log)
	if err != nil {
		return d, err
	}
	settings, err := m.leavingTypes(ctx, l)
	if err != nil {
		return d, err
	}
	operators, err := leavingOn(l, settings, m)
	if err != nil {
		return d, err
	}
	operators = leave.InOrder(operators)
	if err := leave.Check(operators, how); err != nil {
		return d, err
	}
	if err := m.checkLeaving(ctx, l, operators, how); err != nil {
		return d, err
	}
	if d.Surveys, err = leave.Look(ctx, operators); err != nil {
		return d, err
	}
	elected := m.opts.LeaderElection.WithDefaults(m.operators[0].cfg.Name)
	observer, err := lead.NewObserver(elected, l.Config, l.As(m.operators[0].cfg.Name, nil))
	if err != nil {
		return d, err
	}
	if d.Standing, err = observer.Look(ctx); err != nil {
		return d, err
	}
	d.Holder = observer.Holder()
	if d.Agreed = agree(d); !d.Agreed {
		return d, nil
	}
	return d, (&leaving{Manager: m, link: l, settings: settings, operators: operators, how: how, tell: tell, observer: observer, elected: elected}).carryOut(ctx, d)
}

// leavingTypes finds how the types of each operator are served. Those of children that
// aren't served any more are left out.
func (m *Manager) leavingTypes(ctx context.Context, l *client.Link) ([]*catalog.Settings, error) {
	var out []*catalog.Settings
	for _, o := range m.operators {
		finder, err := catalog.NewFinder(l.Config, l.As(o.cfg.Name, nil))
		if err != nil {
			return nil, err
		}
		cfg := o.cfg
		cfg.Related, cfg.Children = nil, slices.Clone(cfg.Children)
		for i := range cfg.Children {
			cfg.Children[i].Optional = true
		}
		types, err := finder.Discover(ctx, cfg)
		if err != nil {
			return nil, err
		}
		out = append(out, catalog.NewSettings(cfg, o.handler, types))
	}
	return out, nil
}

// leavingOn returns the operators with clients on a link.
func leavingOn(l *client.Link, settings []*catalog.Settings, m *Manager) ([]leave.Operator, error) {
	var out []leave.Operator
	for i, s := range settings {
		name := s.Config.Name
		c, err := client.New(l, l.As(name, nil), name, nil, m.operators[i].log)
		if err != nil {
			return nil, err
		}
		c.DropHeldFields()
		out = append(out, leave.Operator{Settings: s, Client: c})
	}
	return out, nil
}

// checkLeaving returns an error that names each right that is missing.
func (m *Manager) checkLeaving(ctx context.Context, l *client.Link, operators []leave.Operator, how leave.How) error {
	denied, err := client.Review(ctx, l, l.As(m.operators[0].cfg.Name, nil), leave.Rights(operators, how))
	if ctx.Err() != nil {
		return fmt.Errorf("uninstall: %w", context.Cause(ctx))
	}
	if err != nil {
		m.log.InfoContext(ctx, "can't look at all rights before the start; a missing one is named when a request is refused", "error", err)
	}
	return joinLacks(lacksOf(denied))
}

// A leaving is what Leave carries out.
type leaving struct {
	*Manager
	link      *client.Link
	settings  []*catalog.Settings // in the order of the manager's operators
	operators []leave.Operator    // in the order in which they leave
	how       leave.How
	tell      func(string)
	observer  *lead.Observer
	elected   lead.Config // with its defaults
}

// carryOut does what Leave has agreed to do.
func (v *leaving) carryOut(ctx context.Context, d *leave.Departure) (err error) {
	if v.how.Finalize {
		if d.Standing, err = v.observer.Await(ctx); err != nil {
			return err
		}
		if d.Standing.Runs() {
			return fmt.Errorf("Lease %s/%s: %s renews it, so an operator works, and finalizes the parents; leave out --finalize, or stop that operator first",
				v.elected.Namespace, v.elected.Name, v.observer.Holder())
		}
	}
	var errs []error
	if v.how.KeepChildren || v.how.KeepParents {
		if err := v.prepare(ctx, d); err != nil {
			if ctx.Err() != nil {
				return err
			}
			errs = append(errs, err)
		}
	}
	running := v.runningFor(d)
	if v.how.Finalize {
		var stop func() error
		if running, stop, err = v.finalize(ctx, d.Standing); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	d.Left, err = leave.Delete(ctx, v.operators, d.Surveys, v.how, running, v.tell)
	errs = append(errs, err)
	if v.how.KeepParents && ctx.Err() == nil {
		errs = append(errs, v.resume(ctx, d))
	}
	return errors.Join(errs...)
}

// prepare lets go of what is to stay, with the lease if there is one.
func (v *leaving) prepare(ctx context.Context, d *leave.Departure) error {
	if d.Standing == lead.Missing {
		return leave.Prepare(ctx, v.operators, d.Surveys, v.how, false, v.tell)
	}
	opts := v.opts
	opts.TakeOver = "uninstall"
	lock, err := (&Manager{opts: opts, log: v.log, operators: v.Manager.operators}).newLease(v.link)
	if err != nil {
		return err
	}
	alone, err := leavingOn(v.link.Under(lock), v.settings, v.Manager)
	if err != nil {
		return err
	}
	alone = leave.InOrder(alone)
	if d.Standing.Runs() {
		v.tell("asking the operator that works for its lease: " + d.Holder)
	}
	begun := false
	var refused, failed error
	err = lead.Run(ctx, func(err error) { refused = err }, lock, func(ctx, _ context.Context) error {
		begun = true
		failed = leave.Prepare(ctx, alone, d.Surveys, v.how, true, v.tell)
		return nil
	})
	if !begun && refused == nil && ctx.Err() != nil {
		return fmt.Errorf("uninstall: %w", context.Cause(ctx))
	}
	return errors.Join(refused, err, failed)
}

// runningFor returns a function that says whether an operator may work. It says no once
// nobody has held the lease for LeaseDuration. Where there is no lease, that can't be known.
func (v *leaving) runningFor(d *leave.Departure) func(ctx context.Context) bool {
	var idle time.Time // since when nobody has held the lease; zero: somebody does
	return func(ctx context.Context) bool {
		s, err := v.observer.Look(ctx)
		if err != nil {
			return true // it isn't known
		}
		d.Standing, d.Holder = s, v.observer.Holder()
		if s != lead.Free && s != lead.Expired {
			idle = time.Time{}
			return true
		}
		if idle.IsZero() {
			idle = time.Now()
		}
		d.Stuck = time.Since(idle) >= v.elected.LeaseDuration
		return !d.Stuck
	}
}

// finalize runs the operators in this process, for parents that are being deleted. It
// returns whether they still run, and what ends them.
func (v *leaving) finalize(ctx context.Context, standing lead.Standing) (running func(context.Context) bool, stop func() error, err error) {
	opts := v.opts
	opts.Metrics, opts.MetricsAddress, opts.HealthAddress, opts.FinalizeOnly = observe.NewRegistry(nil), "", "", true
	if standing == lead.Missing {
		opts.LeaderElection = nil
	}
	var specs []Spec
	for _, o := range v.Manager.operators {
		specs = append(specs, Spec{Config: o.cfg, Handler: o.handler})
	}
	m, err := New(opts, specs...)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	var result error // of Start; not to be read before ended
	go func() {      // ends when stop is called
		defer close(ended)
		result = m.Start(ctx)
	}()
	running = func(context.Context) bool {
		select {
		case <-ended:
			return false
		default:
			return true
		}
	}
	return running, func() error { cancel(); <-ended; return result }, nil
}

// resume ends the pauses of the parents that stay, unless an operator works.
func (v *leaving) resume(ctx context.Context, d *leave.Departure) error {
	for begin := time.Now(); ; {
		s, err := v.observer.Look(ctx)
		if err != nil {
			return err
		}
		d.Standing, d.Holder = s, v.observer.Holder()
		if s == lead.Claimed || s == lead.Renewed {
			d.Paused = true
			return nil
		}
		if s == lead.Missing || time.Since(begin) >= resumeAfter*v.elected.RetryPeriod {
			return leave.Resume(ctx, v.operators)
		}
		timer := time.NewTimer(v.elected.RetryPeriod / 2)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("uninstall: %w", context.Cause(ctx))
		case <-timer.C:
		}
	}
}
