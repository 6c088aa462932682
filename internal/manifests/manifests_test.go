package manifests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

func sampleOptions() Options {
	return Options{Name: "hello", Namespace: "hello-system", Image: "example.com/hello:v1", Replicas: 1,
		MetricsPort: MetricsPort, HealthPort: HealthPort, Resources: DefaultResources(), ChartVersion: "1.2.3",
	}
}

func printed(t *testing.T, cfg config.Operator, o Options) (text string, warnings []string) {
	t.Helper()
	made, err := Make([]config.Operator{cfg}, o)
	require.NoError(t, err)
	out, err := made.YAML()
	require.NoError(t, err)
	return string(out), made.Warnings
}

// The files show what a user gets. To write them anew, delete them.
func TestYAMLGolden(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		change func(*config.Operator, *Options)
	}{
		"cluster": {"one ClusterRole for all namespaces", func(*config.Operator, *Options) {}},
		"namespaced": {"nothing cluster-wide", func(cfg *config.Operator, o *Options) {
			cfg.Namespaces = []string{"one", "two"}
			o.Replicas, o.ServiceMonitor, o.FixedArgs = 2, true, []string{"--namespace=one"}
		}},
		"window": {"a window that asks for a token: its port, the rights to ask, and those to look", func(_ *config.Operator, o *Options) {
			o.NetworkPolicy, o.WindowPort, o.Args = true, 8090, []string{"--window-bind-address=0.0.0.0:8090"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, o := sample.Operator(), sampleOptions()
			tc.change(&cfg, &o)
			got, warnings := printed(t, cfg, o)
			require.Empty(t, warnings)
			path := filepath.Join("testdata", name+".yaml")
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
			warnings: []string{`example.com/v1/Hello: taken for the namespaced resource "hellos", which is a guess; say it in config.Operator.Mappings, or by its CustomResourceDefinition in CRDs`},
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
				_, err = Make([]config.Operator{cfg}, sampleOptions())
				require.ErrorContains(t, err, "config")
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
func TestNames(t *testing.T) {
	for name, want := range map[string][]string{
		"admin":                 {"name: admin-operator\n", "name: admin-metrics\n"},
		"my-operator":           {"name: my-operator\n", "name: my-operator-metrics\n"},
		"3.example":             {"name: 3.example-operator\n", "name: operator-3-example-metrics\n"},
		strings.Repeat("a", 63): {"name: " + strings.Repeat("a", 55) + "-metrics\n"},
	} {
		cfg, o := sample.Operator(), sampleOptions()
		cfg.Name, o.Name, o.ServiceMonitor = name, name, true
		got, _ := printed(t, cfg, o)
		for _, line := range want {
			require.Contains(t, got, line)
		}
		require.NotContains(t, got, "name: admin\nroleRef", "the built-in role stays what it is")
	}
	require.Equal(t, "hello-system", DefaultNamespace("hello"))
	require.Equal(t, "operator-3-example-system", DefaultNamespace("3.example"))
	cfg := sample.Operator()
	cfg.Name = ""
	_, err := Make([]config.Operator{cfg}, sampleOptions())
	require.ErrorContains(t, err, "Name")
}
