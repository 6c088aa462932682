package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckKeepsConditions(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		status any
		want   string // of the error; empty: there is none
	}{
		"none":       {"there needn't be any", map[string]any{}, ""},
		"null":       {"the same", map[string]any{"conditions": nil}, ""},
		"as it is":   {"any text is the API server's matter", statusWith(ready("False"), map[string]any{"type": "Stalled", "status": "maybe"}), ""},
		"others":     {"nobody reads these", statusWith(map[string]any{"type": "Live", "status": true}, map[string]any{"type": "Live", "status": true}, "text"), ""},
		"no object":  {"conditions have no place", "text", "is no object, so ReadyCondition has nowhere to keep its conditions"},
		"no list":    {"nor here", map[string]any{"conditions": "text"}, "conditions: is no list, so ReadyCondition has nowhere to keep its conditions"},
		"no text":    {"false isn't False", statusWith(map[string]any{"type": "Live", "status": "True"}, map[string]any{"type": "Ready", "status": false}), "conditions[1]: Ready: status: must be one of the texts True, False and Unknown"},
		"no status":  {"it says nothing", statusWith(map[string]any{"type": "Reconciling", "reason": "R"}), "conditions[0]: Reconciling: status: must be one of the texts True, False and Unknown"},
		"more often": {"which one counts?", statusWith(ready("True"), ready("False")), "conditions[1]: Ready: there is another condition of this type"},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckKeepsConditions(tc.status)
			if tc.want == "" {
				require.NoError(t, err, tc.reason)
				return
			}
			require.EqualError(t, err, tc.want, tc.reason)
		})
	}
}

// TestKeepingConditions: somebody else has written conditions to a parent's status that can't be read. The rest of the status
// stays.
func TestKeepingConditions(t *testing.T) {
	ready := func(status any) map[string]any { return map[string]any{"type": "Ready", "status": status} }
	other := map[string]any{"type": "Live", "status": true}
	for name, tc := range map[string]struct {
		reason string
		status any
		want   map[string]any
	}{
		"Good":      {"it stays", map[string]any{"phase": "A", "conditions": []any{ready("True"), other}}, map[string]any{"phase": "A", "conditions": []any{ready("True"), other}}},
		"Twice":     {"the first one counts", map[string]any{"phase": "A", "conditions": []any{ready("True"), other, ready("False")}}, map[string]any{"phase": "A", "conditions": []any{ready("True"), other}}},
		"No text":   {"it says nothing", map[string]any{"phase": "A", "conditions": []any{ready(true), ready("False")}}, map[string]any{"phase": "A", "conditions": []any{ready("False")}}},
		"No list":   {"there is room for one then", map[string]any{"phase": "A", "conditions": "none"}, map[string]any{"phase": "A"}},
		"None":      {"as without conditions", nil, map[string]any{}},
		"No object": {"nothing of it can stay", "fine", map[string]any{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := KeepingConditions(tc.status)
			require.NoError(t, CheckKeepsConditions(got), tc.reason)
			if tc.want["conditions"] == nil {
				require.Nil(t, got["conditions"])
			}
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}
