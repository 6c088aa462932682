package merge

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	managed "sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/roperator/roperator/internal/fieldpath"
)

// An Ownership is what managedFields say about the fields of one object.
type Ownership struct {
	entries []metav1.ManagedFieldsEntry
	sets    []*managed.Set // of each entry: the fields that it owns
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
func (o *Ownership) ours() *managed.Set {
	all := managed.NewSet()
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
	shared, ours := managed.NewSet(), o.ours()
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
// What is at the paths left belongs to others: the operator gives it up. What else the
// Apply entry loses goes to the Update entry, unless somebody else owns it. If it isn't in
// the object any more, the API server drops it from there. But the API server may make a
// field anew with the value that the operator has said so far. It doesn't see that as a
// change, and the field would be nobody's.
//
// An entry that is added has the time now and the apiVersion of live.
func (o *Ownership) Applied(live, desired map[string]any, left []fieldpath.Path, now metav1.Time) ([]metav1.ManagedFieldsEntry, error) {
	applied, dropped, others := managed.NewSet(), managed.NewSet(), managed.NewSet()
	out := &Ownership{entries: slices.Clone(o.entries), sets: slices.Clone(o.sets), manager: o.manager}
	for i, entry := range o.entries {
		if !o.isOurs(entry) {
			others = others.Union(o.sets[i])
			continue
		}
		wanted := fieldsIn(o.sets[i], desired)
		applied, out.sets[i] = applied.Union(wanted), withoutPaths(o.sets[i].Difference(wanted), left)
		if entry.Operation == metav1.ManagedFieldsOperationApply {
			dropped, out.sets[i] = dropped.Union(out.sets[i]), managed.NewSet()
		}
	}
	version, _ := live["apiVersion"].(string)
	out.add(metav1.ManagedFieldsOperationUpdate, version, dropped.Difference(others), now)
	out.add(metav1.ManagedFieldsOperationApply, version, applied, now)
	return out.written()
}

// add gives fields to the operator's entry for an operation. An entry that is missing is
// appended, with an apiVersion and the time now.
//
// There must never be a second Apply entry for another apiVersion: of several Apply
// entries of one manager, the API server keeps the last alone. So an entry that is there
// gets the fields whatever its apiVersion.
func (o *Ownership) add(operation metav1.ManagedFieldsOperationType, version string, fields *managed.Set, now metav1.Time) {
	i := slices.IndexFunc(o.entries, func(e metav1.ManagedFieldsEntry) bool { return o.isOurs(e) && e.Operation == operation })
	if i < 0 {
		i = len(o.entries)
		o.entries = append(o.entries, metav1.ManagedFieldsEntry{Manager: o.manager, Operation: operation, APIVersion: version, Time: &now, FieldsType: "FieldsV1"})
		o.sets = append(o.sets, managed.NewSet())
	}
	o.sets[i] = o.sets[i].Union(fields)
}

// written returns the entries with the fields that they own. The operator's entries without
// fields are left out.
func (o *Ownership) written() ([]metav1.ManagedFieldsEntry, error) {
	var out []metav1.ManagedFieldsEntry
	for i, entry := range o.entries {
		if o.isOurs(entry) {
			if o.sets[i].Empty() {
				continue
			}
			var err error
			if entry, err = withOwnedFields(entry, o.sets[i]); err != nil {
				return nil, err
			}
		}
		out = append(out, entry)
	}
	return out, nil
}

// ownedFields returns the fields that an entry owns. Path elements of an unknown
// type are left out, as the API server leaves them out.
func ownedFields(entry metav1.ManagedFieldsEntry) (*managed.Set, error) {
	fields := managed.NewSet()
	if entry.FieldsV1 == nil {
		return fields, nil
	}
	if err := fields.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
		return nil, fmt.Errorf("%s of %s by %s: %w", entry.Operation, entry.APIVersion, entry.Manager, err)
	}
	return fields, nil
}

// withOwnedFields returns an entry that owns the given fields instead of its own.
func withOwnedFields(entry metav1.ManagedFieldsEntry, fields *managed.Set) (metav1.ManagedFieldsEntry, error) {
	raw, err := fields.ToJSON()
	if err != nil {
		return entry, fmt.Errorf("%s of %s by %s: %w", entry.Operation, entry.APIVersion, entry.Manager, err)
	}
	entry.FieldsV1 = metav1.NewFieldsV1(string(raw))
	return entry, nil
}
