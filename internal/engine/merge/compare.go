package merge

import (
	"slices"
	"strconv"
	"strings"

	"github.com/roperator/roperator/internal/fieldpath"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/resource"
)

// A Comparison decides whether a live object satisfies a desired one, and what
// the live one becomes where it doesn't. It holds what is known about one child
// type; the zero value knows nothing and goes by the shape of what it finds.
//
// Objects are decoded JSON whose numbers are int64 or float64. They are never
// modified, and results share subtrees with them: all are to be treated as
// immutable. A comparison is safe for concurrent use.
//
// What counts is what the desired object specifies:
//
//   - Objects are compared by the desired keys. Null means "no opinion", as if
//     the key weren't there.
//   - Keyed lists are compared item by item, found by their keys; several items
//     with the same keys are taken in the order in which they stand. The order
//     of the list counts only where ordered says so.
//   - Sets need every desired element. So do a child's finalizers, and its
//     owner references, found by UID, even where the desired list is empty.
//   - Other lists are compared whole: length, order and each item, in which
//     keys that only the live one has are ignored as in any object.
//   - An empty desired list wants an empty list, which a missing one is too. An
//     empty desired object wants an object.
//   - apiVersion, kind, status, and the metadata that the API server sets are
//     neither compared nor changed, nor are ignored paths. An ignored path is
//     set only as part of something that is added as a whole.
//
// What an earlier desired state had set, as recorded by applied, and this one
// lacks, is to go.
type Comparison struct {
	Schema *listkeys.Node
	Ignore []fieldpath.Path
}

// A Difference is one field in which a live object doesn't satisfy a desired
// one.
type Difference struct {
	// Path reads like spec.template.spec.containers[name="app"].image. A list
	// that is compared as a whole, and what is wrong with a list rather than
	// with one of its items, has the path of the list.
	Path string
	// Live and Desired are nil where there is no such field.
	Live, Desired any
	// Removed means that an earlier desired state had set the field and this
	// one lacks it. Where Desired is nil and Removed false, the field is in
	// something that is owned whole since its paths were too many to be
	// recorded: it might as well be a default that comes back.
	Removed bool
}

// Compare returns every field in which live doesn't satisfy desired, and those
// that former says an earlier desired state had set, desired lacks and live
// still has. The order is that of the keys in objects, and of the desired items
// in lists. It returns nil if live satisfies desired. A nil former means that
// nothing is known of earlier states.
func (c *Comparison) Compare(live, desired map[string]any, former *FieldSet) []Difference {
	var quick merging
	if _, changed := quick.object(live, desired, c.root(former)); !changed {
		return nil
	}
	return c.Collect(live, desired, former)
}

// Covers says, without decoding live, that compare would find no difference if
// nothing was known of earlier states. Where it says no, compare may still find none.
func Covers(live *resource.Resource, desired map[string]any) bool {
	raw, err := live.MarshalJSON()
	return err == nil && jsonvalue.Covers(string(raw), desired)
}

// Collect is compare, and faster where there are differences.
func (c *Comparison) Collect(live, desired map[string]any, former *FieldSet) []Difference {
	m := merging{collect: true}
	m.object(live, desired, c.root(former))
	return m.differences
}

// Merge returns the object to update the live one to: live, with desired merged
// in, and without what former says an earlier desired state had set and desired
// lacks. Unions, and items of lists that are compared whole, become what
// desired says where they differ themselves and not only further down: what
// only the live one has there doesn't go with it.
//
// The result is live itself if there is no difference, and there is no
// difference between the result and desired.
func (c *Comparison) Merge(live, desired map[string]any, former *FieldSet) map[string]any {
	var m merging
	merged, _ := m.object(live, desired, c.root(former))
	return merged
}

// CompareAt is compare for the values of one field of an object, status included,
// which compare doesn't look at. Without a desired value there is no difference.
func (c *Comparison) CompareAt(field string, live, desired any) []Difference {
	if desired == nil {
		return nil
	}
	m := merging{collect: true}
	m.push(field)
	m.value(live, desired, c.root(nil).child(field))
	return m.differences
}

// Without returns a comparison that leaves these paths alone too. A path that
// can't be parsed is compared as ever.
func (c *Comparison) Without(paths []string) *Comparison {
	if len(paths) == 0 {
		return c
	}
	more := &Comparison{Schema: c.Schema, Ignore: slices.Clone(c.Ignore)}
	for _, path := range paths {
		if p, err := fieldpath.Parse(path); err == nil {
			more.Ignore = append(more.Ignore, p)
		}
	}
	return more
}

// root is the place of whole objects.
func (c *Comparison) root(former *FieldSet) place {
	return place{schema: c.Schema, former: former, ignore: c.Ignore, part: partRoot, hadMark: former != nil}
}

// report adds a difference at the current path.
func (m *merging) report(live, desired any, removed bool) {
	if m.collect {
		m.differences = append(m.differences, Difference{Path: m.path(), Live: live, Desired: desired, Removed: removed})
	}
}

// A trailStep is a step of the current path: a field, or, if item isn't empty,
// an item of a list, already in brackets.
type trailStep struct{ field, item string }

func (m *merging) push(field string) {
	if m.collect {
		m.trail = append(m.trail, trailStep{field: field})
	}
}

// pushIndex steps into the item of a list that has no key.
func (m *merging) pushIndex(index int) {
	if m.collect {
		m.trail = append(m.trail, trailStep{item: "[" + strconv.Itoa(index) + "]"})
	}
}

func (m *merging) pop() {
	if m.collect {
		m.trail = m.trail[:len(m.trail)-1]
	}
}

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

// sortedKeys returns the keys that are desired or may have been ours, each once.
func sortedKeys(desired, live map[string]any, former *FieldSet) []string {
	fields := former.objectFields()
	keys := make([]string, 0, len(desired)+len(fields))
	for key := range desired {
		keys = append(keys, key)
	}
	for _, field := range fields {
		keys = append(keys, field.name)
	}
	if former.owns() {
		for key := range live {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
