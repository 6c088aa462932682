package merge

import (
	"slices"

	"github.com/roperator/roperator/internal/fieldpath"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/resource"
)

// A Comparison decides whether a live object satisfies a desired one, and what
// the live object is to become where it doesn't. The zero value knows no schema:
// it tells keyed lists by their shape.
//
// Objects are decoded JSON whose numbers are int64 or float64. They are never
// modified. Results share subtrees with the objects, so callers must not modify
// either. A Comparison is safe for concurrent use.
//
// The desired object decides what is compared:
//
//   - Objects are compared by the desired keys. A null means "no opinion", as if
//     the key weren't there.
//   - Items of a keyed list are found by their keys, all of them together. If
//     several items have the same keys, the first desired item is compared with
//     the first live one, and so on. Live items with the keys of a desired one
//     that are left over are removed. Other live items belong to others.
//   - The order of the items of a keyed list counts if it is another one than
//     that of the earlier desired object, and always in initContainers and env.
//     It never counts in lists whose order means nothing (Node.AnyOrder).
//   - A set needs every desired element and may have more. metadata.finalizers is
//     a set, and metadata.ownerReferences is a list with the key uid. In these
//     two an empty desired list asks for nothing.
//   - Any other list is compared whole: its length, its order and each item. An
//     item may have keys that the desired item lacks, like any object. A null
//     item is a value like any other.
//   - What the schema says is atomic has nothing but what is desired, and nor has
//     anything in it: the keys of an atomic object, and of the items of an atomic
//     list.
//   - An empty desired list wants an empty list or none. An empty desired object
//     wants an object.
//   - apiVersion, kind, status, and the metadata that the API server sets are
//     neither compared nor changed. Nor are ignored paths. An ignored path is set
//     only if an object or an item around it is added.
//
// A field that an earlier desired object had set and this one lacks is removed.
// The FieldSet called former tells which fields these are. A struct in which the
// earlier object had set something is removed with everything in it, since the
// rest are its defaults.
type Comparison struct {
	// Schema is the schema of the objects. nil means that it is unknown.
	Schema *listkeys.Node
	// Ignore holds the paths that belong to others. They are left alone.
	Ignore []fieldpath.Path
	// Partial is for two states of one object, which are compared both ways: live keys
	// that desired lacks never count, not even in what the schema says is atomic, and the
	// order of a keyed list counts wherever it has a meaning.
	Partial bool
	// Literal means that both objects are the API server's: zero values count, and so do fields that the schema
	// prunes.
	Literal bool
	// Pending means that there is a schema, which isn't known yet. It is of use for Record alone: see there. Nothing is to be
	// merged meanwhile.
	Pending bool
}

// A Difference is one field in which a live object doesn't satisfy a desired
// one.
type Difference struct {
	// Path reads like spec.template.spec.containers[name="app"].image. A
	// difference in the length or the order of a list has the path of the list.
	Path string
	// Live and Desired are the field's values, nil where there is no such field.
	Live, Desired any
	// Removed means that an earlier desired object had set the field and that
	// this one lacks it. Desired is nil then. Where Desired is nil and Removed is
	// false, the field lies below a path that is owned whole or atomic, and an
	// earlier desired object may or may not have set it. It may be a default of the
	// API server, which will come back.
	Removed bool
}

// Compare returns every field in which live doesn't satisfy desired, and every
// field that live has, former holds and desired lacks. It returns nil if there
// is none. Differences are in the order of an object's keys, and of the desired
// items of a list.
//
// A nil former means that no earlier desired object is known, or that it was the
// same, so that nothing is removed.
func (c *Comparison) Compare(live, desired map[string]any, former *FieldSet) []Difference {
	quick := merging{literal: c.Literal}
	if _, changed := quick.object(live, desired, c.root(former)); !changed {
		return nil
	}
	return c.Collect(live, desired, former)
}

// Covers says, without decoding live, that Compare would find no difference if
// former is nil. Where Covers returns false, Compare may still find none. It returns false for a nil desired, of which nothing is known.
func (c *Comparison) Covers(live *resource.Resource, desired map[string]any) bool {
	raw, err := live.MarshalJSON()
	return err == nil && desired != nil && jsonvalue.Covers(string(raw), desired, c.extent())
}

// Collect returns the same as Compare. Compare is the faster one if there is no
// difference, Collect if there are some.
func (c *Comparison) Collect(live, desired map[string]any, former *FieldSet) []Difference {
	m := merging{collect: true, literal: c.Literal}
	m.object(live, desired, c.root(former))
	return m.differences
}

// Merge returns the object that the live one is to be updated to: live, with
// desired merged in, and without the fields that former holds and desired lacks.
//
// Two kinds of objects also lose keys that others have set. A union that differs
// at its own level loses every key that desired lacks. So does an object within
// a list that is compared whole, if anything in the object differs.
//
// Merge returns live itself if Compare finds no difference. Compare never finds
// a difference between the result and desired.
func (c *Comparison) Merge(live, desired map[string]any, former *FieldSet) map[string]any {
	m := merging{literal: c.Literal}
	merged, changed := m.object(live, desired, c.root(former))
	if changed && m.prunes { // the API server's schema may be newer
		m.sends = true
		merged, _ = m.object(live, desired, c.root(former))
	}
	return merged
}

// CompareAt compares the values of one field of an object as Compare does. The
// field may be status, which Compare leaves out. If desired is nil, there is no
// difference.
func (c *Comparison) CompareAt(field string, live, desired any) []Difference {
	if desired == nil {
		return nil
	}
	m := merging{collect: true, literal: c.Literal}
	m.push(field)
	m.value(live, desired, c.root(nil).child(field))
	return m.differences
}

// Without returns a Comparison that ignores these paths in addition. Paths that
// can't be parsed are skipped. The receiver stays as it is.
func (c *Comparison) Without(paths []string) *Comparison {
	if len(paths) == 0 {
		return c
	}
	more := &Comparison{Schema: c.Schema, Ignore: slices.Clone(c.Ignore), Partial: c.Partial, Literal: c.Literal, Pending: c.Pending}
	for _, path := range paths {
		if p, err := fieldpath.Parse(path); err == nil {
			more.Ignore = append(more.Ignore, p)
		}
	}
	return more
}

// root returns the place of whole objects.
func (c *Comparison) root(former *FieldSet) place {
	return place{schema: c.Schema, former: former, ignore: c.Ignore, part: partRoot, formerKnown: former != nil, partial: c.Partial}
}
