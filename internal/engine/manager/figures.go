package manager

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/roperator/roperator/internal/engine/explain"
	"github.com/roperator/roperator/internal/engine/lead"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/reconcile"
	"github.com/roperator/roperator/internal/engine/view"
	"github.com/roperator/roperator/internal/engine/watch"
	"github.com/roperator/roperator/internal/process"
	"github.com/roperator/roperator/resource"
)

// overview returns the present state of an operator, false while it doesn't run. It joins the
// shards that this process holds.
func (m *Manager) overview(o *operator) (view.Overview, bool) {
	var out view.Overview
	runs := false
	for _, part := range m.partsOf(o) {
		e := part.begun()
		if e == nil {
			continue // it has ended since
		}
		figures := m.figures(part, e)
		if runs {
			figures = joined(out.Figures, figures)
		}
		out, runs = view.Overview{Parents: append(out.Parents, e.Survey()...), Figures: figures}, true
	}
	if m.opts.Shards > 1 { // each shard's are in order
		slices.SortFunc(out.Parents, func(a, b view.Parent) int {
			return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
		})
	}
	return out, runs
}

// joined returns the figures of two shards of an operator as one. They share the workers and
// the journal.
func joined(a, b view.Figures) view.Figures {
	if b.Started.Before(a.Started) {
		a.Started = b.Started
	}
	a.Synced = a.Synced && b.Synced
	a.Parents, a.Queue, a.Running = a.Parents+b.Parents, a.Queue+b.Queue, a.Running+b.Running
	a.LongestMillis = max(a.LongestMillis, b.LongestMillis)
	for _, w := range b.Watches {
		i := slices.IndexFunc(a.Watches, func(has view.Watch) bool { return has.Type == w.Type && has.Role == w.Role })
		if i < 0 {
			a.Watches = append(a.Watches, w)
			continue
		}
		at := &a.Watches[i]
		at.Objects, at.Bytes, at.Problem = at.Objects+w.Objects, at.Bytes+w.Bytes, cmp.Or(at.Problem, w.Problem)
		if w.Heard.Before(at.Heard) {
			at.Heard = w.Heard
		}
	}
	return a
}

// figures returns the counts of an operator and the state of its process.
func (m *Manager) figures(o *operator, e *reconcile.Engine) view.Figures {
	leading := m.leads()
	now, values := time.Now(), e.Gauges(leading)
	return view.Figures{
		Time: now.UTC(), Operator: o.cfg.Name, Parent: o.cfg.Parent.String(), Namespaced: e.Types.Parent.Namespaced,
		Host: process.Hostname(), Started: o.begunAt().UTC(), Leading: leading, DryRun: o.cfg.DryRun, Lease: m.leaseSeen(), Synced: isSynced(e),
		Parents: values.Parents, Queue: values.Due, Running: values.Running, Workers: values.Workers,
		LongestMillis: float64(values.Longest.Milliseconds()), Watches: watchesOf(o, e, values), Plots: e.Plots(now),
	}
}

// leaseSeen returns the lock of the election, nil if there is none.
func (m *Manager) leaseSeen() *view.Lease {
	m.mu.Lock()
	lease, members := m.mu.lease, m.mu.members
	m.mu.Unlock()
	if members != nil {
		return sharedLease(members)
	}
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

// sharedLease returns the Lease that those hold together who share the parents.
func sharedLease(members *lead.Members) *view.Lease {
	holder, renewed := members.Seen()
	out := &view.Lease{
		Namespace: members.Key().Namespace, Name: members.Key().Name, Identity: members.Identity(), Held: len(members.Held()) > 0, Holder: holder,
	}
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
