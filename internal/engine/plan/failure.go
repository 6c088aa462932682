package plan

import (
	"strings"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/object"
)

// A Failure says which child couldn't be written, and why.
type Failure struct {
	Ref    object.Ref
	Verb   Verb
	Reason string // a metav1.StatusReason; may be empty
	Err    error  // shows no value of a Secret
}

// ChildError returns the failure as a handler is shown it. The message is the text
// of the error without the child and the verb, which have fields of their own.
func (f Failure) ChildError() handler.ChildError {
	message := strings.TrimPrefix(f.Err.Error(), f.Ref.String()+": ")
	message = strings.TrimPrefix(message, string(f.Verb)+": ")
	verb := f.Verb
	switch verb {
	case VerbAdopt, VerbMark, VerbMend, VerbRelease, VerbRetain:
		verb = VerbUpdate // means of an update that no handler knows of
	}
	return handler.ChildError{Type: f.Ref.Type, Key: f.Ref.Key, Verb: string(verb), Reason: f.Reason, Message: message}
}

// A Refusal is a write that is left out, since an earlier one of the same desired
// state was refused, and it isn't time to try again. Action is nil if the child
// can't even be sent: it can't be encoded.
type Refusal struct {
	Failure
	Action *Action
	Held   bool // with its batch
}
