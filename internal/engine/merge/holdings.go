package merge

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	managed "sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/roperator/roperator/internal/fieldpath"
	"github.com/roperator/roperator/internal/listkeys"
)

// A Holdings is the set of the fields that one manager owns of an object, by the
// object's managedFields. It is immutable. nil is the empty set.
type Holdings struct{ set *managed.Set }

// ParseHoldings reads the fields of all entries of a manager, each as the text of
// fieldsV1. It returns nil if there is none.
func ParseHoldings(entries []string) (*Holdings, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	all := managed.NewSet()
	for _, text := range entries {
		fields := managed.NewSet()
		if err := fields.FromJSON(strings.NewReader(text)); err != nil {
			return nil, fmt.Errorf("managedFields: %w", err)
		}
		all = all.Union(fields)
	}
	return &Holdings{set: all}, nil
}

// FieldsOf returns the text of fieldsV1 of each entry of a manager in managedFields, as
// ParseHoldings reads it. Entries of subresources don't count.
func FieldsOf(entries []metav1.ManagedFieldsEntry, manager string) []string {
	var out []string
	for _, entry := range entries {
		if entry.Manager == manager && entry.Subresource == "" && entry.FieldsV1 != nil {
			out = append(out, entry.FieldsV1.GetRawString())
		}
	}
	return out
}

// Holds says whether the manager still owns the field of a difference. If it does,
// nobody else has changed or removed the field since the manager set it: whoever
// does that takes the field from the manager. So the field differs only by what the
// API server, or a webhook, made of the manager's own request.
//
// Holds returns false where the set doesn't tell: for the order of a keyed list, and
// for a field that live lacks, which may never have been stored. An exception is a
// field in a list or an object that has one owner as a whole.
func (c *Comparison) Holds(h *Holdings, d Difference) bool {
	if h == nil {
		return false
	}
	path, err := fieldpath.Parse(d.Path)
	if err != nil {
		return false
	}
	set, part, schema := h.set, partRoot, c.Schema
	for i, step := range path {
		element, ok := elementAt(step)
		if !ok {
			return false
		}
		part, schema = stepInto(step, part, schema)
		below, more := set.Children.Get(element)
		switch last := i == len(path)-1; {
		case last && more:
			return isEmptyList(d.Desired) && holdsItems(below, d.Live, schema)
		case last && schema != nil && schema.Set && !schema.Atomic && !isEmptyList(d.Desired):
			return false // the manager owns that there is a list, and has lost every item
		case last:
			return set.Members.Has(element)
		case !more:
			return set.Members.Has(element) && ownedWhole(schema, path[i+1], d)
		}
		set = below
	}
	return false
}

// Concerns says whether the manager owns the field of a difference, something in it, or
// a list or an object around it that has one owner. It returns true where the set
// can't tell.
func (h *Holdings) Concerns(d Difference) bool {
	if h == nil {
		return false
	}
	path, err := fieldpath.Parse(d.Path)
	if err != nil {
		return true
	}
	set := h.set
	for i, step := range path {
		element, ok := elementAt(step)
		if !ok {
			return true
		}
		below, more := set.Children.Get(element)
		switch last := i == len(path)-1; {
		case last && more:
			return true
		case last, !more:
			return set.Members.Has(element)
		}
		set = below
	}
	return false
}

// stepInto returns the part and the schema of the value to which a step leads.
func stepInto(step fieldpath.Step, part objectPart, schema *listkeys.Node) (objectPart, *listkeys.Node) {
	if step.Field == "" {
		return partOther, itemSchema(schema)
	}
	return part.child(schema, step.Field)
}

// elementAt returns the element of managedFields that selects what a step of a path
// leads to. It returns false for a step by index: a list whose items have no keys is
// owned as a whole.
func elementAt(step fieldpath.Step) (managed.PathElement, bool) {
	switch {
	case step.Field != "":
		return managed.PathElement{FieldName: &step.Field}, true
	case len(step.Key) == 0:
		return managed.PathElement{Index: &step.Index}, !step.Any
	}
	key := make(value.FieldList, 0, len(step.Key))
	for _, field := range step.Key {
		key = append(key, value.Field{Name: field.Name, Value: value.NewValueInterface(field.Value)})
	}
	key.Sort()
	return managed.PathElement{Key: &key}, true
}

// ownedWhole says whether a list or an object has one owner, with all that is in it.
// step leads from it towards a difference. A list without schema has: but then a
// difference must be about something that exists, since the list may have keys that
// aren't known.
func ownedWhole(schema *listkeys.Node, step fieldpath.Step, d Difference) bool {
	switch {
	case schema != nil && schema.Atomic:
		return true
	case step.Field != "":
		return false
	case schema == nil:
		return d.Live != nil
	}
	return schema.Kind == listkeys.List && len(schema.Keys) == 0 && !schema.Set
}

// isEmptyList says whether a desired value is the empty list.
func isEmptyList(desired any) bool {
	list, ok := desired.([]any)
	return ok && len(list) == 0
}

// holdsItems says whether a set has every item of a live list, whose schema is given.
func holdsItems(set *managed.Set, live any, schema *listkeys.Node) bool {
	list, _ := live.([]any)
	if schema == nil || schema.Kind != listkeys.List {
		return false
	}
	key := keyOf(schema.Keys, schema)
	return len(list) > 0 && !slices.ContainsFunc(list, func(item any) bool {
		element := managed.ValueElement(value.NewValueInterface(item))
		if len(key.names) > 0 {
			element = key.element(item)
		}
		return !set.Members.Has(element)
	})
}
