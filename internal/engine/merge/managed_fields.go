package merge

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/roperator/roperator/internal/jsonvalue"
)

// beforeFirstApply is the manager that the API server makes the owner of all
// fields when an object without managedFields is applied to.
const beforeFirstApply = "before-first-apply"

// TakeEntries prepares managedFields for a server-side apply of merged, which
// lacks fields that live has. The API server removes a field that an apply
// lacks only if the Apply entry of the same manager owns it and no other entry
// does. TakeEntries therefore moves such fields from the manager's Update
// entries, and from those of beforeFirstApply, to the manager's Apply entry.
// Whatever is below a moved field moves with it. All other fields stay where
// they are, and so do the entries of subresources.
//
// It returns all entries of the object, or nil if no field has to move. An Apply
// entry that it adds has the time now and the apiVersion of live, in which the
// fields were found. The given entries stay as they are.
func TakeEntries(entries []metav1.ManagedFieldsEntry, manager string, live, merged map[string]any, now metav1.Time) ([]metav1.ManagedFieldsEntry, error) {
	var out []metav1.ManagedFieldsEntry
	taken := fieldpath.NewSet()
	for _, entry := range entries {
		if !isUpdateBy(entry, manager) {
			out = append(out, entry)
			continue
		}
		owned, err := ownedFields(entry)
		if err != nil {
			return nil, err
		}
		moves := removedFields(owned, live, merged)
		if moves.Empty() {
			out = append(out, entry)
			continue
		}
		taken = taken.Union(moves)
		if stays := owned.Difference(moves); !stays.Empty() {
			if entry, err = withOwnedFields(entry, stays); err != nil {
				return nil, err
			}
			out = append(out, entry)
		}
	}
	if taken.Empty() {
		return nil, nil
	}
	version, _ := live["apiVersion"].(string)
	return addApplied(out, manager, version, taken, now)
}

// isUpdateBy says whether the fields of an entry were set by the manager's
// updates of the object itself, or count as such.
func isUpdateBy(entry metav1.ManagedFieldsEntry, manager string) bool {
	return (entry.Manager == manager || entry.Manager == beforeFirstApply) &&
		entry.Operation == metav1.ManagedFieldsOperationUpdate && entry.Subresource == ""
}

// addApplied returns entries with fields added to the manager's Apply entry. An
// entry that is missing is appended, with an apiVersion and the time now.
//
// There must never be a second one for another apiVersion: of several Apply
// entries of one manager, the API server keeps the last alone. So an entry that
// is there gets the fields whatever its apiVersion.
func addApplied(entries []metav1.ManagedFieldsEntry, manager, version string, fields *fieldpath.Set, now metav1.Time) ([]metav1.ManagedFieldsEntry, error) {
	i := slices.IndexFunc(entries, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
	})
	if i < 0 {
		i = len(entries)
		entries = append(entries, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: version, Time: &now, FieldsType: "FieldsV1",
		})
	}
	owned, err := ownedFields(entries[i])
	if err != nil {
		return nil, err
	}
	entries[i], err = withOwnedFields(entries[i], owned.Union(fields))
	return entries, err
}

// ownedFields returns the fields that an entry owns. Path elements of an unknown
// type are left out, as the API server leaves them out.
func ownedFields(entry metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	fields := fieldpath.NewSet()
	if entry.FieldsV1 == nil {
		return fields, nil
	}
	if err := fields.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
		return nil, fmt.Errorf("%s of %s by %s: %w", entry.Operation, entry.APIVersion, entry.Manager, err)
	}
	return fields, nil
}

// withOwnedFields returns an entry that owns the given fields instead of its own.
func withOwnedFields(entry metav1.ManagedFieldsEntry, fields *fieldpath.Set) (metav1.ManagedFieldsEntry, error) {
	raw, err := fields.ToJSON()
	if err != nil {
		return entry, fmt.Errorf("%s of %s by %s: %w", entry.Operation, entry.APIVersion, entry.Manager, err)
	}
	entry.FieldsV1 = metav1.NewFieldsV1(string(raw))
	return entry, nil
}

