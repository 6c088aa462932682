package merge

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/roperator/roperator/internal/jsonvalue"
)

// beforeFirstApply is whom the API server names as the owner of everything when
// an object without managedFields is applied to.
const beforeFirstApply = "before-first-apply"

// TakeEntries returns the entries of managedFields in which our applies have
// what our updates had of the fields that live has and merged lacks, nil if
// there are none.
func TakeEntries(entries []metav1.ManagedFieldsEntry, manager string, live, merged map[string]any) ([]metav1.ManagedFieldsEntry, error) {
	var out []metav1.ManagedFieldsEntry
	taken := map[string]map[string]any{} // by apiVersion
	for _, e := range entries {
		ours := e.Manager == manager || e.Manager == beforeFirstApply
		if !ours || e.Operation != metav1.ManagedFieldsOperationUpdate || e.Subresource != "" || e.FieldsV1 == nil {
			out = append(out, e)
			continue
		}
		var tree map[string]any
		if err := kjson.Unmarshal(e.FieldsV1.GetRawBytes(), &tree); err != nil {
			return nil, err
		}
		goes, stays := divide(tree, live, merged)
		if goes == nil {
			out = append(out, e)
			continue
		}
		taken[e.APIVersion] = joinTrees(taken[e.APIVersion], goes)
		if stays != nil {
			raw, err := json.Marshal(stays)
			if err != nil {
				return nil, err
			}
			e.FieldsV1 = metav1.NewFieldsV1(string(raw))
			out = append(out, e)
		}
	}
	if len(taken) == 0 {
		return nil, nil
	}
	for _, version := range slices.Sorted(maps.Keys(taken)) {
		if err := addApplied(&out, manager, version, taken[version]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// addApplied adds fields to the entry for our applies.
func addApplied(entries *[]metav1.ManagedFieldsEntry, manager, version string, tree map[string]any) error {
	i := slices.IndexFunc(*entries, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" && e.APIVersion == version
	})
	if i < 0 {
		*entries = append(*entries, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: version,
			Time: &metav1.Time{Time: time.Now()}, FieldsType: "FieldsV1",
		})
		i = len(*entries) - 1
	} else if held := (*entries)[i].FieldsV1; held != nil {
		var before map[string]any
		if err := kjson.Unmarshal(held.GetRawBytes(), &before); err != nil {
			return err
		}
		tree = joinTrees(before, tree)
	}
	raw, err := json.Marshal(tree)
	if err != nil {
		return err
	}
	(*entries)[i].FieldsV1 = metav1.NewFieldsV1(string(raw))
	return nil
}

// joinTrees returns what is in either set of fields.
func joinTrees(a, b map[string]any) map[string]any {
	if a == nil {
		return b
	}
	out := maps.Clone(a)
	for key, below := range b {
		one, _ := out[key].(map[string]any)
		other, _ := below.(map[string]any)
		out[key] = joinTrees(one, other)
	}
	return out
}

// divide divides fields, in the form of managedFields, into those of what live
// has and merged lacks, and those of all else. Either is nil if it is empty.
func divide(tree map[string]any, live, merged any) (goes, stays map[string]any) {
	for key, below := range tree {
		sub, _ := below.(map[string]any)
		was, is, ok := follow(key, live, merged)
		switch {
		case ok && was != nil && is == nil:
			goes = with(goes, key, sub)
		case ok && len(sub) > 0:
			g, s := divide(sub, was, is)
			goes, stays = with(goes, key, g), with(stays, key, s)
		default:
			stays = with(stays, key, sub)
		}
	}
	return goes, stays
}

func with(tree map[string]any, key string, below map[string]any) map[string]any {
	if below == nil {
		return tree
	}
	if tree == nil {
		tree = map[string]any{}
	}
	tree[key] = below
	return tree
}

// follow returns what is at a field, at an item of a keyed list or at an element
// of a set, nil if it isn't there. It returns false for any other key.
func follow(key string, live, merged any) (was, is any, ok bool) {
	kind, name, _ := strings.Cut(key, ":")
	var find func(in any) any
	switch kind {
	case "f":
		find = func(in any) any {
			object, _ := in.(map[string]any)
			return object[name]
		}
	case "k", "v":
		var value any
		if kjson.Unmarshal([]byte(name), &value) != nil {
			return nil, nil, false
		}
		find = func(in any) any {
			list, _ := in.([]any)
			for _, item := range list {
				if kind == "v" && jsonvalue.Equal(item, value) || kind == "k" && hasKeys(item, value) {
					return item
				}
			}
			return nil
		}
	default:
		return nil, nil, false
	}
	return find(live), find(merged), true
}

func hasKeys(item, keys any) bool {
	object, _ := item.(map[string]any)
	wanted, _ := keys.(map[string]any)
	for name, value := range wanted {
		if !jsonvalue.Equal(object[name], value) {
			return false
		}
	}
	return len(wanted) > 0
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
