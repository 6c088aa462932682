package client

import (
	"bytes"
	"encoding/json"
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
		"status":  {"a subresource has fields of its own", head + `[{"manager":"op","subresource":"status","fieldsV1":{"f:status":{}}}]}}`, nil},
		"empty":   {"an entry may have no fields", head + `[{"manager":"op"}]}}`, nil},
		"no list": {"anything may stand there", head + `null}}`, nil},
		"spaced": {
			"no API server writes spaces, but a proxy may", head + " [ {\n\"manager\" : \"op\" , \"fieldsV1\" : {\"f:a\": {}} } ] } }",
			[]string{`{"f:a": {}}`},
		},
		"manager last": {"the order of members doesn't matter", head + `[{"fieldsV1":{"f:a":{}},"manager":"op"},{"fieldsV1":{"f:b":{}},"manager":"other"}]}}`, []string{`{"f:a":{}}`}},
		"escaped":      {"whoever wrote it", head + `[{"manager":"\u006fp","fieldsV1":{"f:a":{}}}]}}`, []string{`{"f:a":{}}`}},
		"no manager":   {"an entry may be nobody's", head + `[{"fieldsV1":{"f:a":{}}}]}}`, nil},
		"elsewhere":    {"nested objects have managedFields, too", `{"data":{"managedFields":[{"manager":"op","fieldsV1":{"f:x":{}}}]},"metadata":{}}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := &heldFields{manager: "op"}
			require.Nil(t, h.read([]byte(tc.object)), "unless it is wanted")
			h.wanted.Store(true)
			require.Equal(t, tc.want, h.read([]byte(tc.object)), tc.reason)
		})
	}
}

// FuzzHeldFields holds heldFields against encoding/json.
func FuzzHeldFields(f *testing.F) {
	f.Add([]byte(`{"metadata":{"managedFields":[{"manager":"op","fieldsV1":{"f:a":{}}},{"manager":"op","subresource":"status","fieldsV1":{"f:b":{}}}]}}`))
	f.Add([]byte(` { "metadata" : { "a" : [ 1, "}" ], "managedFields" : [ 1 , { "fieldsV1" : {"k:{\"a\":1}": {}} , "manager" : "op" } ] } } `))
	f.Fuzz(func(t *testing.T, object []byte) {
		h := &heldFields{manager: "op"}
		h.wanted.Store(true)
		got := h.read(object) // whatever it is, this doesn't panic
		var compact bytes.Buffer
		var decoded any
		if json.Compact(&compact, object) != nil || json.Unmarshal(object, &decoded) != nil {
			return
		}
		if again, err := json.Marshal(decoded); err != nil || len(again) != compact.Len() {
			return // it has a member twice, of which either may count, or a key written with escapes
		}
		raw := func(object json.RawMessage, name string) json.RawMessage {
			var members map[string]json.RawMessage
			_ = json.Unmarshal(object, &members) // of what is no object there are none
			return members[name]
		}
		var entries []json.RawMessage
		_ = json.Unmarshal(raw(raw(object, "metadata"), "managedFields"), &entries)
		var want []string
		for _, entry := range entries {
			if string(raw(entry, "manager")) == `"op"` && raw(entry, "subresource") == nil && raw(entry, "fieldsV1") != nil {
				want = append(want, string(raw(entry, "fieldsV1")))
			}
		}
		require.Equal(t, want, got)
	})
}
