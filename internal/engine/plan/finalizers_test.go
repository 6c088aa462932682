package plan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/internal/testing/settings"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// TestDeletingChild: a child was created with the finalizer a/ours, and has b/theirs
// too. It is being deleted.
func TestDeletingChild(t *testing.T) {
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	child := func(value string, finalizers ...any) map[string]any {
		return map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"k": value},
			"metadata": map[string]any{"name": "c", "finalizers": finalizers},
		}
	}
	for name, tc := range map[string]struct {
		reason  string
		held    []any // the finalizers that it has
		desired []any
		rest    []any    // the finalizers after a release; nil: none is released
		waits   []string // the finalizers that are waited for
	}{
		"same":      {"whoever handles it takes it off", []any{"a/ours"}, []any{child("a", "a/ours")}, nil, []string{"a/ours"}},
		"changed":   {"another state with the same finalizer", []any{"a/ours"}, []any{child("b", "a/ours")}, nil, []string{"a/ours"}},
		"dropped":   {"the desired state lacks it", []any{"a/ours", "b/theirs"}, []any{child("a")}, []any{"b/theirs"}, nil},
		"last":      {"nothing is left", []any{"a/ours"}, []any{child("b")}, []any{}, nil},
		"foreign":   {"what others have set stays", []any{"b/theirs"}, []any{child("b")}, nil, []string{"b/theirs"}},
		"new":       {"none can be added any more", []any{"b/theirs"}, []any{child("b", "a/new")}, nil, []string{"b/theirs"}},
		"free":      {"it goes without anybody's help", nil, []any{child("b")}, nil, nil},
		"undesired": {"it may be that the handler isn't done with it", []any{"a/ours", "b/theirs"}, nil, nil, []string{"a/ours"}},
		"not ours":  {"nobody waits for a child that isn't desired", []any{"b/theirs"}, nil, nil, nil},
	} {
		for _, strategy := range []config.UpdateStrategy{config.Replace, config.Recreate, config.OnDelete, config.Apply} {
			t.Run(name+"/"+string(strategy), func(t *testing.T) {
				s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: strategy})
				live := lived(t, s, parent, child("a", "a/ours"), func(o map[string]any) {
					meta, _ := o["metadata"].(map[string]any)
					meta["deletionTimestamp"], meta["finalizers"] = "2026-01-01T00:00:00Z", tc.held
				})
				desired, err := Desire(s, parent, tc.desired, &ParentMemory{})
				require.NoError(t, err)

				p := Build(s, Input{Parent: parent, Desired: desired, Children: []*resource.Resource{live}, Memory: &ParentMemory{}})

				require.Empty(t, p.Deletes)
				require.Empty(t, p.Refused)
				if tc.rest != nil {
					require.Len(t, p.Writes, 1, tc.reason)
					require.Equal(t, VerbRelease, p.Writes[0].Verb)
					require.Equal(t, tc.rest, p.Writes[0].Diffs[0].Desired, tc.reason)
					step, ok := Foresee(&p.Writes[0])
					require.True(t, ok)
					require.Equal(t, "update", step.Verb)
					require.Equal(t, map[string]any{"k": "a"}, step.Object["data"], "nothing else changes")
				} else {
					require.Empty(t, p.Writes, tc.reason)
				}
				var waits []string
				for _, w := range p.Waits {
					waits = append(waits, w.Finalizers...)
					require.Equal(t, len(desired) > 0, w.Desired)
				}
				require.Equal(t, tc.waits, waits, tc.reason)
			})
		}
	}
}
