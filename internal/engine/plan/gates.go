package plan

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/encode"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/guard"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// A gate is what the creation of a child waits for: see handler.After and handler.When.
type gate struct {
	given  []any  // the needs as the handler gave them
	needs  []need // the same, of FindNeeds
	closed bool   // the handler's own condition isn't met
	visit  visit  // of cycle
}

// A need is an object that has to be there and be ready.
type need struct {
	ref   object.Ref
	child *Desired // nil: it is a related object
}

// newGate returns the gate of a child, nil if it has none.
func newGate(w encode.Wishes) *gate {
	if len(w.Needs) == 0 && !w.Closed {
		return nil
	}
	return &gate{given: w.Needs, closed: w.Closed}
}

// A Gated is a desired child that isn't created yet.
type Gated struct {
	Want  *Desired
	Needs []object.Ref // those that aren't there or aren't ready; if there are none, it is Closed
	Taken bool         // the child was sought, and something else has its name
}

// Closed says whether the handler's own condition isn't met, whatever becomes of the needs.
func (g *Gated) Closed() bool { return g.Want.gate.closed }

// Ref returns which child it is.
func (g *Gated) Ref() object.Ref { return g.Want.ref }

// String says what is waited for, "waits for Deployment shop/db".
func (g *Gated) String() string {
	names := make([]string, 0, len(g.Needs)+1)
	for _, n := range g.Needs {
		names = append(names, n.String())
	}
	if g.Closed() {
		names = append(names, "a condition of the handler")
	}
	return "waits for " + strings.Join(names, ", ")
}

// Needed is what a plan has to know of related objects.
type Needed struct {
	Related handler.Objects           // those that are there
	Refers  func(ref object.Ref) bool // whether the parent refers to an object, which needn't exist
}

// FindNeeds finds out what the children need that handler.After has returned. desired and
// returned are the same children, of Desire and of the handler. The error is an
// InvalidResponseError. It joins all mistakes, each of which names the child.
func FindNeeds(s *catalog.Settings, parent *resource.Resource, desired []*Desired, returned []any, in Needed) error {
	var f *needFinder
	var errs []error
	for i, d := range desired {
		if d.gate == nil {
			continue
		}
		if f == nil {
			f = newNeedFinder(s, parent, desired, returned, in)
		}
		d.gate.needs = make([]need, 0, len(d.gate.given))
		for n, given := range d.gate.given {
			found, err := f.find(given)
			if err != nil {
				errs = append(errs, fmt.Errorf("child %d: %s %s: handler.After: need %d: %w", i, d.ref.Type, object.KeyText(d.ref.Key), n, err))
				continue
			}
			d.gate.needs = append(d.gate.needs, found)
		}
	}
	if f != nil && len(errs) == 0 {
		if around := cycle(desired); around != nil {
			errs = append(errs, fmt.Errorf("handler.After: children need each other: %s", strings.Join(around, " needs ")))
		}
	}
	if len(errs) > 0 {
		return &InvalidResponseError{apierror.Join(errs)}
	}
	return nil
}

// A needFinder finds out which objects the needs of one response are.
type needFinder struct {
	settings *catalog.Settings
	parent   *resource.Resource
	in       Needed
	desired  []*Desired
	byRef    map[object.Ref]*Desired // nil: no need was looked for by its reference
	byValue  map[uintptr]*Desired    // children that are pointers or maps: most needs are the very same
}

func newNeedFinder(s *catalog.Settings, parent *resource.Resource, desired []*Desired, returned []any, in Needed) *needFinder {
	f := &needFinder{settings: s, parent: parent, in: in, desired: desired, byValue: make(map[uintptr]*Desired, len(desired))}
	for i, d := range desired {
		if at, ok := addressOf(returned[i]); ok {
			f.byValue[at] = d
		}
	}
	return f
}

