package plan

import (
	"cmp"
	"slices"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/resource"
)

// Effects lists what a write changes of an object of type k, in the order of the
// paths. live is the object before the write, and answer is the API server's
// answer. The engine's mark, the resourceVersion and the generation don't count.
// The values of a Secret are Hidden.
func Effects(s *catalog.Settings, k *catalog.Kind, live, answer *resource.Resource) []FieldChange {
	compared := &merge.Comparison{Schema: k.Comparison.Schema, Partial: true, Literal: true}
	before, after := lasting(s, live), lasting(s, answer)
	return concealedFields(k, bothWays(func(live, desired any) []merge.Difference {
		have, _ := live.(map[string]any)
		want, _ := desired.(map[string]any)
		return compared.Compare(have, want, nil)
	}, before, after))
}

// ChangesNothing says whether a write changes nothing that Effects would list. live
// is the object before the write, and answer is the API server's answer.
func ChangesNothing(s *catalog.Settings, live, answer *resource.Resource) bool {
	return jsonvalue.Equal(lasting(s, answer), lasting(s, live))
}

// lasting returns a copy of an object without the fields that every write may
// change: the mark, the resourceVersion and the generation.
func lasting(s *catalog.Settings, res *resource.Resource) map[string]any {
	object := res.Unstructured().Object
	meta := cloneObject(object, "metadata")
	delete(meta, "resourceVersion")
	delete(meta, "generation") // that of a Deployment counts changes of annotations
	delete(cloneObject(meta, "annotations"), s.Mark)
	return object
}

// bothWays lists all fields in which two values differ, in the order of the paths.
// compare finds what the first value lacks of the second, and is called for both
// directions.
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

// StatusEffects lists the fields in which two statuses, given as JSON values,
// differ, in the order of the paths. The list is never empty: it holds the whole
// status if there is no field to name.
func StatusEffects(live, want any) []FieldChange {
	before, _ := live.(map[string]any)
	after, _ := want.(map[string]any)
	if before == nil && live != nil || after == nil && want != nil {
		return []FieldChange{{"status", live, want}} // one of them isn't an object
	}
	fields := bothWays(func(live, desired any) []merge.Difference {
		return (&merge.Comparison{Literal: true}).CompareAt("status", live, desired)
	}, before, after)
	if len(fields) == 0 { // an empty status appears or goes
		return []FieldChange{{"status", live, want}}
	}
	return fields
}

// FieldsOf lists the differences for which an action was planned, in the order of
// the paths, but for those that the API server may undo: see foreseeable. It takes the
// place of Effects where the API server can't be asked what the write would change.
// The values of a Secret are Hidden.
func FieldsOf(a *Action) []FieldChange {
	diffs := a.foreseeable()
	out := make([]FieldChange, 0, len(diffs))
	for _, d := range diffs {
		out = append(out, FieldChange{d.Path, d.Live, d.Desired})
	}
	return SortedFields(concealedFields(a.Kind, out))
}

// CreationFields returns what the creation of a child changes: the object as a whole. The
// values of a Secret are Hidden.
func CreationFields(d *Desired) []FieldChange {
	return []FieldChange{{Desired: Concealed(d.kind, jsonvalue.NullFree(d.object))}}
}

// SortedFields sorts a list by path, in place, and returns it.
func SortedFields(fields []FieldChange) []FieldChange {
	slices.SortStableFunc(fields, func(a, b FieldChange) int { return cmp.Compare(a.Path, b.Path) })
	return fields
}
