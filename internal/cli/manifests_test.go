package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

func sampleOptions() manifestOptions {
	return manifestOptions{name: "hello", namespace: "hello-system", image: "example.com/hello:v1", replicas: 1}
}

func printed(t *testing.T, cfg config.Operator, o manifestOptions) (stdout, stderr string) {
	t.Helper()
	var out, warnings strings.Builder
	require.NoError(t, printManifests([]Operator{{Config: cfg}}, o, &out, &warnings))
	return out.String(), warnings.String()
}

// The files show what a user gets. To write them anew, delete them.
func TestPrintManifestsGolden(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		change func(*config.Operator, *manifestOptions)
	}{
		"cluster": {"one ClusterRole for all namespaces", func(*config.Operator, *manifestOptions) {}},
		"namespaced": {"nothing cluster-wide", func(cfg *config.Operator, o *manifestOptions) {
			cfg.Namespaces = []string{"one", "two"}
			o.replicas, o.serviceMonitor, o.args = 2, true, []string{"--namespace=one"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, o := sample.Operator(), sampleOptions()
			tc.change(&cfg, &o)
			got, warnings := printed(t, cfg, o)
			require.Empty(t, warnings)
			path := filepath.Join("testdata", "manifests-"+name+".yaml")
			want, err := os.ReadFile(path)
			if os.IsNotExist(err) {
				require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
				t.Fatalf("%s written: look at it, and run again", path)
			}
			require.NoError(t, err)
			require.Equal(t, string(want), got, tc.reason)
			again, _ := printed(t, cfg, o)
			require.Equal(t, got, again, "always the same")
			if len(cfg.Namespaces) > 0 {
				require.NotContains(t, got, "Cluster")
			}
		})
	}
}

