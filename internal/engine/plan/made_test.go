package plan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/internal/testing/settings"
	"github.com/roperator/roperator/resource/k8s"
)

// TestMadeBesideWhatIsNew: a child has all that is desired of it, and was last given another
// desired state. What the API server made beside the fields that are new may follow
// from their absence. An update finds that out.
func TestMadeBesideWhatIsNew(t *testing.T) {
	const head = `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"c"`
	made := func(o map[string]any) { // by the API server
		meta, _ := o["metadata"].(map[string]any)
		annotations, _ := meta["annotations"].(map[string]any)
		annotations["theirs"] = "b"
		o["spec"] = map[string]any{
			"serviceName": "s", "updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"partition": int64(0)}},
		}
	}
	for name, tc := range map[string]struct {
		reason   string
		strategy config.UpdateStrategy
		desired  string
		verb     Verb
		made     []string // what the update is to be tried without
	}{
		"replace":   {"the type is said, and beside it a partition was made", config.Replace, head + `},"spec":{"serviceName":"s","updateStrategy":{"type":"RollingUpdate"}}}`, VerbUpdate, []string{".spec.updateStrategy.rollingUpdate"}},
		"apply":     {"so it is here", config.Apply, head + `},"spec":{"serviceName":"s","updateStrategy":{"type":"RollingUpdate"}}}`, VerbApply, []string{".spec.updateStrategy.rollingUpdate"}},
		"recreate":  {"nothing is deleted for that", config.Recreate, head + `},"spec":{"serviceName":"s","updateStrategy":{"type":"RollingUpdate"}}}`, VerbMark, nil},
		"on delete": {"nor written", config.OnDelete, head + `},"spec":{"serviceName":"s","updateStrategy":{"type":"RollingUpdate"}}}`, VerbMark, nil},
		"metadata":  {"nothing is made of an annotation", config.Replace, head + `,"annotations":{"theirs":"b"}},"spec":{"serviceName":"s"}}`, VerbMark, nil},
		"same":      {"nothing is new", config.Replace, head + `},"spec":{"serviceName":"s"}}`, VerbNone, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := settings.For(config.Child{Type: k8s.StatefulSet, Strategy: tc.strategy})
			parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
			live := lived(t, s, parent, []byte(head+`},"spec":{"serviceName":"s"}}`), made)
			desired, err := Desire(s, parent, []any{[]byte(tc.desired)}, &ParentMemory{})
			require.NoError(t, err)

			a, ok := decide(s, desired[0], live, nil, ownership{}, nil, &Action{})

			require.True(t, ok)
			require.Equal(t, tc.verb, a.Verb, tc.reason)
			require.Empty(t, a.Diffs)
			if tc.verb == VerbNone {
				return
			}
			_, shown := Foresee(&a)
			require.False(t, shown, "nobody would see that the mark changes")
			var shapes []string
			for _, f := range Made(&a, UpdateBody(s, &a, parent)) {
				shapes = append(shapes, f.Shape())
			}
			require.Equal(t, tc.made, shapes, tc.reason)
		})
	}
}