// addressOf returns where the child inside obj is in memory, false if it is no pointer and
// no map.
func addressOf(obj any) (uintptr, bool) {
	child, _ := encode.Inner(obj)
	v := reflect.ValueOf(child)
	if k := v.Kind(); k != reflect.Pointer && k != reflect.Map || v.IsNil() {
		return 0, false
	}
	return v.Pointer(), true
}

// find returns which object a need is.
func (f *needFinder) find(given any) (need, error) {
	if at, ok := addressOf(given); ok {
		if d := f.byValue[at]; d != nil {
			return need{d.ref, d}, nil
		}
	}
	ref, err := f.refOf(given)
	if err != nil {
		return need{}, err
	}
	if d := f.returned(ref); d != nil {
		return need{ref, d}, nil
	}
	if f.in.Refers == nil || !f.in.Refers(ref) {
		return need{}, fmt.Errorf("%s is neither a child of this response nor what the parent refers to (config.Operator.Related)", ref)
	}
	return need{ref, nil}, nil
}

// returned returns the child that a reference leads to, nil if there is none.
func (f *needFinder) returned(ref object.Ref) *Desired {
	if f.byRef == nil {
		f.byRef = make(map[object.Ref]*Desired, len(f.desired))
		for _, d := range f.desired {
			f.byRef[d.ref] = d
		}
	}
	return f.byRef[ref]
}

// refOf returns the reference to a need. A panic of the need's type becomes an error.
func (f *needFinder) refOf(given any) (ref object.Ref, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%T: %w", given, guard.Recovered(v))
		}
	}()
	switch of := given.(type) {
	case handler.Ref:
		if of.Name == "" {
			return ref, fmt.Errorf("the handler.Ref of type %s has no Name; a need is one object", of.Type)
		}
		ref = object.Ref{Type: of.Type, Key: types.NamespacedName{Namespace: of.Namespace, Name: of.Name}}
	default:
		if ref.Type, ref.Key, err = encode.Identity(given); err != nil {
			return ref, err
		}
	}
	switch {
	case ref.Type.APIVersion == "" || ref.Type.Kind == "":
		return ref, errors.New("apiVersion or kind is missing")
	case ref.Key.Name == "":
		return ref, errors.New("metadata.name: missing")
	}
	if k := f.kindOf(ref.Type); k != nil && !k.Namespaced && !k.Unserved {
		ref.Key.Namespace = ""
	} else if ref.Key.Namespace == "" {
		ref.Key.Namespace = f.parent.Namespace()
	}
	return ref, nil
}

// kindOf returns the type of a child or of a related object, nil if it is neither.
func (f *needFinder) kindOf(t resource.Type) *catalog.Kind {
	if k := f.settings.Types.Of(t); k != nil {
		return k
	}
	return f.settings.Types.RelatedTo(t)
}

// A visit is how far cycle has got with a child.
type visit uint8

const (
	unvisited visit = iota
	visiting
	visited
)

// cycle returns children that need each other, from one to the same one again; nil if there
// are none.
func cycle(desired []*Desired) (around []string) {
	var trail []*Desired
	var leads func(d *Desired) bool // to a cycle
	leads = func(d *Desired) bool {
		if d.gate == nil || d.gate.visit != unvisited {
			return d.gate != nil && d.gate.visit == visiting
		}
		d.gate.visit, trail = visiting, append(trail, d)
		for _, n := range d.gate.needs {
			if n.child != nil && leads(n.child) {
				if around == nil {
					around = namesFrom(trail, n.child)
				}
				return true
			}
		}
		d.gate.visit, trail = visited, trail[:len(trail)-1]
		return false
	}
	if slices.ContainsFunc(desired, leads) {
		return around
	}
	return nil
}

// namesFrom names the children of a trail from one on, and that one once more.
func namesFrom(trail []*Desired, from *Desired) []string {
	var names []string
	for _, d := range trail {
		if d == from || names != nil {
			names = append(names, d.ref.String())
		}
	}
	return append(names, from.ref.String())
}

