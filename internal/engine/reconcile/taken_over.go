package reconcile

import (
	"slices"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/apply"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// A takenOver has the objects that one parent would make its children, as apply.Found says. The
// handler is first shown such an object when it is a child, and may then want something else: a
// handler that draws a password keeps the one that is there. And a rollout updates only some of
// them at a time. So a plan calls the handler once more with these objects. The zero value has none.
type takenOver struct {
	objects []*resource.Resource    // as children
	refs    map[object.Ref]struct{} // of the objects
	changes []plan.Change           // what would make each of them one
	at      []int                   // where each was among the changes of its plan
	more    bool                    // the last plan has found new ones
	deletes []plan.Change           // what a plan before the last would delete: a pass does so beside taking them over
}

// show adds the objects to the children of a snapshot, in the place of what they were.
func (t *takenOver) show(req *handler.SyncRequest) {
	if len(t.objects) == 0 {
		return
	}
	children := slices.Clone(t.objects)
	for child := range req.Children.All() {
		if !t.has(object.RefOf(child)) {
			children = append(children, child)
		}
	}
	req.Children = handler.NewChildren(children...)
}

// has says whether an object is one of these.
func (t *takenOver) has(ref object.Ref) bool {
	if t == nil {
		return false
	}
	_, ok := t.refs[ref]
	return ok
}

// find notes the objects that a pass has found.
func (t *takenOver) find(p *pass) {
	t.more = false
	for i := range p.results {
		r := &p.results[i]
		if r.Found == nil || t.has(r.Action.Ref) {
			continue
		}
		change := p.changeOfChild(&apply.Result{Action: r.Action, Would: plan.VerbUpdate, Fields: r.Found.Fields, Untold: r.Found.Untold})
		if t.refs == nil {
			t.refs = map[object.Ref]struct{}{}
		}
		t.more, t.refs[r.Action.Ref] = true, struct{}{}
		t.objects, t.changes, t.at = append(t.objects, r.Found.Live), append(t.changes, change), append(t.at, indexOfChange(p.foreseen, change))
	}
	if !t.more {
		return
	}
	for _, c := range p.foreseen {
		if c.Verb == string(plan.VerbDelete) && c.Waits == "" && !t.has(object.Ref{Type: c.Type, Key: c.Object}) && indexOfChange(t.deletes, c) < 0 {
			t.deletes = append(t.deletes, c)
		}
	}
}

// indexOfChange returns the index of the change of the object that a change is about, -1
// if there is none.
func indexOfChange(changes []plan.Change, about plan.Change) int {
	return slices.IndexFunc(changes, func(c plan.Change) bool { return c.Type == about.Type && c.Object == about.Object })
}

// in returns the changes of a plan for which the objects were children, with what makes
// them children. Of one that is deleted then, that doesn't matter. What waits comes after it.
func (t *takenOver) in(changes []plan.Change) []plan.Change {
	for n, taken := range t.changes {
		switch i := indexOfChange(changes, taken); {
		case i < 0:
			changes = slices.Insert(changes, max(0, min(t.at[n], len(changes))), taken)
		case changes[i].Waits != "":
			changes = slices.Insert(changes, i, taken)
		case changes[i].Verb != string(plan.VerbDelete):
			changes[i].Fields = plan.SortedFields(slices.Concat(taken.Fields, changes[i].Fields))
			changes[i].Unsure = changes[i].Unsure || taken.Unsure
		}
	}
	for _, deleted := range t.deletes {
		switch i := indexOfChange(changes, deleted); {
		case i < 0:
			changes = append(changes, deleted)
		case changes[i].Verb != string(plan.VerbDelete):
			changes[i].Verb = string(plan.VerbRecreate)
		}
	}
	return changes
}
