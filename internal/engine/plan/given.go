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
// or of no use for a: see explains.
func GivenTo(s *catalog.Settings, a *Action) (Given, bool) {
	mark := readMark(s, a.Live)
	if mark.applied == nil {
		return Given{}, false
	}
	former := a.Kind.Comparison.Restrict(a.Want.owned(), mark.applied)
	if hashOf(a.Kind, former) != mark.hash {
		return Given{}, false
	}
	g := Given{action: a, diffs: a.Kind.Comparison.Compare(a.LiveObject(), former, nil)}
	return g, g.explains(g.diffs)
}

// explains says whether it is of use for the action that these differences are no
// reason to write. An update can leave out a field. A child is recreated for the sake
// of one field as well as for that of many.
func (g Given) explains(diffs []merge.Difference) bool {
	explained, others := Explained(g.action.Diffs, diffs)
	return len(explained) > 0 && (len(others) == 0 || g.action.Verb != VerbRecreate)
}

// Held returns the finding that the child differs only by what the API server, or a
// webhook, made of what the child was given. That holds for the fields that the
// operator still owns, by its entries in managedFields: nobody else has changed them.
// Held returns false if that is of no use for the action.
func (g Given) Held(entries []string) (Normalized, bool) {
	holdings, err := merge.ParseHoldings(entries)
	if err != nil {
		return Normalized{}, false
	}
	held := slices.DeleteFunc(slices.Clone(g.diffs), func(d merge.Difference) bool { return !g.action.Kind.Comparison.Holds(holdings, d) })
	return Normalized{Rest: held}, g.explains(held)
}
