package explain

import (
	"cmp"
	"slices"
	"strings"

	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// A family collects the children of an explanation.
type family struct {
	Input
	byRef map[object.Ref]*Child
	live  map[object.Ref]*resource.Resource
}

// childrenOf returns what there is to say of each child.
func childrenOf(in Input) []Child {
	f := &family{Input: in, byRef: map[object.Ref]*Child{}, live: map[object.Ref]*resource.Resource{}}
	for _, live := range in.Children {
		f.add(live)
	}
	switch {
	case in.Teardown != nil:
		f.tornDown()
	case in.Planned != nil:
		f.planned()
	default:
		f.untouched()
	}
	for _, ref := range in.Former {
		c := f.of(ref)
		c.State, c.Verb, c.Reason = Undesired, string(plan.VerbDelete), "an earlier build of the operator made it; its type is one of FormerChildren"
	}
	return f.sorted()
}

// add adds a child that exists.
func (f *family) add(live *resource.Resource) {
	ref := object.RefOf(live)
	c := f.of(ref)
	f.live[ref] = live
	is := plan.ReadinessOf(live)
	c.State, c.Readiness, c.ReadinessMessage = NotCompared, is.State, is.Message
	if live.IsDeleting() {
		c.State, c.Finalizers = Deleting, live.Finalizers()
	}
}

// of returns the entry of a child, a new one if there is none.
func (f *family) of(ref object.Ref) *Child {
	if c := f.byRef[ref]; c != nil {
		return c
	}
	o := objectOf(ref)
	c := &Child{Object: o, State: Missing, Error: f.Process.errorOf(o)}
	f.byRef[ref] = c
	return c
}

// sorted returns the children by the order of their types, their namespaces and their names.
func (f *family) sorted() []Child {
	refs := make([]object.Ref, 0, len(f.byRef))
	for ref := range f.byRef {
		refs = append(refs, ref)
	}
	order := func(ref object.Ref) int {
		if k := f.Settings.Types.Of(ref.Type); k != nil {
			return k.Order
		}
		return len(f.Settings.Types.Children) // of an earlier build
	}
	slices.SortFunc(refs, func(a, b object.Ref) int {
		return cmp.Or(cmp.Compare(order(a), order(b)), strings.Compare(a.Type.String(), b.Type.String()),
			strings.Compare(a.Key.Namespace, b.Key.Namespace), strings.Compare(a.Key.Name, b.Key.Name))
	})
	out := make([]Child, 0, len(refs))
	for _, ref := range refs {
		out = append(out, *f.byRef[ref])
	}
	return out
}

// untouched says of all children that no pass looks at them, and why.
func (f *family) untouched() {
	why := ""
	switch {
	case f.Unselected != "":
		why = "the operator doesn't look at the parent"
	case f.Parent.IsDeleting() && plan.Orphans(f.Parent):
		why = "the parent is deleted so that its children stay"
	case f.Parent.IsDeleting() && f.Settings.Finalizes:
		why = "what becomes of it says the handler's Finalize, which isn't called for an explanation"
	case f.Parent.IsDeleting():
		why = "the garbage collector deletes it once the parent is gone"
	case f.Err != nil:
		why = "the handler has failed before it was looked at"
	}
	for _, c := range f.byRef {
		if c.State == NotCompared {
			c.State, c.Reason = LeftAlone, why
		}
	}
}

// tornDown says of the children of a parent that is being deleted what becomes of them.
func (f *family) tornDown() {
	t := f.Teardown
	for i := range t.Deletes {
		f.note(&t.Deletes[i])
	}
	for i := range t.Queued {
		if q := &t.Queued[i]; q.Verb == plan.VerbDelete {
			c := f.of(q.Ref)
			c.State, c.Reason, c.WaitsFor = WaitsFor, "it is deleted once these are gone", objectsOf(q.For)
		}
	}
	for _, r := range t.Refused {
		f.refused(r)
	}
	for i := range t.Writes {
		f.note(&t.Writes[i])
	}
	for _, w := range t.Held {
		f.of(w.Ref).Reason = "held by the finalizers " + strings.Join(w.Finalizers, ", ")
	}
	for ref, c := range f.byRef {
		if c.State != NotCompared {
			continue
		}
		switch k := f.Settings.Types.Of(ref.Type); {
		case k != nil && k.Child.Retain:
			c.State, c.Reason = LeftAlone, "it survives its parent (Retain)"
		default:
			c.State, c.Reason = LeftAlone, "the garbage collector deletes it once the parent is gone"
		}
	}
}

// planned says of all children what a pass would do.
func (f *family) planned() {
	p := f.Planned
	if f.Kept {
		for _, c := range f.byRef {
			if c.State == NotCompared {
				c.State, c.Reason = LeftAlone, "the handler leaves all children as they are (KeepChildren)"
			}
		}
		return
	}
	for _, d := range f.Desired {
		f.desired(d)
	}
	for _, actions := range [][]plan.Action{p.Settled, p.Writes, p.Deletes} {
		for i := range actions {
			f.note(&actions[i])
		}
	}
	for _, r := range p.Refused {
		f.refused(r)
	}
	for _, w := range p.Waits {
		f.of(w.Ref).Reason = w.String()
	}
	for i := range p.Gated {
		f.gated(&p.Gated[i])
	}
	for i := range p.Queued {
		q := &p.Queued[i]
		f.note(&q.Action)
		c := f.of(q.Ref)
		c.State, c.Reason, c.WaitsFor = WaitsFor, "the rollout updates it once these are Current", objectsOf(q.For)
	}
	for i := range p.Pending {
		c := f.of(p.Pending[i].Ref)
		c.State, c.Reason = WaitsFor, "it isn't updated before the schema of "+p.Pending[i].Ref.Type.String()+" is read"
		c.Fields = f.fields(&p.Pending[i])
	}
	for _, ref := range p.Unserved {
		c := f.of(ref)
		c.State, c.Reason = NotServed, "the API server doesn't serve "+ref.Type.String()
	}
}

// desired says of a child what holds if the plan doesn't say anything else of it.
func (f *family) desired(d *plan.Desired) {
	c := f.of(d.Ref())
	outdated, differs := f.Outdated[d.Ref()]
	switch live := f.live[d.Ref()]; {
	case d.Kept():
		c.State, c.Reason = LeftAlone, "the handler wants it left exactly as it is (Keep)"
	case live == nil:
		c.State = Missing
	case live.IsDeleting():
		c.Reason = "it is created anew once it is gone"
	case differs:
		c.State, c.Reason = WaitsFor, "its strategy is OnDelete: it is created anew once something has deleted it"
		c.Fields = f.fields(&outdated)
	default:
		c.State = AsDesired
	}
}

// note says of a child what an action does to it.
func (f *family) note(a *plan.Action) {
	c := f.of(a.Ref)
	c.Verb = string(a.Verb)
	switch a.Verb {
	case plan.VerbNone:
		c.State = AsDesired
	case plan.VerbMark:
		c.State, c.Verb = AsDesired, "" // only the operator's own mark changes
	case plan.VerbCreate:
		f.created(c, a)
	case plan.VerbAdopt:
		c.State, c.Reason = Differs, "it is nobody's, and becomes a child"
	case plan.VerbUpdate, plan.VerbApply:
		c.State, c.Verb, c.Fields = Differs, string(plan.VerbUpdate), f.fields(a)
		if len(c.Fields) == 0 {
			c.Reason = "what the API server has made of an earlier desired state may follow from it"
		}
	case plan.VerbMend:
		c.State, c.Verb, c.Fields = Differs, string(plan.VerbUpdate), f.fields(a)
		c.Reason = "its owner reference to the parent isn't as it should be"
	case plan.VerbRecreate:
		c.State, c.Fields = Differs, f.fields(a)
		c.Reason = "its strategy is Recreate: it is deleted and created anew"
	case plan.VerbRelease:
		c.State, c.Verb, c.Fields = Deleting, string(plan.VerbUpdate), f.fields(a)
		c.Reason = "finalizers that are no longer desired are taken off"
	case plan.VerbRetain:
		c.State, c.Verb = LeftAlone, string(plan.VerbUpdate)
		c.Reason = "it survives its parent (Retain): the operator's labels and the owner reference are taken off"
	case plan.VerbDelete:
		c.State, c.Reason = Undesired, "the handler doesn't return it"
		if f.Parent.IsDeleting() {
			c.Reason = "the parent is being deleted"
		}
	}
}

// created says of a child that is to be created what is in the way, if anything is.
func (f *family) created(c *Child, a *plan.Action) {
	c.State = Missing
	if _, ends := f.Ending[a.Ref.Key.Namespace]; ends {
		c.Verb, c.Reason = "", "its namespace is being deleted: nothing can be created there"
		return
	}
	h, held := f.Holders[a.Ref]
	if !held {
		return
	}
	c.Reason = h.Why
	switch h.What {
	case HolderForeign:
		c.State, c.Verb = Foreign, ""
	case HolderAdopted:
		c.State, c.Verb = Differs, string(plan.VerbAdopt)
	case HolderAwaited:
		c.State = WaitsFor
	}
}

// refused says of a child that its write is left out.
func (f *family) refused(r plan.Refusal) {
	if r.Action != nil {
		f.note(r.Action)
	}
	c := f.of(r.Ref)
	if r.Action == nil && f.live[r.Ref] != nil {
		c.State = NotCompared
	}
	c.Verb, c.Error = string(r.Verb), r.ChildError().Message
}

// gated says of a child what its creation waits for.
func (f *family) gated(g *plan.Gated) {
	c := f.of(g.Ref())
	c.State, c.Verb, c.WaitsFor = WaitsFor, string(plan.VerbCreate), objectsOf(g.Needs)
	c.Reason = "it isn't created before these are there and ready"
	switch {
	case len(g.Needs) == 0:
		c.Reason = "the handler's own condition for it isn't met (When)"
	case g.Closed():
		c.Reason = "the handler's own condition for it isn't met (When), and " + c.Reason
	}
}

// fields returns the fields for which an action is to be done.
func (f *family) fields(a *plan.Action) []Field {
	return fieldsOf(plan.WrittenFields(a, f.Entries[a.Ref], f.Settings.Config.Name))
}

func fieldsOf(written []plan.WrittenField) []Field {
	out := make([]Field, 0, len(written))
	for _, w := range written {
		out = append(out, Field{Path: w.Path, Live: w.Live, Desired: w.Desired, By: writerOf(w.By), Perhaps: writerOf(w.Perhaps)})
	}
	return out
}

func writerOf(w *plan.Writer) *Writer {
	if w == nil {
		return nil
	}
	return &Writer{Manager: w.Manager, Operation: w.Operation, Subresource: w.Subresource, Time: timeOf(w.Time), Self: w.Self}
}

func objectsOf(refs []object.Ref) []Object {
	out := make([]Object, 0, len(refs))
	for _, ref := range refs {
		out = append(out, objectOf(ref))
	}
	return out
}
