package plan

import (
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/resource"
)

// A ForeseenAction is an action as a plan without an API server shows it.
type ForeseenAction struct {
	Verb string // create, update, recreate or delete
	Type resource.Type
	// Object is the child after the action, without what the engine and the API
	// server add. For a delete it is the child before the action.
	Object map[string]any
	// Fields are the differences for which the child is updated or recreated.
	Fields []merge.Difference
}

// Foresee returns an action as a plan without an API server shows it. It returns
// false for an action that changes nothing a user would see. VerbMark changes the
// engine's own mark alone. VerbVerify is about a child that was sent the same
// desired state before: without an API server, what differs in it counts as what
// the API server made of that state.
func Foresee(a *Action) (ForeseenAction, bool) {
	out := ForeseenAction{Verb: string(a.Verb), Type: a.Ref.Type, Fields: a.Diffs}
	switch a.Verb {
	case VerbMark, VerbVerify:
		return out, false
	case VerbDelete:
		out.Object = a.Live.Unstructured().Object
	case VerbUpdate, VerbApply:
		out.Verb = string(VerbUpdate)
		out.Object = foreseenObject(a)
	default:
		out.Object, _ = jsonvalue.NullFree(a.Want.object).(map[string]any)
	}
	return out, true
}
