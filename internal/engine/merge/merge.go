package merge

import (
	"maps"

	"github.com/roperator/roperator/internal/jsonvalue"
)

// A merging is one walk through a live and a desired object. It merges them and
// notes on the way where they differ, so that the two can't contradict each
// other: a place is changed if, and only if, a difference is reported there.
//
// Nothing is allocated as long as nothing differs.
type merging struct {
	collect     bool // the differences, not only the result
	differences []Difference
	trail       []trailStep // the current path, if collect
}

// value merges one value. live may be nil, desired is not.
func (m *merging) value(live, desired any, at place) (any, bool) {
	switch want := desired.(type) {
	case map[string]any:
		if have, ok := live.(map[string]any); ok {
			return m.object(have, want, at)
		}
	case []any:
		if have, ok := live.([]any); ok || live == nil && len(want) == 0 {
			if merged, changed := m.list(have, want, at); changed {
				return merged, true
			}
			return live, false
		}
	default:
		if jsonvalue.Equal(live, want) {
			return live, false
		}
	}
	return m.replace(live, desired, at)
}

// replace takes a desired value as it is.
func (m *merging) replace(live, desired any, at place) (any, bool) {
	if !wants(desired, at.ignore) {
		return live, false
	}
	whole := jsonvalue.NullFree(desired)
	m.report(live, whole, false)
	return whole, true
}

// An objectEdit is a live object and what becomes of it.
type objectEdit struct {
	live, out map[string]any
	changed   bool // out is a copy of live
	// another means that the object differs at its own level: by a scalar, or
	// by a key that it lacks.
	another bool
}

// set sets a key of the copy; nil takes it away.
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

// object merges an object. desired may be nil, which drops what was ours.
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
	if e.another && at.replacesOnChange() {
		e.keepOnly(desired, at)
	}
	return e.out, e.changed
}

// formerKeys merges the keys that may have been ours and that desired lacks.
func (m *merging) formerKeys(e *objectEdit, desired map[string]any, at place) {
	if at.former.owns() {
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
	if at.excludes(key) {
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
	case want != nil:
		merged, changed = m.value(have, want, below)
		e.another = e.another || changed && !bothContain(have, want)
	case have != nil && below.former != nil:
		merged, changed = m.remove(have, below)
	}
	e.another = e.another || changed && at.inWhole
	m.pop()
	if changed {
		e.set(key, merged)
	}
}

// bothContain says whether two values are both objects or both lists.
func bothContain(a, b any) bool {
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

// keepOnly drops what desired lacks.
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

// remove takes away what an earlier desired state had set and this one lacks
// altogether. The result is nil if nothing is left.
func (m *merging) remove(live any, at place) (any, bool) {
	before := len(m.differences)
	rest, changed := m.removeOwn(live, at)
	if changed && rest == nil {
		m.differences = m.differences[:before]
		m.report(live, nil, !at.uncertain)
	}
	return rest, changed
}

// removeOwn is remove, except that it reports what goes only in part.
func (m *merging) removeOwn(live any, at place) (any, bool) {
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

// removeItems takes our items out of a list; all of them, if it wasn't known to
// have others.
func (m *merging) removeItems(live []any, at place) ([]any, bool) {
	switch at.former.kind {
	case shapeKeyed:
		return m.keyed(live, nil, keyOf(at.former.keys, at.schema), at)
	case shapeSet:
		return m.set(live, nil, at)
	}
	return nil, true
}
