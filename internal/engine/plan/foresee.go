package plan

import (
	"slices"

	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// A ForeseenAction is an action as a plan without an API server shows it.
type ForeseenAction struct {
	Verb string // create, update, recreate or delete
	Type resource.Type
	// Object is the child after the action, without what the engine and the API
	// server add. For a delete it is the child before the action.
	Object map[string]any
	// Fields are the differences for which the child is updated or recreated, but
	// for those that the API server may undo: see foreseeable.
	Fields []merge.Difference
	// Waits says what has to come first, "waits for Deployment shop/db". Empty: nothing.
	Waits  string
	Needs  []object.Ref // the objects that have to come first
	Closed bool         // a condition of the handler's own has to be met first
}

// foreseeable returns the differences of an action without those that the API
// server may undo: fields that only the live child has in what its schema says is
// atomic. They may be defaults, which will come back. If there are no others, they
// are the reason for the action, and foreseeable returns all.
func (a *Action) foreseeable() []merge.Difference {
	if !slices.ContainsFunc(a.Diffs, merge.Difference.IsUncertain) {
		return a.Diffs
	}
	partial := a.Kind.Comparison
	partial.Partial = true
	certain := map[string]struct{}{}
	for _, d := range partial.Collect(a.LiveObject(), a.Want.object, a.former) {
		certain[d.Path] = struct{}{}
	}
	rest := slices.DeleteFunc(slices.Clone(a.Diffs), func(d merge.Difference) bool {
		_, ok := certain[d.Path]
		return d.IsUncertain() && !ok
	})
	if len(rest) == 0 {
		return a.Diffs
	}
	return rest
}

// ForeseePending returns what is to become of a child of Plan.Pending, as far as that is known without the schema of its type.
func ForeseePending(a *Action) (verb string, fields []FieldChange) {
	if writeVerb(a.Kind) == VerbRecreate {
		return string(VerbRecreate), FieldsOf(a)
	}
	return string(VerbUpdate), FieldsOf(a)
}

// Foresee returns an action as a plan without an API server shows it. It returns
// false for an action that changes nothing a user would see. VerbMark changes the
// engine's own mark alone, and so does an update that only says more. VerbMend
// changes the owner reference. What differs in a child that was sent the same desired
// state before counts as what the API server made of that state.
func Foresee(a *Action) (ForeseenAction, bool) {
	verb := a.Verb
	out := ForeseenAction{Verb: string(verb), Type: a.Ref.Type}
	if verb == VerbMark || verb == VerbMend || a.ask == AskFields || a.saysMore {
		return out, false
	}
	if len(a.Diffs) > 0 {
		out.Fields = a.foreseeable()
	}
	switch verb {
	case VerbDelete:
		out.Object = a.Live.Unstructured().Object
	case VerbRelease:
		out.Verb = string(VerbUpdate)
		out.Object = releasedObject(a)
	case VerbRetain:
		out.Verb = string(VerbUpdate)
		out.Object = a.Live.Unstructured().Object
		delete(objectAt(out.Object, "metadata"), "ownerReferences")
	case VerbUpdate, VerbApply:
		out.Verb = string(VerbUpdate)
		out.Object = foreseenObject(a)
	default:
		out.Object, _ = jsonvalue.NullFree(a.Want.object).(map[string]any)
	}
	return out, true
}

// Foresee returns the creation as a plan without an API server shows it.
func (g *Gated) Foresee() ForeseenAction {
	want, _ := jsonvalue.NullFree(g.Want.object).(map[string]any)
	return ForeseenAction{Verb: string(VerbCreate), Type: g.Want.ref.Type, Object: want, Waits: g.String(), Needs: g.Needs, Closed: g.Closed()}
}
