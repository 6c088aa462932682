package plan

import (
	"cmp"
	"slices"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/resource"
)

// Effects lists what a write changes of a live object, in the order of the
// paths, but for the engine's mark and what the server counts.
func Effects(s *catalog.Settings, k *catalog.Kind, live, answer *resource.Resource) []FieldChange {
	compared := &merge.Comparison{Schema: k.Comparison.Schema}
	before, after := settled(s, live), settled(s, answer)
	return concealedFields(k, bothWays(func(live, desired any) []merge.Difference {
		have, _ := live.(map[string]any)
		want, _ := desired.(map[string]any)
		return compared.Compare(have, want, nil)
	}, before, after))
}

// ChangesNothing says whether a write, which the server answered so, changes
// nothing but the mark and what the server counts.
func ChangesNothing(s *catalog.Settings, live, answer *resource.Resource) bool {
	return jsonvalue.Equal(settled(s, answer), settled(s, live))
}

// settled returns an object without what every write changes.
func settled(s *catalog.Settings, res *resource.Resource) map[string]any {
	object := res.Unstructured().Object
	meta := cloneObject(object, "metadata")
	delete(meta, "resourceVersion")
	delete(meta, "generation") // that of a Deployment counts changes of annotations
	delete(cloneObject(meta, "annotations"), s.Mark)
	return object
}

// bothWays lists in what two values differ, in the order of the paths: what
// compare finds missing in the first, and what it finds missing in the second.
func bothWays(compare func(live, desired any) []merge.Difference, before, after any) []FieldChange {
	var out []FieldChange
	seen := map[string]struct{}{}
	for _, d := range compare(before, after) {
		seen[d.Path] = struct{}{}
		out = append(out, FieldChange{d.Path, d.Live, d.Desired})
	}
	for _, d := range compare(after, before) { // what goes
		if _, ok := seen[d.Path]; !ok {
			out = append(out, FieldChange{d.Path, d.Desired, d.Live})
		}
	}
	return SortedFields(out)
}

// StatusEffects lists in what two statuses differ, in the order of the paths.
func StatusEffects(live, want any) []FieldChange {
	before, _ := live.(map[string]any)
	after, _ := want.(map[string]any)
	if before == nil && live != nil || after == nil && want != nil {
		return []FieldChange{{"status", live, want}} // not objects
	}
	fields := bothWays(func(live, desired any) []merge.Difference {
		return (&merge.Comparison{}).CompareAt("status", live, desired)
	}, before, after)
	if len(fields) == 0 { // an empty one appears or goes
		return []FieldChange{{"status", live, want}}
	}
	return fields
}

// FieldsOf lists the reasons for an action, where the server doesn't say what
// it would make of it.
func FieldsOf(a *Action) []FieldChange {
	out := make([]FieldChange, 0, len(a.Diffs))
	for _, d := range a.Diffs {
		out = append(out, FieldChange{d.Path, d.Live, d.Desired})
	}
	return SortedFields(concealedFields(a.Kind, out))
}

func SortedFields(fields []FieldChange) []FieldChange {
	slices.SortStableFunc(fields, func(a, b FieldChange) int { return cmp.Compare(a.Path, b.Path) })
	return fields
}
