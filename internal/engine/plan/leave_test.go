package plan

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/encode"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/internal/testing/settings"
	"github.com/roperator/roperator/resource/k8s"
)

func TestLeave(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	desire := func(memory *ParentMemory, child any) *Desired {
		out, err := Desire(s, parent, []any{child}, memory)
		require.NoError(t, err)
		return out[0]
	}
	leave := func(value string, paths ...string) any { return encode.Left{Child: testConfigMap(value), Paths: paths} }
	memory := &ParentMemory{}

	left := desire(memory, leave("v", "data"))
	require.Equal(t, left.Hash(), desire(memory, leave("w", "data")).Hash(), "the value is no part of the desired state")
	require.NotEqual(t, left.Hash(), desire(memory, testConfigMap("v")).Hash())
	require.NotEqual(t, left.sum, desire(memory, testConfigMap("v")).sum, "the paths are part of what the handler returned")
	require.True(t, strings.HasSuffix(newMark(s, left), ":metadata{}"), "the mark doesn't name what is others'")
	data, _ := left.Object()["data"].(map[string]any)
	require.NotEmpty(t, data, "the child is created with it")

	for text, path := range map[string]string{"spec..x": "spec..x", `metadata.labels.a.b`: "metadata.labels.a.b"} {
		_, err := Desire(s, parent, []any{leave("v", text)}, memory)
		require.ErrorContains(t, err, "handler.Leave: field path")
		require.ErrorContains(t, err, path)
		require.ErrorContains(t, err, "ConfigMap")
	}

	// What was set before is handed over by the first write, and by no other.
	live := lived(t, s, parent, testConfigMap("v"), func(o map[string]any) {
		meta, _ := o["metadata"].(map[string]any)
		meta["annotations"] = map[string]any{s.Mark: newMark(s, desire(memory, testConfigMap("v")))}
	})
	a, ok := Next(s, Action{Live: live, Want: left}, memorized{})
	require.True(t, ok)
	require.Equal(t, VerbMark, a.Verb, "nothing but the mark changes")
	require.True(t, a.HandsOver())
	after, ok := Next(s, a, Disowned{Live: live})
	require.True(t, ok)
	require.Equal(t, VerbMark, after.Verb)
	require.False(t, after.HandsOver())
}