func TestRules(t *testing.T) {
	hello := sample.Operator().Parent
	parents := func(cfg *config.Operator) { cfg.Mappings[0].ClusterScoped = true }
	verbsOf := func(rules []rbacv1.PolicyRule, group, resource string) string {
		for _, r := range rules {
			if r.APIGroups[0] == group && r.Resources[0] == resource {
				return strings.Join(r.Verbs, " ")
			}
		}
		return ""
	}
	for name, tc := range map[string]struct {
		reason   string
		change   func(*config.Operator)
		want     map[string]string // group/resource -> verbs
		warnings []string
		err      string

		everywhere []string // the resources that are read in all namespaces
	}{
		"Strategies": {reason: "OnDelete never updates", want: map[string]string{
			"example.com hellos": "get list watch patch", "example.com hellos/status": "update", "example.com hellos/finalizers": "update",
			" configmaps": "get list watch create update patch delete", " pods": "get list watch create update patch delete",
			" persistentvolumeclaims": "get list watch create patch delete", "apps deployments": "get list watch create update patch delete",
			"events.k8s.io events": "create patch", "coordination.k8s.io leases": "",
		}},
		"NoChildren": {
			reason: "no owner references", change: func(cfg *config.Operator) { cfg.Children = nil },
			want: map[string]string{"example.com hellos": "get list watch patch", "example.com hellos/finalizers": ""},
		},
		"Guessed": {
			reason: "it is only a guess", change: func(cfg *config.Operator) { cfg.Mappings = nil },
			want:     map[string]string{"example.com hellos": "get list watch patch"},
			warnings: []string{`example.com/v1/Hello: taken for the namespaced resource "hellos", which is a guess; say it in config.Operator.Mappings`},
		},
		"Grants": {
			reason: "rights can't be given that one doesn't have",
			change: func(cfg *config.Operator) {
				cfg.Children = []config.Child{{Type: k8s.Role, Strategy: config.Replace}, {Type: k8s.RoleBinding, Strategy: config.Replace}}
			},
			warnings: []string{
				`rbac.authorization.k8s.io/v1/Role: who grants rights needs them himself, or the verb "escalate", which isn't in these rules; add what the children grant`,
				`rbac.authorization.k8s.io/v1/RoleBinding: who grants rights needs them himself, or the verb "bind", which isn't in these rules; add what the children grant`,
			},
		},
		"ClusterScopedChild": {
			reason: "a namespaced parent can't own it",
			change: func(cfg *config.Operator) {
				cfg.Children = []config.Child{{Type: k8s.Namespace, Strategy: config.Replace}}
			},
			err: "config: Children: v1/Namespace is cluster-scoped",
		},
		"ClusterScopedBoth": {
			reason: "that is fine",
			change: func(cfg *config.Operator) {
				parents(cfg)
				cfg.Children = []config.Child{{Type: k8s.Namespace, Strategy: config.Replace}}
			},
			want: map[string]string{" namespaces": "get list watch create update patch delete"},
		},
		"Related": {
			reason: "they are only read, and those in other namespaces everywhere",
			change: func(cfg *config.Operator) {
				cfg.Namespaces = []string{"one"}
				cfg.Related = []config.Related{
					{Type: k8s.Secret}, {Type: k8s.ConfigMap}, {Type: k8s.Pod, AnyNamespace: true}, {Type: k8s.Node}, {Type: hello},
				}
			},
			want: map[string]string{
				" secrets": "get list watch", " configmaps": "get list watch create update patch delete", " pods": "get list watch create update patch delete",
				"example.com hellos": "get list watch patch", " nodes": "",
			},
			everywhere: []string{"pods", "nodes"},
		},
		"ClusterScopedInNamespaces": {
			reason: "as at the start of the operator",
			change: func(cfg *config.Operator) { parents(cfg); cfg.Namespaces = []string{"one"} },
			err:    "config: Namespaces: " + hello.String() + " is cluster-scoped",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := sample.Operator()
			if tc.change != nil {
				tc.change(&cfg)
			}
			got, everywhere, warnings, err := rules(cfg)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err, tc.reason)
				require.ErrorContains(t, printManifests([]Operator{{Config: cfg}}, sampleOptions(), io.Discard, io.Discard), "config")
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.warnings, warnings, tc.reason)
			for of, verbs := range tc.want {
				group, resource, _ := strings.Cut(of, " ")
				require.Equal(t, verbs, verbsOf(got, group, resource), "%s: %s", of, tc.reason)
			}
			var read []string
			for _, r := range everywhere {
				require.Equal(t, []string{"get", "list", "watch"}, r.Verbs)
				read = append(read, r.Resources...)
			}
			require.Equal(t, tc.everywhere, read, tc.reason)
		})
	}
}

// A name may have dots and begin with a digit, and be that of a built-in role.
func TestManifestNames(t *testing.T) {
	for name, want := range map[string][]string{
		"admin":                 {"name: admin-operator\n", "name: admin-metrics\n"},
		"my-operator":           {"name: my-operator\n", "name: my-operator-metrics\n"},
		"3.example":             {"name: 3.example-operator\n", "name: operator-3-example-metrics\n"},
		strings.Repeat("a", 63): {"name: " + strings.Repeat("a", 55) + "-metrics\n"},
	} {
		cfg, o := sample.Operator(), sampleOptions()
		cfg.Name, o.name, o.serviceMonitor = name, name, true
		got, _ := printed(t, cfg, o)
		for _, line := range want {
			require.Contains(t, got, line)
		}
		require.NotContains(t, got, "name: admin\nroleRef", "the built-in role stays what it is")
	}
	require.Equal(t, "hello-system", defaultInstallNamespace("hello"))
	require.Equal(t, "operator-3-example-system", defaultInstallNamespace("3.example"))
	cfg := sample.Operator()
	cfg.Name = ""
	require.ErrorContains(t, printManifests([]Operator{{Config: cfg}}, sampleOptions(), io.Discard, io.Discard), "Name")
}

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
