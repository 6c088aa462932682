package plan

import (
	"slices"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/merge"
)

// A Given is a desired state that a live child was given, and that the present one
// only adds to. The mark tells so: its paths are those of the former state, and its
// hash is that of what the present state says there. So it is known what the operator
// said when a field got its value, though no former value is kept.
type Given struct {
	action *Action
	diffs  []merge.Difference // between the child and the former state
}

// GivenTo returns what the child of a was given. It returns false if that isn't known,
// or explains no difference for which the child is to be written.
func GivenTo(s *catalog.Settings, a *Action) (Given, bool) {
	mark := readMark(s, a.Live)
	if mark.applied == nil {
		return Given{}, false
	}
	former := a.Kind.Comparison.Restrict(a.Want.owned(), mark.applied)
	if hashOf(a.Kind, former) != mark.hash {
		return Given{}, false
	}
	diffs := a.Kind.Comparison.Compare(a.LiveObject(), former, nil)
	return Given{action: a, diffs: diffs}, ExplainsAny(a, diffs)
}

// Held returns the finding that the child differs only by what the API server, or a
// webhook, made of what the child was given. That holds for the fields that the
// operator still owns, by its entries in managedFields: nobody else has changed them.
// Held returns false if it holds for no difference for which the child is to be written.
func (g Given) Held(entries []string) (Normalized, bool) {
	holdings, err := merge.ParseHoldings(entries)
	if err != nil {
		return Normalized{}, false
	}
	held := slices.DeleteFunc(slices.Clone(g.diffs), func(d merge.Difference) bool { return !g.action.Kind.Comparison.Holds(holdings, d) })
	return Normalized{Rest: held}, ExplainsAny(g.action, held)
}
