package reconcile

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roperator/roperator/internal/engine/apply"
	"github.com/roperator/roperator/internal/engine/journal"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// What a pass did is noted in the journal, for the window. Without a journal, nothing
// in this file does anything.

// note notes the pass, which has ended, in the journal.
func (p *pass) note(d schedule.Due, out schedule.Outcome, err error, took time.Duration) {
	if p.journal == nil || out.Forget {
		return
	}
	_, queue, _ := p.queue.Activity()
	e := journal.Entry{
		ID: p.syncID.told(), Start: time.Now().Add(-took), Took: took, Waited: d.Waited, Trigger: string(d.Trigger), More: d.More,
		Call: p.call, CallTook: p.callTook, Err: err, Throttled: out.Throttled, Event: d.Event, FirstWrite: p.firstWrite, Queue: queue,
	}
	e.Writes, e.MoreWrites = p.writesNoted()
	p.journal.Note(p.req.Parent.UID(), e)
}

// writesNoted returns what the journal keeps of the writes of the pass, and how many it leaves out.
// Failed writes come first, so that they are never left out for others.
func (p *pass) writesNoted() (kept []journal.WriteEntry, more int) {
	add := func(failed bool) {
		for i := range p.results {
			r := &p.results[i]
			if (r.Err != nil) == failed && (r.Wrote || r.Redundant || r.Await || r.Err != nil) {
				if len(kept) == journal.WritesOfPass-len(p.own) {
					more++
				} else {
					kept = append(kept, writeNoted(r))
				}
			}
		}
	}
	add(true)
	add(false)
	return append(kept, p.own...), more
}

// writeNoted returns what the journal keeps of an action.
func writeNoted(r *apply.Result) journal.WriteEntry {
	a := r.Action
	w := journal.WriteEntry{Object: a.Ref, Verb: string(r.Did()), Took: r.Took, Result: journal.Written}
	switch {
	case r.Err != nil:
		w.Result, w.Err = journal.Failed, r.Err
	case r.Await:
		w.Result = journal.Awaited
	case r.Redundant:
		w.Result = journal.Redundant
	}
	w.Fields, w.MoreFields = pathsOf(a.Diffs, func(d merge.Difference) string { return d.Path })
	return w
}

// pathsOf returns the paths of the first fields, and how many it leaves out.
func pathsOf[F any](fields []F, path func(F) string) (paths []string, more int) {
	for _, f := range fields[:min(len(fields), journal.FieldsOfWrite)] {
		paths = append(paths, path(f))
	}
	return paths, len(fields) - len(paths)
}

// noteStatus notes a write of the parent's status that replaces live by want.
func (p *pass) noteStatus(begin time.Time, want, live any, redundant bool, err error) {
	if p.journal == nil {
		return
	}
	w := p.ownWrite(begin, verbStatus, err)
	if redundant {
		w.Result = journal.Redundant
	}
	w.Fields, w.MoreFields = pathsOf(plan.StatusEffects(live, want), func(f plan.FieldChange) string { return f.Path })
	p.own = append(p.own, w)
}

// noteFinalizers notes a write of the parent's finalizers. answer is the parent afterwards: the
// pass's own if nothing was to be written.
func (p *pass) noteFinalizers(begin time.Time, verb string, answer *resource.Resource, err error) {
	if p.journal == nil || err == nil && answer == p.parent {
		return
	}
	w := p.ownWrite(begin, verb, err)
	w.Fields = []string{"metadata.finalizers"}
	p.own = append(p.own, w)
}

// ownWrite returns what the journal keeps of a write of the parent itself.
func (p *pass) ownWrite(begin time.Time, verb string, err error) journal.WriteEntry {
	w := journal.WriteEntry{Object: object.RefOf(p.parent), Verb: verb, Took: time.Since(begin), Result: journal.Written}
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		w.Result = journal.Awaited
	case err != nil:
		w.Result, w.Err = journal.Failed, err
	}
	return w
}
