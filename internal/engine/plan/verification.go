package plan

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/resource"
)

// A verification finds out which differences of a child are only what the API
// server, or a webhook, made of the desired values. VerbVerify asks for one.

// doubt finds out which of the explained differences are doubtful. What was learned
// when the child was created, or under other labels, holds no longer than the desired
// state and the child stay the same.
func (a *Action) doubt(was given, known *childMemory) {
	stale := known.exceptions.stale(a.Live)
	switch {
	case a.Kind.Child.Strategy == config.OnDelete:
		return // nothing is written anyway
	case stale:
	case was != givenOther || a.confirmed || len(a.Diffs) == 0 || a.Kind.Child.Strategy == config.Recreate:
		return
	case known.hash == a.Want.hash: // what was learned is about this very desired state
		return
	}
	for _, d := range a.explained {
		if !certain(d) && (stale || !d.IsUncertain()) { // what was added to what is atomic is kept, or made anew
			a.Doubtful = append(a.Doubtful, d)
		}
	}
}

// Verified returns the finding that these of the doubtful differences of a are only
// what the API server made of the desired values. confirmed says that an update with
// all the desired values leads to them.
func Verified(a *Action, normalized []merge.Difference, confirmed bool) Normalized {
	rest := slices.Clone(normalized)
	for _, d := range a.explained {
		if !isDoubtful(a, d) {
			rest = append(rest, d)
		}
	}
	return Normalized{Rest: rest, Confirmed: confirmed}
}

// isDoubtful says whether a difference is among the doubtful ones of an action.
func isDoubtful(a *Action, d merge.Difference) bool {
	return slices.ContainsFunc(a.Doubtful, func(doubtful merge.Difference) bool { return doubtful.Path == d.Path })
}

// Explained splits doubtful differences into those that rest has, too, with the same
// values, and the others. rest are the differences between the desired state and
// what the API server makes of it.
func Explained(doubtful, rest []merge.Difference) (explained, others []merge.Difference) {
	if len(rest) == 0 {
		return nil, doubtful
	}
	known := make(map[string]exception, len(rest))
	for _, d := range rest {
		known[d.Path] = exceptionOf(d)
	}
	for _, d := range doubtful {
		if e, ok := known[d.Path]; ok && !d.Removed && e == exceptionOf(d) {
			explained = append(explained, d)
		} else {
			others = append(others, d)
		}
	}
	return explained, others
}

// Held splits doubtful differences of a into those at which the operator still owns
// the field, by its entries in managedFields, and the others. Fields of the former
// were changed by nobody else: see merge.Comparison.Holds. Entries that can't be read
// count as missing.
func Held(a *Action, entries []string) (held, others []merge.Difference) {
	holdings, err := merge.ParseHoldings(entries)
	if err != nil || holdings == nil {
		return nil, a.Doubtful
	}
	for _, d := range a.Doubtful {
		if a.Kind.Comparison.Holds(holdings, d) {
			held = append(held, d)
		} else {
			others = append(others, d)
		}
	}
	return held, others
}

// Taken says whether somebody else has changed each of these differences, which Held
// doesn't find to be the operator's. So it is for a value that the operator has set.
// managedFields note only what is in a request when admission begins. What isn't there
// was never noted as the operator's: an empty object or list, to which a webhook may
// have added something, and a field that live lacks. An order isn't noted either.
func Taken(others []merge.Difference) bool {
	return !slices.ContainsFunc(others, func(d merge.Difference) bool {
		switch d.Desired.(type) {
		case map[string]any, []any:
			return true
		}
		return d.Live == nil
	})
}

// Unowned splits differences into those at fields that by the managedFields of the
// child nobody has set, though they are there, and the others. A webhook has made the
// former out of a request, the operator's as a rule. If the operator has no entry in
// managedFields, that isn't known, and all are others.
func Unowned(diffs []merge.Difference, entries []metav1.ManagedFieldsEntry, manager string) (unowned, others []merge.Difference) {
	var theirs []string
	for _, entry := range entries {
		if entry.Manager != manager && entry.Subresource != "status" && entry.FieldsV1 != nil {
			theirs = append(theirs, entry.FieldsV1.GetRawString())
		}
	}
	holdings, err := merge.ParseHoldings(theirs)
	if err != nil || len(merge.FieldsOf(entries, manager)) == 0 {
		return nil, diffs
	}
	for _, d := range diffs {
		if d.Live == nil || Taken([]merge.Difference{d}) || holdings.Concerns(d) {
			others = append(others, d)
		} else {
			unowned = append(unowned, d)
		}
	}
	return unowned, others
}

// SplitIn splits differences into those that are at one of these fields, in it or around
// it, and the others. The fields are as the API server spells paths: an item of a list has
// its index there, and its keys in the path of a difference. So items aren't told apart.
func SplitIn(fields []string, diffs []merge.Difference) (in, others []merge.Difference) {
	for _, d := range diffs {
		if slices.ContainsFunc(fields, func(field string) bool {
			list, _, _ := strings.Cut(field, "[")
			return isBelow(d.Path, list) || isBelow(field, d.Path)
		}) {
			in = append(in, d)
		} else {
			others = append(others, d)
		}
	}
	return in, others
}

// Paths returns the paths of differences.
func Paths(diffs []merge.Difference) []string {
	paths := make([]string, 0, len(diffs))
	for _, d := range diffs {
		paths = append(paths, d.Path)
	}
	return paths
}

// TwinBody is TrialBody with the labels and annotations that others have given to
// the live child of a. Webhooks select objects by those.
func TwinBody(s *catalog.Settings, a *Action, parent *resource.Resource) any {
	body, ok := TrialBody(s, a.Want, parent).(map[string]any)
	if !ok {
		return body
	}
	updated, _ := UpdateBody(s, a, parent)["metadata"].(map[string]any)
	body = maps.Clone(body)
	meta := cloneObject(body, "metadata")
	for _, key := range []string{"labels", "annotations"} {
		if words, ok := updated[key]; ok {
			meta[key] = jsonvalue.NullFree(words)
		}
	}
	return body
}
