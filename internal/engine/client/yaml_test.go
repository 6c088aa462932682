package client

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// TestAppliedBodyOf: each character arrives, whether it is read as JSON or as YAML.
func TestAppliedBodyOf(t *testing.T) {
	for _, text := range []string{"plain", "\u007f", "a\u0080\u0085\u009fb", "\u2028\u2029", "\ufeffa", "\ufffe\uffff", "é 👩‍👩‍👧‍👦 \x00\x1f\t\r\n\"\\"} {
		object := map[string]any{"data": map[string]any{"k": text, text: "v"}}
		body, err := AppliedBodyOf(object)
		require.NoError(t, err)
		var read map[string]any
		require.NoError(t, json.Unmarshal(body, &read))
		require.Equal(t, object, read, "as JSON: %q", text)
		read = nil
		require.NoError(t, yaml.Unmarshal(body, &read), "%q", text)
		require.Equal(t, object, read, "as YAML: %q", text)
	}
}