// removedFields returns the owned fields that live has and merged lacks. Where
// merged lacks a whole object, list or item, that is everything owned in it.
func removedFields(owned *fieldpath.Set, live, merged any) *fieldpath.Set {
	removed := fieldpath.NewSet()
	keys := keyNames(owned)
	inLive, inMerged := lookup(live, keys), lookup(merged, keys)
	visit := func(element fieldpath.PathElement) {
		was := inLive(element)
		if was == nil {
			return
		}
		is := inMerged(element)
		if is == nil && owned.Members.Has(element) {
			removed.Members.Insert(element)
		}
		below, ok := owned.Children.Get(element)
		if ok && is != nil {
			below = removedFields(below, was, is)
		}
		if ok && !below.Empty() {
			*removed.Children.Descend(element) = *below
		}
	}
	owned.Members.Iterate(visit)
	owned.Children.Iterate(func(element fieldpath.PathElement) {
		if !owned.Members.Has(element) { // else it was visited already
			visit(element)
		}
	})
	return removed
}

// keyNames returns the names of the fields that are in any key of a set's
// elements: the key fields of a list, as far as the set tells.
func keyNames(set *fieldpath.Set) []string {
	var names map[string]struct{}
	collect := func(element fieldpath.PathElement) {
		if element.Key == nil {
			return
		}
		if names == nil {
			names = map[string]struct{}{}
		}
		for _, field := range *element.Key {
			names[field.Name] = struct{}{}
		}
	}
	set.Members.Iterate(collect)
	set.Children.Iterate(collect)
	return slices.Sorted(maps.Keys(names))
}

// lookup returns a function that finds what a path element selects in an object
// or a list: a field, an item with certain values in the key fields, or an
// element of a set. It returns nil for what isn't there and for null, and of
// several equal items the first. Nothing is ever at an index: the API server
// owns a list without keys only as a whole.
func lookup(in any, keys []string) func(fieldpath.PathElement) any {
	if object, ok := in.(map[string]any); ok {
		return func(element fieldpath.PathElement) any {
			if element.FieldName == nil {
				return nil
			}
			return object[*element.FieldName]
		}
	}
	type listItem struct {
		element fieldpath.PathElement
		item    any
	}
	list, _ := in.([]any)
	items := make([]listItem, len(list))
	for i, item := range list {
		items[i] = listItem{elementOf(item, keys), item}
	}
	slices.SortStableFunc(items, func(a, b listItem) int { return a.element.Compare(b.element) })
	return func(element fieldpath.PathElement) any {
		i, ok := slices.BinarySearchFunc(items, element, func(i listItem, e fieldpath.PathElement) int { return i.element.Compare(e) })
		if !ok {
			return nil
		}
		return items[i].item
	}
}

// elementOf returns the path element that selects an item of a list: its key,
// if it has any of the key fields, else its value. A key field that the item
// lacks isn't in the key, though it may have a default: only the schema knows.
func elementOf(item any, keys []string) fieldpath.PathElement {
	object, _ := item.(map[string]any)
	key := make(value.FieldList, 0, len(keys))
	for _, name := range keys {
		if v, ok := object[name]; ok {
			key = append(key, value.Field{Name: name, Value: value.NewValueInterface(v)})
		}
	}
	if len(key) == 0 {
		return fieldpath.ValueElement(value.NewValueInterface(item))
	}
	return fieldpath.PathElement{Key: &key}
}

// Lacks says whether something is in live that isn't in merged. Of lists that
// differ it always says so: which of their items are the same is for
// managedFields to tell.
func Lacks(merged, live any) bool {
	switch live := live.(type) {
	case map[string]any:
		other, ok := merged.(map[string]any)
		if !ok {
			return true
		}
		for key, below := range live {
			if other[key] == nil && below != nil || Lacks(other[key], below) {
				return true
			}
		}
	case []any:
		return !jsonvalue.Equal(merged, live)
	}
	return false
}
