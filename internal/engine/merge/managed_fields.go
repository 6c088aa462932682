package merge

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// An Ownership is what managedFields say about the fields of one object.
type Ownership struct {
	entries []metav1.ManagedFieldsEntry
	sets    []*fieldpath.Set // of each entry: the fields that it owns
	manager string
}

// ReadOwnership reads the managedFields of an object. manager is the operator's
// name. The entries stay as they are.
func ReadOwnership(entries []metav1.ManagedFieldsEntry, manager string) (*Ownership, error) {
	o := &Ownership{entries: entries, manager: manager}
	for _, entry := range entries {
		owned, err := ownedFields(entry)
		if err != nil {
			return nil, err
		}
		o.sets = append(o.sets, owned)
	}
	return o, nil
}

// isOurs says whether an entry is of the operator's writes of the object itself.
func (o *Ownership) isOurs(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager == o.manager && entry.Subresource == ""
}

// ours returns the fields that the operator owns.
func (o *Ownership) ours() *fieldpath.Set {
	all := fieldpath.NewSet()
	for i, entry := range o.entries {
		if o.isOurs(entry) {
			all = all.Union(o.sets[i])
		}
	}
	return all
}

// KeepShared returns merged with the fields that live has, merged lacks, and both
// the operator and another manager's apply own. Whoever applies a field that the
// operator drops still wants it.
func (o *Ownership) KeepShared(live, merged map[string]any) map[string]any {
	shared, ours := fieldpath.NewSet(), o.ours()
	for i, entry := range o.entries {
		if !o.isOurs(entry) && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == "" {
			shared = shared.Union(removedFields(o.sets[i].Intersection(ours), live, merged))
		}
	}
	if shared.Empty() {
		return merged
	}
	kept, _ := restored(merged, live, shared).(map[string]any)
	return kept
}

// Removes says whether an apply of body would remove a field that merged has: one
// that an earlier apply of the operator's had set, and body lacks.
func (o *Ownership) Removes(body, merged map[string]any) bool {
	for i, entry := range o.entries {
		if !o.isOurs(entry) || entry.Operation != metav1.ManagedFieldsOperationApply {
			continue
		}
		if lacks := o.sets[i].Difference(fieldsIn(o.sets[i], body)); !fieldsIn(lacks, merged).Empty() {
			return true
		}
	}
	return false
}

// Applied returns the entries for an update that takes the place of a server-side
// apply of desired. The operator's Apply entry owns those of its fields that desired
// has, and its Update entries the others of theirs. So a later apply removes nothing
// that desired doesn't have now. What the update itself changes goes to the
// operator's Update entry: the API server sees to that, and nothing can change it.
//
// An Apply entry that is added has the time now and the apiVersion of live.
func (o *Ownership) Applied(live, desired map[string]any, now metav1.Time) ([]metav1.ManagedFieldsEntry, error) {
	var out []metav1.ManagedFieldsEntry
	applied, kept := fieldpath.NewSet(), false
	for i, entry := range o.entries {
		if !o.isOurs(entry) {
			out = append(out, entry)
			continue
		}
		wanted := fieldsIn(o.sets[i], desired)
		applied = applied.Union(wanted)
		if entry.Operation == metav1.ManagedFieldsOperationApply {
			out, kept = append(out, entry), true // its fields are set below
			continue
		}
		if rest := o.sets[i].Difference(wanted); !rest.Empty() {
			entry, err := withOwnedFields(entry, rest)
			if err != nil {
				return nil, err
			}
			out = append(out, entry)
		}
	}
	if applied.Empty() && !kept {
		return out, nil
	}
	version, _ := live["apiVersion"].(string)
	return withApplied(out, o.manager, version, applied, now)
}

// withApplied returns entries in which the manager's Apply entry owns these fields
// and no others. An entry that is missing is appended, with an apiVersion and the
// time now. An entry without fields is left out.
//
// There must never be a second one for another apiVersion: of several Apply
// entries of one manager, the API server keeps the last alone. So an entry that
// is there gets the fields whatever its apiVersion.
func withApplied(entries []metav1.ManagedFieldsEntry, manager, version string, fields *fieldpath.Set, now metav1.Time) ([]metav1.ManagedFieldsEntry, error) {
	i := slices.IndexFunc(entries, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
	})
	switch {
	case i >= 0 && fields.Empty():
		return slices.Delete(entries, i, i+1), nil
	case i < 0:
		i = len(entries)
		entries = append(entries, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: version, Time: &now, FieldsType: "FieldsV1",
		})
	}
	var err error
	entries[i], err = withOwnedFields(entries[i], fields)
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
