package fakeapi

import (
	"maps"
	"slices"

	"github.com/roperator/roperator/resource/k8s"
)

// equal says whether two values, as they come from JSON, are the same.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, value := range a {
			if other, ok := b[name]; !ok || !equal(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}

// onlyStatus says whether no more than the status of an object has changed.
func onlyStatus(was, is map[string]any) bool {
	for name, value := range is {
		if name != "status" && !equal(value, was[name]) {
			return false
		}
	}
	return len(was) <= len(is)
}

// generational is what a generation counts changes of. That of a Deployment counts those of annotations, too.
func (k *Kind) generational(object map[string]any) map[string]any {
	out := maps.Clone(object)
	delete(out, "metadata")
	delete(out, "status")
	if k.reader != nil && k.Type == k8s.Deployment {
		out["annotations"] = metaOf(object)["annotations"]
	}
	return out
}
