package journal

import "time"

// A Pass is what is kept of one pass over a parent. Its JSON is what the window's page reads.
type Pass struct {
	// Number counts the passes of the operator, from 1 on.
	Number uint64 `json:"number"`
	// ID is that of the log lines of the pass; empty: it wrote none.
	ID           string    `json:"id,omitempty"`
	Start        time.Time `json:"start"`
	Millis       float64   `json:"ms"`         // how long it took
	WaitedMillis float64   `json:"waitedMs"`   // how long the parent waited for a worker before
	Trigger      string    `json:"trigger"`    // what set it off first
	More         int       `json:"more"`       // how many further triggers it answers
	Call         string    `json:"call"`       // the handler's method that was called; empty: none
	CallMillis   float64   `json:"callMs"`     // how long the handler took
	Error        string    `json:"error"`      // empty: the pass succeeded
	Throttled    bool      `json:"throttled"`  // by a conflict loop
	Writes       []Write   `json:"writes"`     // in the order in which they were noted
	MoreWrites   int       `json:"moreWrites"` // how many are left out
}

// A Write is what is kept of one write of a pass.
type Write struct {
	Object
	Verb   string  `json:"verb"`
	Millis float64 `json:"ms"` // how long it took, with all the requests that it was made of
	Result Result  `json:"result"`
	Error  string  `json:"error"` // of Failed
	// Fields are the paths of those that differed before. They are no values.
	Fields     []string `json:"fields"`
	MoreFields int      `json:"moreFields"` // how many are left out
}

// An Object names an object that was written.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"` // empty: the object has none
	Name       string `json:"name"`
}

// A Result says what became of a write.
type Result string

// The results of a write.
const (
	Written   Result = "written"
	Redundant Result = "redundant" // the API server saw no difference
	Failed    Result = "failed"
	Awaited   Result = "awaited" // somebody else was faster: a newer state is on its way
)

// An Event is one that the operator has recorded about a parent.
type Event struct {
	Time    time.Time `json:"time"`
	Type    string    `json:"type"` // Normal or Warning
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
}

// Plots are what an operator has done in the last fifteen minutes, in steps of equal length. All
// lists have one item for each step, the oldest first; the last step isn't over.
type Plots struct {
	StepSeconds int              `json:"stepSeconds"`
	Until       time.Time        `json:"until"` // the end of the last step
	Passes      []int            `json:"passes"`
	Errors      []int            `json:"errors"` // passes that failed
	Writes      map[string][]int `json:"writes"` // by verb: create, update, delete, status and other
	Queue       []int            `json:"queue"`  // the most parents that waited for a worker at the end of a pass
	// P50 and P95 are percentiles of the milliseconds from the event that made a parent due to the first
	// write of its pass; 0: there was no such pass.
	P50 []float64 `json:"p50"`
	P95 []float64 `json:"p95"`
}
