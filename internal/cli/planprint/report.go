package planprint

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/cli/terminal"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/object"
)

// A Report is the plans of the operators of a program.
type Report struct {
	Plans []Plan
	// Several says that the program has several operators, though there may be fewer
	// plans: some may have failed.
	Several bool
	// Fails says whether a change is of a kind that fails the plan; nil: none is.
	Fails func(plan.Change) bool
	// ReadOnly says that no dry run was sent, and Supposed that the parents come from files.
	ReadOnly, Supposed bool
}

// A Plan is the plan of one operator.
type Plan struct {
	Operator string // its name
	Parent   string // the kind of its parents
	Changes  []plan.Change
	// Places are where the parents come from, if they come from files.
	Places map[types.NamespacedName]Place
}

// A Place is a line of a file.
type Place struct {
	File string
	Line int // from 1
}

// changes returns how many changes there are.
func (r *Report) changes() int {
	n := 0
	for _, p := range r.Plans {
		n += len(p.Changes)
	}
	return n
}

// fails says whether a change is of a kind that fails the plan.
func (r *Report) fails(c plan.Change) bool { return r.Fails != nil && r.Fails(c) }

// headline returns what a change is, in one line: "Pod ns/x: recreate (for Shop ns/p),
// waits for Deployment ns/db".
func headline(parent string, c plan.Change) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", object.Ref{Type: c.Type, Key: c.Object}, c.Verb)
	if c.Type.Kind != parent || c.Object != c.Parent {
		fmt.Fprintf(&b, " (for %s %s)", parent, object.KeyText(c.Parent))
	}
	if c.Waits != "" {
		b.WriteString(", " + c.Waits)
	}
	if c.Unsure {
		b.WriteString(", unsure")
	}
	return terminal.Printable(b.String())
}

// notes returns what must be said of the report as a whole, each in a sentence.
func (r *Report) notes() []string {
	unsure := 0
	for _, p := range r.Plans {
		for _, c := range p.Changes {
			if c.Unsure {
				unsure++
			}
		}
	}
	var out []string
	switch {
	case r.ReadOnly && r.Supposed:
		out = append(out, "Read only: the API server wasn't asked what it would make of the parents or of the changes. "+
			"The parents are neither defaulted nor admitted, and changes may be refused, or be none.")
	case r.ReadOnly:
		out = append(out, "Read only: the API server wasn't asked what it would make of the changes. They may be refused, or be none.")
	case unsure > 0:
		out = append(out, Counted(unsure, "change")+" unsure: no dry run could tell what becomes of it.")
	}
	return out
}