// unsettled returns the children to which something is left to write, as far as creations may
// wait for them; nil if none does. All actions but those of roll and admit are in writes by then. An
// outdated child that waits for its turn in a rollout is what it is until then, so it isn't among them:
// otherwise it and a missing child that needs it would wait for each other.
func (p *Plan) unsettled(writes *writesByType) map[object.Ref]struct{} {
	if len(p.behindGates) == 0 {
		return nil
	}
	open := map[object.Ref]struct{}{}
	for _, actions := range writes.byOrder {
		for i := range actions {
			if a := &actions[i]; a.Verb != VerbMark { // which finds the state to be as desired
				open[a.Ref] = struct{}{}
			}
		}
	}
	for _, r := range p.Refused {
		open[r.Ref] = struct{}{}
	}
	for i := range p.Pending {
		open[p.Pending[i].Ref] = struct{}{}
	}
	return open
}

// admit adds those creations behind gates to writes whose gates are open, and notes the others
// in Gated. Only a try to create a child would find out that it is there and has lost its
// labels. So it is sought, unless it is known not to be there.
func (p *Plan) admit(in Input, unsettled map[object.Ref]struct{}, writes *writesByType) {
	creations := p.behindGates
	p.behindGates = nil
	for _, a := range creations {
		g := Gated{Want: a.Want}
		for _, n := range a.Want.gate.needs {
			if !in.isSettled(n, unsettled) {
				g.Needs = append(g.Needs, n.ref)
			}
		}
		if a.Want.gate.closed || len(g.Needs) > 0 {
			p.Gated = append(p.Gated, g)
			if in.Memory.mayBeThere(a.Ref) {
				a.Sought = true
				p.Sought = append(p.Sought, a)
			}
		} else if a, ok := p.due(in, a); ok {
			writes.add(a)
		}
	}
}

// isSettled says whether a need is there and is ready, and nothing is left to write to it.
func (in *Input) isSettled(n need, unsettled map[object.Ref]struct{}) bool {
	_, open := unsettled[n.ref]
	return !open && in.isMet(n)
}

// isMet says whether a need is there and is ready.
func (in *Input) isMet(n need) bool {
	if n.child == nil {
		res, ok := in.Needed.Related.OfType(n.ref.Type).Get(n.ref.Key.Namespace, n.ref.Key.Name)
		return ok && in.isReady(res)
	}
	i, ok := find(in.Children, n.ref, 0)
	return ok && in.isReady(in.Children[i])
}

// isReady says whether others may rely on an object. It asks for more than that the object is
// Current: a Job that is suspended is that, too.
func (in *Input) isReady(res *resource.Resource) bool {
	return in.readinessOf(res).State == readiness.Current && (!isOf(res, k8s.Job) || hasCondition(res, "Complete"))
}

// ReadinessOf returns the readiness of a child. It is that of kstatus, but that a Job isn't
// Current while it runs, nor a Pod when it has failed.
func ReadinessOf(res *resource.Resource) readiness.Readiness {
	is := readiness.Of(res)
	switch {
	case is.State != readiness.Current:
	case isOf(res, k8s.Job) && !hasCondition(res, "Complete") && !hasCondition(res, "Suspended"):
		is.State = readiness.InProgress
	case isOf(res, k8s.Pod):
		if phase, _ := res.Field("status", "phase"); phase == "Failed" {
			return readiness.Readiness{State: readiness.Failed, Message: "the Pod has failed"}
		}
	}
	return is
}

// isOf says whether an object is of a kind, in whatever version.
func isOf(res *resource.Resource, t resource.Type) bool {
	return res.Type().GroupVersionKind().GroupKind() == t.GroupVersionKind().GroupKind()
}

// hasCondition says whether a condition of an object is True.
func hasCondition(res *resource.Resource, name string) bool {
	status, _ := res.Field("status")
	for _, c := range conditionsOf(status) {
		if c.name == name && c.status == "True" {
			return true
		}
	}
	return false
}
