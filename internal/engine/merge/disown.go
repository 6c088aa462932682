package merge

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	managed "sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/roperator/roperator/internal/fieldpath"
	"github.com/roperator/roperator/internal/jsonvalue"
)

// HoldsAny says whether the set may hold a field at one of the paths, or below it.
// It looks no further than the first list that a path leads through.
func (s *FieldSet) HoldsAny(paths []fieldpath.Path) bool {
	return slices.ContainsFunc(paths, func(path fieldpath.Path) bool {
		at := s
		for _, step := range path {
			if at == nil || step.Field == "" {
				break
			}
			at = at.field(step.Field)
		}
		return at != nil
	})
}

// Disown returns the entries of an object's managedFields as they are when the
// manager no longer owns the fields at these paths, and what is below them. It
// returns nil if the manager owns none of them. The given entries stay as they are,
// and so do the manager's entries for subresources.
//
// A field in a list or an object that has one owner as a whole is owned with that,
// and stays so.
func Disown(entries []metav1.ManagedFieldsEntry, manager string, paths []fieldpath.Path) ([]metav1.ManagedFieldsEntry, error) {
	var out []metav1.ManagedFieldsEntry
	changed := false
	for _, entry := range entries {
		if entry.Manager != manager || entry.Subresource != "" {
			out = append(out, entry)
			continue
		}
		owned, err := ownedFields(entry)
		if err != nil {
			return nil, err
		}
		rest := withoutPaths(owned, paths)
		if rest.Equals(owned) {
			out = append(out, entry)
			continue
		}
		changed = true
		if rest.Empty() {
			continue
		}
		if entry, err = withOwnedFields(entry, rest); err != nil {
			return nil, err
		}
		out = append(out, entry)
	}
	if !changed || len(out) == 0 { // an empty list would change nothing
		return nil, nil
	}
	return out, nil
}

// withoutPaths returns a set without the fields at the paths and below them.
func withoutPaths(owned *managed.Set, paths ignoredPaths) *managed.Set {
	rest := managed.NewSet()
	owned.Members.Iterate(func(element managed.PathElement) {
		if !pathsThrough(element, paths).here() {
			rest.Members.Insert(element)
		}
	})
	owned.Children.Iterate(func(element managed.PathElement) {
		below, _ := owned.Children.Get(element)
		through := pathsThrough(element, paths)
		if through.here() {
			return
		}
		if len(through) > 0 {
			below = withoutPaths(below, through)
		}
		if !below.Empty() {
			*rest.Children.Descend(element) = *below
		}
	})
	return rest
}

// pathsThrough returns the paths that lead through a path element, relative to it.
func pathsThrough(element managed.PathElement, paths ignoredPaths) ignoredPaths {
	if element.FieldName != nil {
		return paths.field(*element.FieldName)
	}
	var below ignoredPaths
	for _, p := range paths {
		if len(p) > 0 && (p[0].Any || element.Key != nil && keyMatches(p[0].Key, element)) {
			below = append(below, p[1:])
		}
	}
	return below
}

// keyMatches says whether a path element is that of the list items with these values.
func keyMatches(key []fieldpath.KeyValue, element managed.PathElement) bool {
	for _, want := range key {
		if !slices.ContainsFunc(*element.Key, func(field value.Field) bool {
			return field.Name == want.Name && jsonvalue.Equal(field.Value.Unstructured(), want.Value)
		}) {
			return false
		}
	}
	return len(key) > 0
}
