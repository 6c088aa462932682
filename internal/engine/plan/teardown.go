package plan

import (
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// The children of a parent that is being deleted. By default they are left to the garbage
// collector. See config.Operator.Teardown, config.Child.Retain and
// handler.FinalizeResponse.Children for what else may become of them.

// A Teardown is what is left to do with the children before their parent may go. Of its Plan,
// Deletes and Writes are of the types whose turn it is, and Queued is what comes later.
type Teardown struct {
	Plan
	Awaited []object.Ref // children that are being deleted, and that the next types wait for
	Held    []Wait       // children that their finalizers hold; only the parent waits for these
}

// Done says whether nothing is left to do.
func (t *Teardown) Done() bool {
	return len(t.Deletes)+len(t.Writes)+len(t.Refused)+len(t.Awaited)+len(t.Held) == 0
}

// Retains says whether all is done but for the children to be retained, which go last.
func (t *Teardown) Retains() bool {
	return len(t.Deletes)+len(t.Awaited)+len(t.Held) == 0 && !slices.ContainsFunc(t.Refused, func(r Refusal) bool { return r.Verb != VerbRetain })
}

// TearDown decides what has to be done next with the children of a parent that is being
// deleted. It is a pure function of what is there, so a restart changes nothing. Of in it needs
// the parent, its children, the memory and the time.
func TearDown(s *catalog.Settings, in Input) Teardown {
	var t Teardown
	if Orphans(in.Parent) {
		return t // somebody wants the children kept
	}
	var first []object.Ref // the children whose end the next type waits for
	if s.Config.Teardown == config.TeardownOrdered {
		for _, k := range slices.Backward(s.Types.Children) {
			if !k.Child.Retain && !k.Unserved {
				first = t.end(in, k, first)
			}
		}
	}
	for _, w := range t.Held {
		first = append(first, w.Ref) // only what comes last waits for these
	}
	t.retain(s, in, first)
	return t
}

// Orphans says whether a parent is deleted so that its children stay.
func Orphans(parent *resource.Resource) bool {
	return slices.Contains(parent.Finalizers(), metav1.FinalizerOrphanDependents)
}

// end deletes the children of a type, once others are gone: first. It returns those whose end the
// types before it wait for. These are all of its own but for those that finalizers hold, and
// first if there are none.
func (t *Teardown) end(in Input, k *catalog.Kind, first []object.Ref) (awaited []object.Ref) {
	for _, child := range in.Children {
		if child.Type() != k.Type || in.adopts(child) {
			continue
		}
		ref := object.RefOf(child)
		a := Action{Verb: VerbDelete, Kind: k, Ref: ref, Live: child}
		turn, holders := len(first) == 0, child.Finalizers()
		switch held := len(holders) > 0 && !slices.Contains(holders, metav1.FinalizerDeleteDependents); {
		case !child.IsDeleting() && !turn:
			t.Queued = append(t.Queued, Queued{a, first})
		case !child.IsDeleting():
			if a, ok := t.due(in, a); ok {
				t.Deletes = append(t.Deletes, a)
			}
		case held:
			if turn {
				t.Held = append(t.Held, Wait{Ref: ref, Finalizers: holders})
			}
			continue
		case turn:
			t.Awaited = append(t.Awaited, ref)
		}
		awaited = append(awaited, ref)
	}
	if len(awaited) == 0 {
		return first
	}
	return awaited
}

// retain has the children of the retained types survive their parent, once the others, first, are gone.
func (t *Teardown) retain(s *catalog.Settings, in Input, first []object.Ref) {
	for _, child := range in.Children {
		k := s.Types.Of(child.Type())
		if k == nil || !k.Child.Retain || child.IsDeleting() {
			continue
		}
		a := Action{Verb: VerbRetain, Kind: k, Ref: object.RefOf(child), Live: child, Diffs: retainDifferences(s, child, in.Parent)}
		if len(first) > 0 {
			t.Queued = append(t.Queued, Queued{a, first})
		} else if a, ok := t.due(in, a); ok {
			t.Writes = append(t.Writes, a)
		}
	}
}

// retainDifferences lists what a child loses that is retained.
func retainDifferences(s *catalog.Settings, child, parent *resource.Resource) []merge.Difference {
	var diffs []merge.Difference
	for _, name := range s.LabelNames() {
		if value, ok := child.Label(name); ok {
			diffs = append(diffs, merge.Difference{Path: "metadata.labels[" + strconv.Quote(name) + "]", Live: value, Removed: true})
		}
	}
	return append(diffs, merge.Difference{
		Path: "metadata.ownerReferences[uid=" + strconv.Quote(string(parent.UID())) + "]", Live: s.OwnerReference(parent), Removed: true,
	})
}

// KeepWhileFinalizing decides which children of a parent that is being deleted have to go: those
// that aren't among kept, the children that the handler's Finalize wants.
func KeepWhileFinalizing(s *catalog.Settings, in Input, kept []*Desired) Plan {
	var p Plan
	if Orphans(in.Parent) {
		return p
	}
	wanted := make(map[object.Ref]struct{}, len(kept))
	for _, d := range kept {
		wanted[d.ref] = struct{}{}
	}
	for _, child := range in.Children {
		k := s.Types.Of(child.Type())
		if _, keep := wanted[object.RefOf(child)]; keep || k == nil || k.Unserved || k.Child.Retain || child.IsDeleting() || in.adopts(child) {
			continue
		}
		if a, ok := p.due(in, Action{Verb: VerbDelete, Kind: k, Ref: object.RefOf(child), Live: child}); ok {
			p.Deletes = append(p.Deletes, a)
		}
	}
	return p
}

// RetainPatch returns a JSON merge patch that takes the operator's labels and the owner
// reference to the parent off a child, which is nobody's then. The mark stays, by which the
// operator knows the child should another parent want it. The API server refuses the patch, as a
// conflict, if the child has changed since it was read.
func RetainPatch(s *catalog.Settings, live *resource.Resource, parent types.UID) ([]byte, error) {
	return guardedPatch(live, withoutOurs(s, live, parent))
}

// LetGoPatch is RetainPatch for a child that the operator will never want again. The mark goes,
// too, so that any operator may adopt the child.
func LetGoPatch(s *catalog.Settings, live *resource.Resource, parent types.UID) ([]byte, error) {
	metadata := withoutOurs(s, live, parent)
	if _, marked := live.Annotation(s.Mark); marked {
		metadata["annotations"] = map[string]any{s.Mark: nil}
	}
	return guardedPatch(live, metadata)
}

// withoutOurs returns what a merge patch says of the metadata of a child that becomes nobody's.
func withoutOurs(s *catalog.Settings, live *resource.Resource, parent types.UID) map[string]any {
	var rest []any
	for _, ref := range live.OwnerReferences() {
		if ref.UID != parent {
			rest = append(rest, ref)
		}
	}
	labels := map[string]any{}
	for _, name := range s.LabelNames() {
		if _, has := live.Label(name); has {
			labels[name] = nil
		}
	}
	return map[string]any{"labels": labels, "ownerReferences": rest}
}
