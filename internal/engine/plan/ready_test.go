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
