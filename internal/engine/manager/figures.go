package manager

import (
	"slices"
	"time"

	"github.com/roperator/roperator/internal/engine/explain"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/reconcile"
	"github.com/roperator/roperator/internal/engine/view"
	"github.com/roperator/roperator/internal/engine/watch"
	"github.com/roperator/roperator/internal/process"
	"github.com/roperator/roperator/resource"
)

// figures returns the counts of an operator and the state of its process.
func (m *Manager) figures(o *operator, e *reconcile.Engine) view.Figures {
	leading := m.leads()
	now, values := time.Now(), e.Gauges(leading)
	out := view.Figures{
		Time: now.UTC(), Operator: o.cfg.Name, Parent: o.cfg.Parent.String(), Namespaced: e.Types.Parent.Namespaced,
		Host: process.Hostname(), Started: o.begunAt().UTC(), Leading: leading, DryRun: o.cfg.DryRun, Lease: m.leaseSeen(), Synced: isSynced(e),
		Parents: values.Parents, Queue: values.Due, Running: values.Running, Workers: values.Workers,
		LongestMillis: float64(values.Longest.Milliseconds()), Watches: watchesOf(o, e, values), Plots: e.Plots(now),
	}
	return out
}

// leaseSeen returns the lock of the election, nil if there is none.
func (m *Manager) leaseSeen() *view.Lease {
	m.mu.Lock()
	lease := m.mu.lease
	m.mu.Unlock()
	if lease == nil {
		return nil
	}
	holder, renewed := lease.Seen()
	out := &view.Lease{Namespace: lease.Key().Namespace, Name: lease.Key().Name, Identity: lease.Identity(), Held: lease.Held(), Holder: holder}
	if !renewed.IsZero() {
		out.Renewed = renewed.UTC().Truncate(time.Second)
	}
	return out
}

// isSynced says whether every type that is served is mirrored.
func isSynced(e *reconcile.Engine) bool {
	return !slices.ContainsFunc(e.Running(), func(w *watch.Watcher) bool { return w.Ready() != nil })
}

// watchesOf returns how the watches of an operator are doing, by type.
func watchesOf(o *operator, e *reconcile.Engine, values observe.Gauges) []view.Watch {
	problems := map[resource.Type]string{}
	for _, w := range e.Running() {
		if err := w.Ready(); err != nil {
			problems[w.Kind.Type] = err.Error()
		}
	}
	for _, missing := range e.Missing() {
		if missing.Optional {
			problems[missing.Type] = "not served; it is optional"
		} else {
			problems[missing.Type] = missing.Err.Error()
		}
	}
	out := []view.Watch{}
	for _, u := range values.Store {
		role := "child"
		if u.Type == o.cfg.Parent {
			role = "parent"
		}
		w := view.Watch{Type: u.Type.String(), Role: role, Objects: u.Objects, Bytes: u.Bytes, Problem: problems[u.Type]}
		if at := values.Heard[u.Type]; !at.IsZero() {
			w.Heard = at.UTC().Truncate(time.Second)
		}
		out = append(out, w)
	}
	for _, u := range values.Related {
		w := view.Watch{Type: u.Type.String(), Role: "related", Objects: u.Objects, Problem: problems[u.Type]}
		if err := e.RelatedBroken(u.Type); err != nil {
			w.Problem = err.Error()
		}
		out = append(out, w)
	}
	return out
}

// sign notes which process says what it knows.
func (m *Manager) sign(known *explain.Process) {
	known.From, known.Leading = process.Hostname(), m.leads()
}
