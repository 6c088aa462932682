package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/internal/engine/merge"
)

// TestUnowned: what is there, and what nobody has set by managedFields, a webhook has
// made of a request.
func TestUnowned(t *testing.T) {
	const env, image = `spec.containers[name="a"].env`, `spec.containers[name="a"].image`
	entry := func(manager, subresource, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	ours := entry("op", "", `{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:name":{}}}}}`)
	theirs := func(subresource string) metav1.ManagedFieldsEntry {
		return entry("other", subresource, `{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{"f:env":{"k:{\"name\":\"X\"}":{".":{}}}}}}}`)
	}
	filled := []any{map[string]any{"name": "X"}}
	for name, tc := range map[string]struct {
		reason  string
		entries []metav1.ManagedFieldsEntry
		d       merge.Difference
		unowned bool
	}{
		"nobody's":        {"a webhook has added the item", []metav1.ManagedFieldsEntry{ours}, merge.Difference{Path: env, Live: filled, Desired: []any{}}, true},
		"somebody's":      {"it is in another entry", []metav1.ManagedFieldsEntry{ours, theirs("")}, merge.Difference{Path: env, Live: filled, Desired: []any{}}, false},
		"by subresource":  {"somebody has set it there", []metav1.ManagedFieldsEntry{ours, theirs("scale")}, merge.Difference{Path: env, Live: filled, Desired: []any{}}, false},
		"in the status":   {"that is another part of the object", []metav1.ManagedFieldsEntry{ours, theirs("status")}, merge.Difference{Path: env, Live: filled, Desired: []any{}}, true},
		"gone":            {"somebody may have removed it", []metav1.ManagedFieldsEntry{ours}, merge.Difference{Path: env, Desired: filled}, false},
		"value":           {"it would be in the operator's entry", []metav1.ManagedFieldsEntry{ours}, merge.Difference{Path: image, Live: "b", Desired: "a"}, false},
		"no entry":        {"nobody knows what the operator has set", nil, merge.Difference{Path: env, Live: filled, Desired: []any{}}, false},
		"malformed entry": {"nobody knows what others have set", []metav1.ManagedFieldsEntry{ours, entry("other", "", `{`)}, merge.Difference{Path: env, Live: filled, Desired: []any{}}, false},
		"by index":        {"managedFields know no positions there", []metav1.ManagedFieldsEntry{ours, theirs("")}, merge.Difference{Path: `spec.containers[*].env`, Live: filled, Desired: []any{}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			unowned, others := Unowned([]merge.Difference{tc.d}, tc.entries, "op")
			require.Equal(t, tc.unowned, len(unowned) == 1, tc.reason)
			require.Len(t, append(unowned, others...), 1)
		})
	}
}
