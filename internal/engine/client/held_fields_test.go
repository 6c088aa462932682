package client

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHeldFields: of managedFields, the entries of one manager are read that are
// about the object itself.
func TestHeldFields(t *testing.T) {
	const head = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","managedFields":`
	for name, tc := range map[string]struct {
		reason, object string
		want           []string
	}{
		"none":        {"the server drops them from large objects", `{"apiVersion":"v1","metadata":{"name":"a"}}`, nil},
		"no metadata": {"not an object of Kubernetes", `{"a":1}`, nil},
		"ours": {
			"an update's and an apply's",
			head + `[{"manager":"op","operation":"Update","fieldsV1":{"f:a":{"k:{\"name\":\"x y\"}":{}}}},{"manager":"other","fieldsV1":{"f:b":{}}},{"manager":"op","operation":"Apply","fieldsV1":{"f:c":{}}}]}}` + "\n",
			[]string{`{"f:a":{"k:{\"name\":\"x y\"}":{}}}`, `{"f:c":{}}`},
		},
		"status":    {"a subresource has fields of its own", head + `[{"manager":"op","subresource":"status","fieldsV1":{"f:status":{}}}]}}`, nil},
		"empty":     {"an entry may have no fields", head + `[{"manager":"op"}]}}`, nil},
		"no list":   {"anything may stand there", head + `null}}`, nil},
		"spaced":    {"no API server writes spaces", head + ` [{"manager":"op","fieldsV1":{"f:a":{}}}]}}`, nil},
		"elsewhere": {"nested objects have managedFields, too", `{"data":{"managedFields":[{"manager":"op","fieldsV1":{"f:x":{}}}]},"metadata":{}}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := &heldFields{manager: "op"}
			require.Nil(t, h.read([]byte(tc.object)), "unless it is wanted")
			h.wanted.Store(true)
			require.Equal(t, tc.want, h.read([]byte(tc.object)), tc.reason)
		})
	}
}
