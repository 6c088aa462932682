package manifests

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
)

// hellos is the CustomResourceDefinition of the sample's parents, with a plural that
// nobody guesses.
func hellos(scope, more string) []byte {
	return fmt.Appendf(nil, `# greetings
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: helloes.example.com%s}
spec:
  group: example.com
  names: {kind: Hello, plural: helloes, singular: hello, listKind: HelloList}
  scope: %s
  versions: [{name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`, more, scope)
}

// What a definition says is no guess: how the parents are served, and what is printed.
func TestDefinitions(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		change func(cfg *config.Operator)
		want   string
		err    string
	}{
		"Plural": {"it is read", func(cfg *config.Operator) { cfg.CRDs = [][]byte{hellos("Namespaced", "")} }, "  - helloes/status\n", ""},
		"Scope": {
			"so is that", func(cfg *config.Operator) {
				cfg.CRDs, cfg.Namespaces = [][]byte{hellos("Cluster", "")}, []string{"one"}
			}, "", "example.com/v1/Hello is cluster-scoped",
		},
		"Mapping": {
			"one of them is wrong", func(cfg *config.Operator) {
				cfg.CRDs, cfg.Mappings = [][]byte{hellos("Namespaced", "")}, []resource.Mapping{{Type: cfg.Parent, Plural: "hellos"}}
			}, "", "Mappings: example.com/v1/Hello isn't served as the CustomResourceDefinition helloes.example.com says; take the Mapping out",
		},
		"NotOne": {"nothing is made", func(cfg *config.Operator) { cfg.CRDs = [][]byte{[]byte("kind: Pod")} }, "", "CRDs[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := sample.Operator()
			cfg.Mappings = nil
			tc.change(&cfg)
			made, err := Make([]config.Operator{cfg}, sampleOptions())
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err, tc.reason)
				return
			}
			require.NoError(t, err)
			require.Empty(t, made.Warnings)
			text, err := made.YAML()
			require.NoError(t, err)
			require.Contains(t, string(text), tc.want, tc.reason)
			require.Contains(t, string(text), "# The operator hello, to be applied once the namespace hello-system is there.\n---\napiVersion: apiextensions.k8s.io/v1\n", "the definitions come first")
			files, err := made.Kustomize()
			require.NoError(t, err)
			require.Contains(t, string(files["kustomization.yaml"]), "resources:\n- crds/helloes.example.com.yaml\n- service-account.yaml\n")
			require.Contains(t, string(files["crds/helloes.example.com.yaml"]), "plural: helloes\n")
		})
	}
}

// Two operators may bring the same definition, and not two that differ.
func TestDefinitionsOfSeveral(t *testing.T) {
	one, two := sample.Operator(), sample.Operator()
	two.Name = "two"
	one.Mappings, two.Mappings = nil, nil
	one.CRDs, two.CRDs = [][]byte{hellos("Namespaced", "")}, [][]byte{hellos("Namespaced", "")}
	made, err := Make([]config.Operator{one, two}, sampleOptions())
	require.NoError(t, err)
	require.Len(t, made.crds, 1)
	two.CRDs = [][]byte{hellos("Namespaced", ", labels: {a: b}")}
	_, err = Make([]config.Operator{one, two}, sampleOptions())
	require.ErrorContains(t, err, "config: two: CRDs[0]: CustomResourceDefinition helloes.example.com: another operator has one of this name that differs")
}

// The operators may apply their own definitions on request, and no others.
func TestRightsToInstall(t *testing.T) {
	cfg, o := sample.Operator(), sampleOptions()
	cfg.Mappings, cfg.CRDs = nil, [][]byte{hellos("Namespaced", "")}
	text, _ := printed(t, cfg, o)
	require.NotContains(t, text, "- customresourcedefinitions\n")
	o.InstallCRDs = true
	text, _ = printed(t, cfg, o)
	require.Contains(t, text, "  - apiextensions.k8s.io\n  resourceNames:\n  - helloes.example.com\n  resources:\n  - customresourcedefinitions\n  verbs:\n  - get\n  - patch\n")
	require.Contains(t, text, "- --install-crds=true\n")
}

// Further rules hold where the operators work, or where they say.
func TestGrant(t *testing.T) {
	rule := func(name string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{name}, Verbs: []string{"get"}}
	}
	url := rbacv1.PolicyRule{NonResourceURLs: []string{"/x"}, Verbs: []string{"get"}}
	for name, tc := range map[string]struct {
		reason     string
		namespaces []string
		want       map[string][]string // namespace, "" for everywhere -> the resources and URLs besides
	}{
		"Everywhere": {"it works in all namespaces", nil, map[string][]string{"": {"listed", "/x", "cluster"}, "mine": {"role"}}},
		"Restricted": {"it works there alone", []string{"one", "two"}, map[string][]string{"": {"/x", "cluster"}, "one": {"listed"}, "two": {"listed"}, "mine": {"role"}}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := sample.Operator()
			cfg.Namespaces = tc.namespaces
			plain, _, err := rightsOf([]config.Operator{cfg})
			require.NoError(t, err)
			got, _, err := rightsOf([]config.Operator{cfg})
			require.NoError(t, err)
			got.grant([]rbacv1.PolicyRule{rule("listed"), url}, []Role{{"mine", []rbacv1.PolicyRule{rule("role")}}, {"", []rbacv1.PolicyRule{rule("cluster")}}})
			names := func(rules []rbacv1.PolicyRule) (out []string) {
				for _, r := range rules {
					out = append(append(out, r.Resources...), r.NonResourceURLs...)
				}
				return out
			}
			for namespace, want := range tc.want {
				all, before := got.in[namespace], plain.in[namespace]
				if namespace == "" {
					all, before = got.everywhere, plain.everywhere
				}
				require.Equal(t, want, names(all)[len(names(before)):], "%s: %s", namespace, tc.reason)
			}
		})
	}
}

// What looks like an action of a template isn't one.
func TestTemplatesAreLiteral(t *testing.T) {
	var c template
	text, err := c.render(map[string]any{"a": "{{ .Values.x }}", "b": c.inline(".Release.Name"), "c": []any{c.optional("with .Values.y")}, "helm": "helm-value-99-x"})
	require.NoError(t, err)
	require.Equal(t, "a: '{{ \"{{\" }} .Values.x }}'\nb: {{ .Release.Name }}\nc:\n{{- with .Values.y }}\n{{- toYaml . | nindent 0 }}\n{{- end }}\nhelm: helm-value-99-x\n", text)
}
