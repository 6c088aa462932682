package merge

import (
	"maps"
	"slices"

	"github.com/roperator/roperator/internal/jsonvalue"
)

// A merging is one walk through a live and a desired object. The walk merges the
// two objects and reports where they differ. Both are done at the same spot, so
// that they can't contradict each other: a field is changed if, and only if, a
// difference is reported.
//
// Nothing is allocated as long as nothing differs.
type merging struct {
	collect     bool // also collect the differences
	differences []Difference
	trail       []trailStep // the path that the walk is at, if collect
	literal     bool        // as in Comparison
	sends       bool        // fields that the schema prunes are merged, too
	prunes      bool        // there were some that are not
}

// value merges one value. live may be nil, desired must not be. The result is
// the merged value, and whether it differs from live. The other methods return
// the same.
func (m *merging) value(live, desired any, at place) (any, bool) {
	switch want := desired.(type) {
	case map[string]any:
		if have, ok := live.(map[string]any); ok {
			return m.object(have, want, at)
		}
	case []any:
		if have, ok := live.([]any); ok {
			if merged, changed := m.list(have, want, at); changed {
				return merged, true
			}
			return live, false
		}
	default:
		if jsonvalue.Equal(live, want) || sameScalar(live, want, at.schema) {
			return live, false
		}
	}
	return m.replace(live, desired, at)
}

// replace puts the desired value in the place of the live one.
func (m *merging) replace(live, desired any, at place) (any, bool) {
	if !wants(desired, at.ignore) {
		return live, false
	}
	whole := jsonvalue.NullFree(desired)
	m.report(live, whole, false)
	return whole, true
}

// An objectEdit is a live object and the merged object that it becomes.
type objectEdit struct {
	live    map[string]any
	out     map[string]any // live itself, or a copy once changed
	changed bool
	// differsHere means that the live object differs at its own level: in a
	// scalar, in the type of a value, or by a key that it lacks. Within lists
	// that are compared whole, any difference below counts as well.
	differsHere bool
}

// set sets a key of the merged object. A nil value deletes the key.
func (e *objectEdit) set(key string, value any) {
	if !e.changed {
		if e.out = maps.Clone(e.live); e.out == nil {
			e.out = map[string]any{}
		}
		e.changed = true
	}
	if value == nil {
		delete(e.out, key)
		return
	}
	e.out[key] = value
}

// keepOnly deletes the keys that desired lacks, except for ignored paths.
func (e *objectEdit) keepOnly(desired map[string]any, at place) {
	for key, have := range e.live {
		if desired[key] != nil {
			continue
		}
		if part, all := ignoredPart(have, at.ignore.field(key)); !all {
			e.set(key, part)
		}
	}
}

// object merges an object. A nil desired removes the fields in former.
func (m *merging) object(live, desired map[string]any, at place) (map[string]any, bool) {
	e := objectEdit{live: live, out: live}
	if m.collect {
		for _, key := range sortedKeys(desired, live, at.former) {
			m.field(&e, key, desired[key], at)
		}
	} else {
		for key, want := range desired {
			m.field(&e, key, want, at)
		}
		m.formerKeys(&e, desired, at)
	}
	if e.differsHere && at.replacesOnChange() {
		e.keepOnly(desired, at)
	}
	return e.out, e.changed
}

// sortedKeys returns the keys of desired and those that former may hold, each
// once.
func sortedKeys(desired, live map[string]any, former *FieldSet) []string {
	fields := former.objectFields()
	keys := make([]string, 0, len(desired)+len(fields))
	for key := range desired {
		keys = append(keys, key)
	}
	for _, field := range fields {
		keys = append(keys, field.name)
	}
	if former.ownsWhole() {
		for key := range live {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// formerKeys merges the keys that former holds and desired lacks.
func (m *merging) formerKeys(e *objectEdit, desired map[string]any, at place) {
	if at.former.ownsWhole() {
		for key := range e.live {
			if _, ok := desired[key]; !ok {
				m.field(e, key, nil, at)
			}
		}
		return
	}
	for _, former := range at.former.objectFields() {
		if _, ok := desired[former.name]; !ok {
			m.field(e, former.name, nil, at)
		}
	}
}

// field merges one key of an object. want is nil where desired has no opinion.
func (m *merging) field(e *objectEdit, key string, want any, at place) {
	if at.part.excludes(key) {
		return
	}
	below := at.child(key)
	if below.ignore.here() {
		return
	}
	have := e.live[key]
	merged, changed := have, false
	m.push(key)
	switch {
	case below.part == partMetadata:
		haveMeta, _ := have.(map[string]any)
		wantMeta, _ := want.(map[string]any)
		merged, changed = m.object(haveMeta, wantMeta, below)
	case have == nil && at.schema.Prunes(key) && !m.sends && !m.literal:
		m.prunes = true
	case have == nil && !m.literal && equalsNone(want, at.schema, key):
	case want != nil:
		merged, changed = m.value(have, want, below.claimed())
		e.differsHere = e.differsHere || changed && !sameContainer(have, want)
	case have != nil && below.former != nil:
		merged, changed = m.remove(have, below)
	}
	e.differsHere = e.differsHere || changed && at.inWhole
	m.pop()
	if changed {
		e.set(key, merged)
	}
}

// sameContainer says whether two values are both objects or both lists.
func sameContainer(a, b any) bool {
	switch a.(type) {
	case map[string]any:
		_, ok := b.(map[string]any)
		return ok
	case []any:
		_, ok := b.([]any)
		return ok
	}
	return false
}

// remove removes from a live value what former holds, where desired has no value
// at all. The result is nil if nothing is left.
func (m *merging) remove(live any, at place) (any, bool) {
	before := len(m.differences)
	rest, changed := m.removeFormer(live, at)
	if changed && rest == nil {
		m.differences = m.differences[:before] // one difference instead of those below
		m.report(live, nil, !at.uncertain)
	}
	return rest, changed
}

// removeFormer does the same as remove, except that it reports nothing for the
// value itself if nothing is left.
func (m *merging) removeFormer(live any, at place) (any, bool) {
	switch have := live.(type) {
	case map[string]any:
		if at.former.kind == shapeObject && !at.goesWhole() {
			rest, changed := m.object(have, nil, at)
			if len(rest) == 0 {
				return nil, true
			}
			return rest, changed
		}
	case []any:
		if rest, changed := m.removeItems(have, at); len(rest) > 0 {
			if !changed {
				return live, false
			}
			return rest, true
		}
	}
	rest, all := ignoredPart(live, at.ignore)
	if all {
		return live, false
	}
	if rest != nil {
		m.report(live, nil, !at.uncertain)
	}
	return rest, true
}

// removeItems removes the items in former from a list. It removes all items if
// former doesn't tell items apart, though not if the schema does.
func (m *merging) removeItems(live []any, at place) ([]any, bool) {
	if !at.tellsOwnItems() {
		return live, false
	}
	switch at.former.kind {
	case shapeKeyed:
		return m.keyed(live, nil, keyOf(at.former.keys, at.schema), at)
	case shapeSet:
		return m.set(live, nil, at)
	}
	return nil, true
}
