package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// Several operators have one installation, with the rights that they need together.
func TestManifestsOfSeveral(t *testing.T) {
	everywhere, restricted := sample.Operator(), sample.Operator()
	restricted.Name, restricted.Namespaces = "restricted", []string{"one"}
	restricted.Related = []config.Related{{Type: k8s.Node}, {Type: k8s.Secret}}
	elsewhere := restricted
	elsewhere.Name, elsewhere.Namespaces, elsewhere.Children = "elsewhere", []string{"two", "one"}, nil
	type kindAndName = [2]string
	kinds := func(text string) (out []kindAndName) {
		for doc := range strings.SplitSeq(text, "---\n") {
			var o metav1.PartialObjectMetadata
			require.NoError(t, yaml.Unmarshal([]byte(doc), &o))
			if strings.HasSuffix(o.Kind, "Role") {
				out = append(out, kindAndName{o.Kind, strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")})
			}
		}
		return out
	}
	for name, tc := range map[string]struct {
		reason    string
		operators []config.Operator
		want      []kindAndName
	}{
		"Mixed": {
			"the one that works everywhere gives the ClusterRole its name", []config.Operator{everywhere, restricted},
			[]kindAndName{{"ClusterRole", "both-operator"}, {"Role", "one/both-operator"}, {"Role", "elect/both-operator-leader-election"}},
		},
		"Restricted": {
			"only related objects are read everywhere", []config.Operator{restricted, elsewhere},
			[]kindAndName{{"ClusterRole", "both-operator-related"}, {"Role", "one/both-operator"}, {"Role", "two/both-operator"}, {"Role", "elect/both-operator-leader-election"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Program{Name: "both", Defaults: Defaults{MetricsAddress: "0", HealthAddress: ":9", Lease: types.NamespacedName{Namespace: "elect", Name: "turns"}}}
			for _, cfg := range tc.operators {
				p.Operators = append(p.Operators, Operator{Config: cfg})
			}
			var stdout, stderr strings.Builder
			require.Zero(t, p.Do(t.Context(), []string{"manifests", "--image=i"}, &stdout, &stderr), stderr.String())
			got := stdout.String()
			require.Equal(t, tc.want, kinds(got), tc.reason)
			for _, want := range []string{
				"# The operators " + tc.operators[0].Name + ", " + tc.operators[1].Name + ", to be applied once their CustomResourceDefinitions and the namespace both-system are there.\n",
				"- --metrics-bind-address=:8080\n", "- --health-probe-bind-address=:8081\n", "  - turns\n",
			} {
				require.Contains(t, got, want)
			}
			for role := range strings.SplitSeq(got, "---\n") {
				require.LessOrEqual(t, strings.Count(role, "  - configmaps\n"), 1, "one rule for each resource")
			}
		})
	}
	for name, want := range map[string]string{"My_Program": `"My_Program" can't be the name of a Deployment`, strings.Repeat("a", 64): "at most 63"} {
		p := &Program{Name: name, Operators: []Operator{{Config: everywhere}}}
		var stdout, stderr strings.Builder
		require.Equal(t, exitError, p.Do(t.Context(), []string{"manifests", "--image=i"}, &stdout, &stderr))
		require.Contains(t, stderr.String(), want)
		require.Empty(t, stdout.String())
	}
}
