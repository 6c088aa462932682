package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/access"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/explain"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/reconcile"
	"github.com/roperator/roperator/internal/engine/view"
)

const (
	// tappedCalls and tappedBytes bound what is kept of the handler's calls for one parent while somebody looks
	// at it.
	tappedCalls = 100
	tappedBytes = 8 << 20
)

// A WindowPage answers the requests for the window. Close ends those that are being answered, and
// returns when they have ended.
type WindowPage interface {
	http.Handler
	Close()
}

// A Window is what a WindowPage shows of the operators of a process. Its methods may be called concurrently.
type Window struct {
	// Loopback says that the page is served on a loopback address.
	Loopback bool
	// Protect lets those requests through alone that RBAC allows; nil on a loopback address.
	Protect func(http.Handler) http.Handler
	Log     *slog.Logger

	manager    *Manager
	link       *client.Link // through which nothing is written
	rehearsals rehearsals
}

// checkWindow returns what is wrong with WindowAddress.
func (o *Options) checkWindow() error {
	if o.WindowAddress == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(o.WindowAddress); err != nil {
		return fmt.Errorf("runner: Options: WindowAddress: %w; it is like :8082, which means 127.0.0.1:8082, or 0.0.0.0:8082", err)
	}
	for _, other := range []string{o.MetricsAddress, o.HealthAddress} {
		if o.WindowAddress == other {
			return fmt.Errorf("runner: Options: WindowAddress: %s is the address of metrics or health; give the window another (--window-bind-address)", other)
		}
	}
	if o.NewWindow == nil {
		return errors.New("runner: Options: WindowAddress: is set, and NewWindow isn't")
	}
	return nil
}

// keepsJournal says whether what operators do is kept for a window.
func (o *Options) keepsJournal() bool { return o.WindowAddress != "" || o.KeepJournal }

// newWindow returns the window. It makes no request.
func (m *Manager) newWindow(l *client.Link) *Window {
	return &Window{Loopback: access.IsLoopback(access.Local(m.opts.WindowAddress)), Log: m.log, manager: m, link: l.Rehearsing(), rehearsals: newRehearsals(m.log)}
}

// Operators returns the names of the operators, in their order.
func (w *Window) Operators() []string {
	names := make([]string, 0, len(w.manager.operators))
	for _, o := range w.manager.operators {
		names = append(names, o.cfg.Name)
	}
	return names
}

// Overview returns the present state of an operator, false while it doesn't run. It makes no request.
func (w *Window) Overview(operator string) (view.Overview, bool) {
	o, err := w.manager.operatorNamed(operator)
	if err != nil {
		return view.Overview{}, false
	}
	return w.manager.overview(o)
}

// Family returns what is known of a parent, false if the operator knows none of this name. It makes no
// request.
func (w *Window) Family(operator string, parent types.NamespacedName) (view.Family, bool) {
	o, err := w.manager.operatorNamed(operator)
	if err != nil {
		return view.Family{}, false
	}
	e := w.manager.engineOf(o, parent)
	if e == nil {
		return view.Family{}, false
	}
	out, ok := e.Family(parent)
	w.manager.sign(&out.Process)
	return out, ok
}

// Explain says why a parent and its children are as they are. It reads from the API server, and calls the
// handler, whose context is that of a plan.
func (w *Window) Explain(ctx context.Context, operator string, parent types.NamespacedName, known explain.Process) (explain.Explanation, error) {
	var out explain.Explanation
	err := w.rehearse(ctx, explainTimeout, operator, func(ctx context.Context, e *reconcile.Engine) (err error) {
		out, err = e.Explain(ctx, parent, known)
		return err
	})
	if err != nil {
		return explain.Explanation{}, err
	}
	return out, nil
}

// Plan plans all parents, and calls found for each of them, one at a time. parents is how many there are.
// The handler is called for each, and the API server gets dry runs.
func (w *Window) Plan(ctx context.Context, operator string, found func(p view.Planned, parents int)) error {
	return w.rehearse(ctx, planTimeout, operator, func(ctx context.Context, e *reconcile.Engine) error {
		return e.PlanEach(ctx, func(parent types.NamespacedName, changes []plan.Change, err error, parents int) {
			p := view.Planned{Namespace: parent.Namespace, Name: parent.Name, Changes: changes}
			if p.Changes == nil {
				p.Changes = []plan.Change{}
			}
			if err != nil {
				p.Error = err.Error()
			}
			found(p, parents)
		})
	})
}

// Tap has the calls of the handler for a parent kept for Record, until release is called.
func (w *Window) Tap(operator string, parent types.NamespacedName) (release func()) {
	o, err := w.manager.operatorNamed(operator)
	if err != nil {
		return func() {}
	}
	return o.tap.Open(parent)
}

// Record writes a recording that testkit.Replay takes: the calls of the handler for a parent since Tap was
// called. If there was none, the handler is called with the parent as it is, in the context of a plan.
func (w *Window) Record(ctx context.Context, operator string, parent types.NamespacedName, to io.Writer) error {
	o, err := w.manager.operatorNamed(operator)
	if err != nil {
		return err
	}
	calls := o.tap.Calls(parent)
	if len(calls) == 0 {
		err := w.rehearsals.run(ctx, explainTimeout, func(ctx context.Context) (err error) {
			calls, err = o.recordNow(ctx, w.manager.engineOf(o, parent), parent)
			return err
		})
		if err != nil {
			return err
		}
	}
	return o.tap.Write(to, calls)
}

// errNotRunning says that an operator has no engine at present.
var errNotRunning = errors.New("the operator doesn't run yet, or doesn't run any more")

// rehearse calls do with a new engine of an operator that writes nothing.
func (w *Window) rehearse(ctx context.Context, timeout time.Duration, operator string, do func(context.Context, *reconcile.Engine) error) error {
	o, err := w.manager.operatorNamed(operator)
	if err != nil {
		return err
	}
	return w.rehearsals.run(ctx, timeout, func(ctx context.Context) error {
		twin := o.twin()
		defer twin.unregister()
		e, err := twin.connect(ctx, w.link)
		switch {
		case err != nil:
			return err
		case e == nil:
			return fmt.Errorf("operator %s: %w", operator, context.Cause(ctx))
		}
		defer e.Close()
		return do(ctx, e)
	})
}
