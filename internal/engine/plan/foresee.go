package plan

import (
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/resource"
)

// A ForeseenAction is an action as a user sees it who asks for a plan without an
// API server.
type ForeseenAction struct {
	Verb string // create, update, recreate or delete
	Type resource.Type
	// Object is what would exist afterwards, as far as the operator has a say in
	// it. For a delete it is what existed.
	Object map[string]any
	// Fields are the reasons for an update.
	Fields []merge.Difference
}

// Foresee says what an action does, false if it does nothing that a user would
// see: the mark is the engine's own, and a difference from a state that the
// server was sent before is what the server made of it.
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
		out.Object, _ = jsonvalue.NullFree(a.Want.Object).(map[string]any)
	}
	return out, true
}
