package plan

import (
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/resource"
)

// The patch of a parent's finalizers applies to the very parent that it was made for,
// with the finalizers that it was made from.
func TestFinalizerPatch(t *testing.T) {
	const parent = `{"apiVersion":"example.com/v1","kind":"Parent","metadata":{"name":"p","uid":"u","resourceVersion":"1","labels":{"l":"v"},"finalizers":["a/theirs"]}}`
	for name, tc := range map[string]struct {
		reason     string
		sameLabels bool
		live       string
		applies    bool
	}{
		"Same":              {"nothing has changed", true, parent, true},
		"Another version":   {"what else has changed doesn't matter", true, `{"metadata":{"uid":"u","resourceVersion":"2","labels":{"l":"v"},"finalizers":["a/theirs"]}}`, true},
		"Another object":    {"an object of the same name, with the same finalizers, isn't this one", true, `{"metadata":{"uid":"v","labels":{"l":"v"},"finalizers":["a/theirs"]}}`, false},
		"Other finalizers":  {"another controller's finalizer would get lost", true, `{"metadata":{"uid":"u","labels":{"l":"v"},"finalizers":["a/theirs","b/new"]}}`, false},
		"Other labels":      {"it may have left the selector", true, `{"metadata":{"uid":"u","labels":{},"finalizers":["a/theirs"]}}`, false},
		"Labels, unguarded": {"there is no selector", false, `{"metadata":{"uid":"u","labels":{},"finalizers":["a/theirs"]}}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			res, err := resource.New([]byte(parent))
			require.NoError(t, err)
			body, err := FinalizerPatch(res, []string{"a/theirs", "o/ours"}, tc.sameLabels)
			require.NoError(t, err)
			patch, err := jsonpatch.DecodePatch(body)
			require.NoError(t, err)
			patched, err := patch.Apply([]byte(tc.live))
			if !tc.applies {
				require.Error(t, err, tc.reason)
				return
			}
			require.NoError(t, err, tc.reason)
			require.Contains(t, string(patched), `["a/theirs","o/ours"]`)
		})
	}
}
