package merge

import (
	"strconv"
	"strings"
)

// A trailStep is one step of the path that a merging is at: a field, or an item
// of a list.
type trailStep struct {
	field string
	item  string // "" for a field; else the item's part of the path, brackets included
}

// push steps into a field.
func (m *merging) push(field string) {
	if m.collect {
		m.trail = append(m.trail, trailStep{field: field})
	}
}

// pushIndex steps into an item of a list without keys.
func (m *merging) pushIndex(index int) {
	if m.collect {
		m.trail = append(m.trail, trailStep{item: "[" + strconv.Itoa(index) + "]"})
	}
}

// itemNames are the steps that have been used for items of one keyed list. An
// item is named by its keys, or by its index if an earlier item has the same
// keys.
type itemNames map[string]struct{}

// pushItem steps into an item of a keyed list.
func (m *merging) pushItem(names *itemNames, key listKey, item any, index int) {
	if !m.collect {
		return
	}
	step := key.step(item)
	if _, taken := (*names)[step]; taken {
		step = "[" + strconv.Itoa(index) + "]"
	}
	if *names == nil {
		*names = itemNames{}
	}
	(*names)[step] = struct{}{}
	m.trail = append(m.trail, trailStep{item: step})
}

// pop steps back out.
func (m *merging) pop() {
	if m.collect {
		m.trail = m.trail[:len(m.trail)-1]
	}
}

// report adds a difference at the current path.
func (m *merging) report(live, desired any, removed bool) {
	if m.collect {
		m.differences = append(m.differences, Difference{Path: m.path(), Live: live, Desired: desired, Removed: removed})
	}
}

// path returns the current path as text.
func (m *merging) path() string {
	var b strings.Builder
	for i, step := range m.trail {
		switch {
		case step.item != "":
			b.WriteString(step.item)
		case !isPlainField(step.field):
			b.WriteString("[" + strconv.Quote(step.field) + "]")
		default:
			if i > 0 {
				b.WriteByte('.')
			}
			b.WriteString(step.field)
		}
	}
	return b.String()
}

// ObjectPath returns the path of the object or the list that the field is in. It is
// empty for a field of the whole object.
func (d Difference) ObjectPath() string {
	last, quoted, bracket := 0, false, false
	for i := 0; i < len(d.Path); i++ {
		switch c := d.Path[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[':
			last, bracket = i, true
		case c == ']':
			bracket = false
		case c == '.' && !bracket:
			last = i
		}
	}
	return d.Path[:last]
}

// IsUncertain says whether the field may be a default of the API server: see
// Removed.
func (d Difference) IsUncertain() bool { return d.Desired == nil && !d.Removed }

// isPlainField says whether a field's name can stand in a path without quotes.
func isPlainField(name string) bool {
	for i, r := range name {
		letter := r == '_' || r == '$' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r != '-' && (r < '0' || r > '9')) {
			return false
		}
	}
	return name != ""
}
