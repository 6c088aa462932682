package plan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/encode"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/internal/testing/settings"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// A desired state that only says more leads to an update, so that defaults are made
// anew, whether a field is normalized or not.
func TestPlanSaysMore(t *testing.T) {
	for strategy, verb := range map[config.UpdateStrategy]Verb{
		config.Replace: VerbUpdate, config.Apply: VerbApply, config.Recreate: VerbMark, config.OnDelete: VerbMark,
	} {
		for _, live := range []string{"v", "normalized"} {
			t.Run(string(strategy)+"/"+live, func(t *testing.T) {
				s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: strategy})
				parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
				less, more := testConfigMap("v"), testConfigMap("v")
				more.Data["other"] = "x"
				made := lived(t, s, parent, less, func(o map[string]any) { o["data"] = map[string]any{"k": live, "other": "x"} })
				in := Input{Parent: parent, Memory: NewMemory().Of("p"), Children: []*resource.Resource{made}}
				former, err := Desire(s, parent, []any{less}, in.Memory)
				require.NoError(t, err)
				in.Memory.Accept(former[0], made, s.Types.Of(k8s.ConfigMap).Comparison.Compare(made.Unstructured().Object, former[0].object, nil))
				in.Desired, err = Desire(s, parent, []any{more}, in.Memory)
				require.NoError(t, err)
				p := Build(s, in)
				require.Len(t, p.Writes, 1)
				require.Equal(t, verb, p.Writes[0].Verb)
				require.Empty(t, p.Writes[0].Diffs)
				_, foreseen := Foresee(&p.Writes[0])
				require.False(t, foreseen, "nobody but the engine would see a difference")
			})
		}
	}
}

// Other values of the same fields, which are there already, are nothing more, whether
// some fields are left to others or not.
func TestPlanSaysNoMore(t *testing.T) {
	for _, left := range []string{"data.k", "data.other"} {
		t.Run(left, func(t *testing.T) {
			s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
			parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
			want := func(value string) any {
				child := testConfigMap(value)
				child.Data["other"], child.Data["third"] = "x", value
				return encode.Left{Child: child, Paths: []string{left}}
			}
			made := lived(t, s, parent, want("v"), func(o map[string]any) {
				o["data"] = map[string]any{"k": "w", "other": "x", "third": "w"}
			})
			desired, err := Desire(s, parent, []any{want("w")}, &ParentMemory{})
			require.NoError(t, err)
			p := Build(s, Input{Parent: parent, Memory: NewMemory().Of("p"), Children: []*resource.Resource{made}, Desired: desired})
			require.Len(t, p.Writes, 1)
			require.Equal(t, VerbMark, p.Writes[0].Verb)
		})
	}
}
