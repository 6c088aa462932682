package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/fieldpath"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// The rollout of a new desired state over the children of a type that has config.Roll. It is
// decided anew in each pass, by what is there: by the marks of the children and their readiness.
// So a restart changes nothing, and neither does another desired state in the middle.

// maxNamed bounds how many children the text of a Queued names.
const maxNamed = 3

// A Queued is a child whose turn will come: an outdated one that is updated once others of its
// type are Current, or one of a parent that is being deleted, once others are gone.
type Queued struct {
	Action              // what is to be done with it
	For    []object.Ref // the children that aren't Current, or are made so by this plan; or that aren't gone
}

// String says what is waited for, "waits for Deployment shop/a" or "waits for the end of Deployment shop/a".
func (q *Queued) String() string {
	names := make([]string, 0, maxNamed)
	for _, ref := range q.For[:min(len(q.For), maxNamed)] {
		names = append(names, ref.String())
	}
	text := "waits for "
	if q.Verb == VerbDelete || q.Verb == VerbRetain {
		text += "the end of "
	}
	text += strings.Join(names, ", ")
	if more := len(q.For) - maxNamed; more > 0 {
		text += " and " + strconv.Itoa(more) + " more"
	}
	return text
}

// Foresee returns the write as a plan without an API server shows it, false if it changes
// nothing that a user would see.
func (q *Queued) Foresee() (ForeseenAction, bool) {
	out, ok := Foresee(&q.Action)
	out.Waits, out.Needs = q.String(), q.For
	return out, ok
}

// Rolls says whether the action may bring a child to a new desired state, of a type whose
// children are updated a few at a time.
func (a *Action) Rolls() bool {
	switch a.Verb {
	case VerbUpdate, VerbApply, VerbRecreate:
		return a.outdated() && a.Kind.Child.Roll != nil
	}
	return false
}

// CheckPartitions says what is wrong with the partitions of a parent (see config.Roll), nil if
// nothing is.
func CheckPartitions(s *catalog.Settings, parent *resource.Resource) error {
	for _, k := range s.Types.Children {
		if _, err := partition(k, parent, 0); err != nil {
			return err
		}
	}
	return nil
}

// partition returns how many children of a type the parent wants updated, all if it doesn't say.
func partition(k *catalog.Kind, parent *resource.Resource, all int) (int, error) {
	if k.Child.Roll == nil || k.Child.Roll.Partition == "" {
		return all, nil
	}
	path, err := fieldpath.Parse(k.Child.Roll.Partition)
	if err != nil {
		return 0, fmt.Errorf("%s: the partition of %s: %w", object.RefOf(parent), k.Type, err)
	}
	root, _ := parent.Field(path[0].Field) // to decode all of the parent would cost more
	for value := range path[1:].Values(root) {
		switch n, isInt := value.(int64); {
		case value == nil:
		case !isInt || n < 0:
			return 0, fmt.Errorf("%s: %s: %v: must be how many children of type %s are updated, a number from 0 on", object.RefOf(parent), k.Child.Roll.Partition, value, k.Type)
		default:
			return int(min(n, int64(all))), nil
		}
	}
	return all, nil
}

// roll adds those writes of outdated children to writes whose turn it is, and notes the others
// in Queued.
func (p *Plan) roll(s *catalog.Settings, in Input, unsettled map[object.Ref]struct{}, writes *writesByType) {
	outdated := p.outdated
	if p.outdated = nil; len(outdated) == 0 {
		return
	}
	for _, k := range s.Types.Children {
		if r := newRollout(k, in, outdated, unsettled, writes); r != nil {
			p.step(in, r, unsettled, writes)
		}
	}
}

// A rollout is what there is of the children of one type.
type rollout struct {
	max      int          // how many may be unavailable
	broken   []*Action    // writes of outdated children that aren't Current
	current  []*Action    // writes of those that are
	down     []object.Ref // all children that aren't Current
	upToDate []object.Ref // those of down that aren't outdated
}

