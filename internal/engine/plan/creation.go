package plan

import (
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/resource"
)

// What a child would be if it were created anew, as dry runs tell it.

// A Creation says how a child that was created anew would differ from the live one.
type Creation int

// The kinds of Creation.
const (
	// CreationUnclear: a field would have a value that is neither the live nor the
	// desired one. The API server may have chosen it, as it chooses a port.
	CreationUnclear Creation = iota
	// CreationSame: every field for which the child is to be written would be as it
	// is now.
	CreationSame
	// CreationDiffers: a field would be as desired, which it isn't now.
	CreationDiffers
)

// Anew compares the live child of a with made, which is what the API server would
// make of the desired state if the child were created anew.
func Anew(a *Action, made map[string]any) Creation {
	rest := a.Kind.Comparison.Collect(made, a.Want.object, a.former)
	out := CreationSame
	for _, diff := range a.Diffs {
		switch {
		case among(rest, diff):
		case !slices.ContainsFunc(rest, func(r merge.Difference) bool { return overlap(r.Path, diff.Path) }), diff.Removed && !isAllocated(diff):
			return CreationDiffers
		default:
			out = CreationUnclear
		}
	}
	return out
}

// LeavesAll reports whether live, which the API server makes of the child, still has each difference of the action, which corrects drift.
func (a *Action) LeavesAll(live *resource.Resource) bool {
	_, others := Explained(a.Diffs, a.Kind.Comparison.Compare(live.Unstructured().Object, a.Want.object, nil))
	return len(others) == 0
}

// isAllocated reports whether the live value of a difference is a port or an IP address that the API server may have chosen.
func isAllocated(d merge.Difference) bool {
	path := plainPath(d.Path)
	return d.Live != "None" && slices.Contains(allocated(), path[strings.LastIndexByte(path, '.')+1:])
}

// Ignored returns the differences of an action that the API server has accepted as an update, and ignored: live, which it has
// responded with and which differs in rest, has the values of before. made is called at most once, if a value that is no longer
// desired is still there. It returns what a creation would make of the desired state, and nil if that isn't known: then it isn't
// known either whether such a value is left over.
func Ignored(a *Action, live *resource.Resource, rest []merge.Difference, made func() map[string]any) (ignored []merge.Difference) {
	removes := slices.ContainsFunc(a.Diffs, func(d merge.Difference) bool { return d.Removed })
	if !a.outdated() || !removes && len(rest) == 0 {
		return nil
	}
	after := a.Kind.Comparison.Compare(live.Unstructured().Object, a.Want.object, a.former)
	var left []merge.Difference // that aren't desired any more
	for _, d := range a.Diffs {
		switch {
		case d.Live == nil || !among(after, d) || isAllocated(d) && d.Removed:
		case d.Removed:
			left = append(left, d)
		default:
			ignored = append(ignored, d)
		}
	}
	if len(left) == 0 {
		return ignored
	}
	if object := made(); object != nil {
		created := a.Kind.Comparison.Compare(object, a.Want.object, a.former)
		ignored = append(ignored, slices.DeleteFunc(left, func(d merge.Difference) bool { return among(created, d) })...)
	}
	return ignored
}

// among reports whether a difference is in a list.
func among(list []merge.Difference, d merge.Difference) bool {
	return slices.ContainsFunc(list, func(other merge.Difference) bool { return sameDifference(other, d) })
}

// sameDifference says whether two objects differ from the same desired one in the
// same way.
func sameDifference(a, b merge.Difference) bool {
	return a.Path == b.Path && digestOfDifference(a) == digestOfDifference(b)
}

// overlap says whether one of two paths is, or leads to, the other.
func overlap(a, b string) bool { return isBelow(a, b) || isBelow(b, a) }

// trialName returns the name under which a dry run creates d while the child exists.
// No child has it, and the same child always gets the same. Audit logs and webhooks see
// it, so it doesn't depend on what the child is to hold.
func trialName(d *Desired) string {
	sum := jsonvalue.Sum([]any{string(d.parent.UID()), d.ref.Type.String(), d.ref.Key.Namespace, d.ref.Key.Name})
	return "roperator-dry-run-" + hex.EncodeToString(sum[:8])
}

// LiveTrialBody returns the live child of a as it would be created under another
// name, without what the API server sets. It is for a dry run, which tells whether
// the API server takes the child as it is now.
func LiveTrialBody(a *Action) map[string]any {
	body := maps.Clone(a.LiveObject())
	delete(body, "status")
	live, _ := body["metadata"].(map[string]any)
	meta := map[string]any{"name": trialName(a.Want)}
	for _, key := range []string{"namespace", "labels", "annotations", "ownerReferences"} {
		if value, ok := live[key]; ok {
			meta[key] = value
		}
	}
	body["metadata"] = meta
	return body
}

// allocated are the fields that hold a port or an IP address of the cluster, which
// no two objects can have. They are the same in every type that has them.
func allocated() []string {
	return []string{"nodePort", "healthCheckNodePort", "clusterIP", "clusterIPs"}
}

// WithoutAllocated returns a copy of body, in which no field asks for a port or an
// IP address that the live object has. It returns false if body has no such field:
// then it is another object that has what body asks for.
func WithoutAllocated(body, live map[string]any) (map[string]any, bool) {
	held := map[string]map[any]bool{}
	for _, name := range allocated() {
		held[name] = map[any]bool{}
	}
	collectHeld(held, "", live)
	spec, changed := withoutHeld(held, body["spec"])
	if !changed {
		return nil, false
	}
	body = maps.Clone(body)
	body["spec"] = spec
	return body, true
}

// collectHeld notes the values of the fields that are keys of held, in value and
// below it. field is the name of the field that has the value.
func collectHeld(held map[string]map[any]bool, field string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, below := range v {
			collectHeld(held, key, below)
		}
	case []any:
		for _, item := range v {
			collectHeld(held, field, item)
		}
	case string, int64, float64:
		if held[field] != nil && v != "" && v != "None" {
			held[field][v] = true
		}
	}
}

// withoutHeld returns value without the fields whose values, or one of them, are
// held. It says whether it has left out any.
func withoutHeld(held map[string]map[any]bool, value any) (any, bool) {
	changed := false
	switch v := value.(type) {
	case map[string]any:
		out := maps.Clone(v)
		for key, below := range v {
			if isHeld(held[key], below) {
				delete(out, key)
				changed = true
			} else if rest, ok := withoutHeld(held, below); ok {
				out[key], changed = rest, true
			}
		}
		return out, changed
	case []any:
		out := slices.Clone(v)
		for i, item := range v {
			if rest, ok := withoutHeld(held, item); ok {
				out[i], changed = rest, true
			}
		}
		return out, changed
	}
	return value, false
}

// isHeld says whether a value, or an item of it, is among values.
func isHeld(values map[any]bool, value any) bool {
	if list, ok := value.([]any); ok {
		return slices.ContainsFunc(list, func(item any) bool { return isHeld(values, item) })
	}
	switch value.(type) {
	case string, int64, float64:
		return values[value]
	}
	return false
}
