package explain

import (
	"time"

	"github.com/roperator/roperator/handler"
)

// Path is where a process says what it knows of a parent, beside its metrics.
const Path = "/debug/roperator/explain"

// A Process is what the running process of an operator knows of a parent and nobody else.
type Process struct {
	// Unknown says why the running process couldn't be asked; empty: it has answered. No other field
	// is set then.
	Unknown string `json:"unknown,omitempty"`

	From    string `json:"from,omitempty"` // which process has answered
	Leading bool   `json:"leading"`        // it calls the handler and writes; others wait for the lease
	Held    bool   `json:"held"`           // it knows the parent

	Running      bool       `json:"running"` // a pass over the parent is under way
	RunningSince *time.Time `json:"runningSince,omitempty"`
	Call         string     `json:"call,omitempty"` // the method of the handler that is being called

	Queued   bool       `json:"queued"`             // the parent waits for a worker
	Place    int        `json:"place,omitempty"`    // how many parents have their turn before
	NextPass *time.Time `json:"nextPass,omitempty"` // when it becomes due by itself
	Trigger  string     `json:"trigger,omitempty"`  // what the next pass is for

	Failures     int          `json:"failures,omitempty"` // passes in a row
	FailingSince *time.Time   `json:"failingSince,omitempty"`
	LastError    string       `json:"lastError,omitempty"`
	ChildErrors  []ChildError `json:"childErrors,omitempty"` // what the last pass couldn't write
	Waits        []string     `json:"waits,omitempty"`       // what the last pass waited for

	Throttled bool  `json:"throttled,omitempty"` // by a conflict loop
	Loop      *Loop `json:"loop,omitempty"`
}

// A ChildError says which child couldn't be written, and why.
type ChildError struct {
	Object
	Verb    string `json:"verb"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
}

// A Loop is a conflict loop: a field that somebody changes back again and again.
type Loop struct {
	Object
	Path   string   `json:"path,omitempty"`
	Values []string `json:"values,omitempty"` // those that alternate; of a Secret they are hidden
	Writes int      `json:"writes"`           // so far
}

// ChildErrorsOf returns a handler's errors of children in this form.
func ChildErrorsOf(errs []handler.ChildError) []ChildError {
	var out []ChildError
	for _, e := range errs {
		o := Object{e.Type.APIVersion, e.Type.Kind, e.Key.Namespace, e.Key.Name}
		out = append(out, ChildError{Object: o, Verb: e.Verb, Reason: e.Reason, Message: e.Message})
	}
	return out
}

// errorOf returns what the process says of the last write of an object, "" if it was no error.
func (p *Process) errorOf(o Object) string {
	for _, e := range p.ChildErrors {
		if e.Object == o {
			return e.Message
		}
	}
	return ""
}