// newRollout returns the rollout of a type, nil if there is none. outdated are the writes of all
// outdated children, others the other writes of this pass, and unsettled the children that may be
// written.
func newRollout(k *catalog.Kind, in Input, outdated []Action, unsettled map[object.Ref]struct{}, others *writesByType) *rollout {
	writes := map[object.Ref]*Action{}
	for i := range outdated {
		if outdated[i].Ref.Type == k.Type {
			writes[outdated[i].Ref] = &outdated[i]
		}
	}
	if len(writes) == 0 {
		return nil
	}
	mended := others.disruptive(k)
	var all []*Desired
	for _, d := range in.Desired {
		if d.ref.Type == k.Type {
			all = append(all, d)
		}
	}
	updated, err := partition(k, in.Parent, len(all))
	if err != nil {
		updated = 0 // CheckPartitions tells
	}
	r := &rollout{max: maxUnavailable(k, len(all))}
	for i, d := range all {
		_, written := mended[d.ref]
		r.add(d.ref, writes[d.ref], written || in.isDown(d, unsettled), i >= len(all)-updated)
	}
	return r
}

// disruptive returns the children of a type whose writes may make them unavailable.
func (w *writesByType) disruptive(k *catalog.Kind) map[object.Ref]struct{} {
	out := map[object.Ref]struct{}{}
	if w.byOrder == nil {
		return out
	}
	for i := range w.byOrder[k.Order] {
		a := &w.byOrder[k.Order][i]
		switch a.Verb {
		case VerbUpdate, VerbApply, VerbRecreate:
			out[a.Ref] = struct{}{}
		}
	}
	return out
}

// add adds a child. a is the write that it needs, nil if it isn't outdated. down says that it
// isn't Current, and updated that the parent wants it updated.
func (r *rollout) add(child object.Ref, a *Action, down, updated bool) {
	if down {
		r.down = append(r.down, child)
	}
	switch {
	case a == nil && down:
		r.upToDate = append(r.upToDate, child)
	case a == nil || !updated:
	case down:
		r.broken = append(r.broken, a)
	default:
		r.current = append(r.current, a)
	}
}

// maxUnavailable returns how many of n children of a type may be unavailable.
func maxUnavailable(k *catalog.Kind, n int) int {
	text := k.Child.Roll.MaxUnavailable
	if text == "" {
		return 1
	}
	limit := intstr.Parse(text)
	scaled, err := intstr.GetScaledValueFromIntOrPercent(&limit, n, false)
	if err != nil {
		return 1 // Validate has refused it
	}
	return max(1, scaled)
}

// isDown says whether a desired child isn't Current. One that waits to be created isn't meant to
// be there yet. But if it has nothing to wait for it may have been deleted to be created anew, before
// this process began.
func (in *Input) isDown(d *Desired, unsettled map[object.Ref]struct{}) bool {
	if i, ok := find(in.Children, d.ref, 0); ok {
		return in.readinessOf(in.Children[i]).State != readiness.Current
	}
	if d.gate == nil || in.Memory.recreates(d) {
		return true
	}
	return !d.gate.closed && !slices.ContainsFunc(d.gate.needs, func(n need) bool { return !in.isSettled(n, unsettled) })
}

// step makes the next step of a rollout. The writes of children that aren't Current make nothing
// unavailable. Still only so many of them are made at once, since the new desired state may
// be one that breaks them.
func (p *Plan) step(in Input, r *rollout, unsettled map[object.Ref]struct{}, writes *writesByType) {
	p.take(in, unsettled, writes, r.broken, r.max-len(r.upToDate), r.upToDate)
	p.take(in, unsettled, writes, r.current, r.max-len(r.down), r.down)
}

// take adds the first n of actions to writes, and notes the others in Queued: they wait for
// those, and for the children in unavailable.
func (p *Plan) take(in Input, unsettled map[object.Ref]struct{}, writes *writesByType, actions []*Action, n int, unavailable []object.Ref) {
	n = max(0, min(n, len(actions)))
	awaited := slices.Clip(unavailable)
	for _, a := range actions[:n] {
		awaited = append(awaited, a.Ref)
		if unsettled != nil {
			unsettled[a.Ref] = struct{}{}
		}
		if due, ok := p.due(in, *a); ok {
			writes.add(due)
		}
	}
	for _, a := range actions[n:] {
		p.Queued = append(p.Queued, Queued{Action: *a, For: awaited})
	}
}
