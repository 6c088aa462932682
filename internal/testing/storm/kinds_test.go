package storm

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

const siteDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: webs.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {kind: Site, plural: webs}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
  - {name: v2, served: true, storage: false, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object}}}
`

// sitesWith returns an operator whose parents are Sites.
func sitesWith(change func(*config.Operator)) config.Operator {
	cfg := config.Operator{Name: "sites", Parent: site()}
	change(&cfg)
	return cfg
}

// served returns the kind of a type, and fails the test if there isn't exactly one.
func served(t *testing.T, all []fakeapi.Kind, of resource.Type) fakeapi.Kind {
	t.Helper()
	all = slices.DeleteFunc(slices.Clone(all), func(k fakeapi.Kind) bool { return k.Type != of })
	require.Len(t, all, 1, "%s is served once", of)
	return all[0]
}

// A kindCase says how a type is served.
type kindCase struct {
	reason string
	cfg    func(*config.Operator)
	steps  func(*Scenario)
	want   fakeapi.Kind
}

func TestKindsOfParents(t *testing.T) {
	later := resource.Type{APIVersion: "example.com/v2", Kind: "Site"}
	holdsKinds(t, map[string]kindCase{
		"Guessed": {
			"a custom type is namespaced and has a status, if nobody says otherwise",
			func(*config.Operator) {}, func(*Scenario) {},
			fakeapi.Kind{Type: site(), Plural: "sites", Status: true, Generation: true},
		},
		"Mapping": {
			"the author says how it is served",
			func(c *config.Operator) {
				c.Mappings = []resource.Mapping{{Type: site(), Plural: "siten", ClusterScoped: true}}
			}, func(*Scenario) {},
			fakeapi.Kind{Type: site(), Plural: "siten", ClusterScoped: true, Status: true, Generation: true},
		},
		"MappingOfAnother": {
			"what is said of another type says nothing of it",
			func(c *config.Operator) {
				c.Mappings = []resource.Mapping{{Type: k8s.Job, Plural: "jobben", ClusterScoped: true}}
			}, func(*Scenario) {},
			fakeapi.Kind{Type: site(), Plural: "sites", Status: true, Generation: true},
		},
		"CRD": {
			"its definition knows it best: this version has no status",
			func(c *config.Operator) {
				c.CRDs = [][]byte{[]byte(siteDefinition)}
				c.Mappings = []resource.Mapping{{Type: site(), Plural: "siten"}}
			}, func(*Scenario) {},
			fakeapi.Kind{Type: site(), Plural: "webs", ClusterScoped: true, Generation: true},
		},
		"CRDVersion": {
			"another version may have one",
			func(c *config.Operator) { c.CRDs, c.Parent = [][]byte{[]byte(siteDefinition)}, later }, func(*Scenario) {},
			fakeapi.Kind{Type: later, Plural: "webs", ClusterScoped: true, Status: true, Generation: true},
		},
		"CRDOfAnother": {
			"a definition of another type says nothing of it",
			func(c *config.Operator) {
				c.CRDs, c.Parent.APIVersion = [][]byte{[]byte(siteDefinition)}, "example.org/v1"
			}, func(*Scenario) {},
			fakeapi.Kind{Type: resource.Type{APIVersion: "example.org/v1", Kind: "Site"}, Plural: "sites", Status: true, Generation: true},
		},
	})
}

func TestKindsOfOthers(t *testing.T) {
	holdsKinds(t, map[string]kindCase{
		"Child": {
			"children are served",
			func(c *config.Operator) {
				c.Children = []config.Child{{Type: k8s.Deployment, Strategy: config.Replace}}
			}, func(*Scenario) {},
			fakeapi.Kind{Type: k8s.Deployment, Plural: "deployments", Status: true, Generation: true},
		},
		"Applied": {
			"what is applied has managedFields",
			func(c *config.Operator) {
				c.Children = []config.Child{{Type: k8s.Deployment, Strategy: config.Apply}}
			}, func(*Scenario) {},
			fakeapi.Kind{Type: k8s.Deployment, Plural: "deployments", Status: true, Generation: true, Applies: true},
		},
		"Related": {
			"what the handler looks at is, and a ConfigMap has neither status nor generation",
			func(c *config.Operator) { c.Related = []config.Related{{Type: k8s.ConfigMap}} }, func(*Scenario) {},
			fakeapi.Kind{Type: k8s.ConfigMap, Plural: "configmaps"},
		},
		"Step": {
			"what the scenario has is, cluster-scoped if it is built in as such",
			func(*config.Operator) {}, func(s *Scenario) { s.Create(namespace("ns")); s.Delete(namespace("ns")) },
			fakeapi.Kind{Type: k8s.Namespace, Plural: "namespaces", ClusterScoped: true, Status: true},
		},
		"Controller": {
			"what its controllers see to is",
			func(*config.Operator) {}, func(s *Scenario) { s.Controller(k8s.NetworkPolicy, func(map[string]any) {}) },
			fakeapi.Kind{Type: k8s.NetworkPolicy, Plural: "networkpolicies", Status: true, Generation: true},
		},
		"Lease": {
			"the election needs it",
			func(*config.Operator) {}, func(*Scenario) {},
			fakeapi.Kind{Type: k8s.Lease, Plural: "leases"},
		},
	})
}

func holdsKinds(t *testing.T, cases map[string]kindCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := &Scenario{}
			tc.steps(s)
			all, err := kindsOf(sitesWith(tc.cfg), handler.Funcs{}, s)
			require.NoError(t, err)
			is := served(t, all, tc.want.Type)
			require.Equal(t, tc.want.Plural == "webs", is.Schema != nil, "what a definition says has its schema")
			is.Schema = nil
			if is.Schema == nil {
				tc.want = fakeapi.Typed(tc.want)
			}
			require.Equal(t, tc.want, is, tc.reason)
		})
	}
}

// TestKindsOfScenarios holds that a scenario may bring definitions, too.
func TestKindsOfScenarios(t *testing.T) {
	path := filepath.Join(t.TempDir(), "crd.yaml")
	require.NoError(t, os.WriteFile(path, []byte(siteDefinition), 0o600))
	s := &Scenario{}
	s.CRDs(path)
	all, err := kindsOf(sitesWith(func(*config.Operator) {}), handler.Funcs{}, s)
	require.NoError(t, err)
	require.Equal(t, "webs", served(t, all, site()).Plural)

	s.definitions = append(s.definitions, []byte("kind: Pod"))
	_, err = kindsOf(sitesWith(func(*config.Operator) {}), handler.Funcs{}, s)
	require.ErrorContains(t, err, "scenario: CRDs: ")

	s.CRDs(path + ".missing")
	require.ErrorContains(t, s.err, "scenario: CRDs: open ")
}

func TestKindsOfServesEachOnce(t *testing.T) {
	s := &Scenario{}
	s.Create(configMap("ns", "a"))
	s.Create(aSite("ns", "a"))
	s.Create(map[string]any{"apiVersion": fakeapi.Events().Type.APIVersion, "kind": "Event", "metadata": map[string]any{"name": "a"}})
	all, err := kindsOf(sitesWith(func(c *config.Operator) {
		c.Children = []config.Child{{Type: k8s.ConfigMap, Strategy: config.Apply}}
	}), handler.Funcs{}, s)
	require.NoError(t, err)
	var types []resource.Type
	for _, k := range all {
		types = append(types, k.Type)
	}
	require.ElementsMatch(t, []resource.Type{k8s.Lease, site(), k8s.ConfigMap}, types, "a server serves Events anyway")
}

func TestKindsOfKnowsBuiltInTypes(t *testing.T) {
	s := &Scenario{controllers: map[resource.Type][]func(map[string]any){}}
	for _, m := range k8s.Mappings() {
		s.controllers[m.Type] = nil
	}
	all, err := kindsOf(sitesWith(func(*config.Operator) {}), handler.Funcs{}, s)
	require.NoError(t, err)
	for _, m := range k8s.Mappings() {
		if m.Type == fakeapi.Events().Type {
			continue
		}
		k := served(t, all, m.Type)
		require.Equal(t, resource.Mapping{Type: k.Type, Plural: k.Plural, ClusterScoped: k.ClusterScoped}, m, "as an API server serves it")
	}
}

func TestKindsOfRefuses(t *testing.T) {
	_, err := kindsOf(sitesWith(func(c *config.Operator) { c.CRDs = [][]byte{[]byte("kind: Pod")} }), handler.Funcs{}, &Scenario{})
	require.ErrorContains(t, err, "config.Operator: CRDs: ", "the author has to know where the mistake is")
}

func TestHasStatus(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		t      resource.Type
		want   bool
	}{
		"Custom":     {"custom types are taken to have one", site(), true},
		"ConfigMap":  {"it only has data", k8s.ConfigMap, false},
		"Secret":     {"it only has data", k8s.Secret, false},
		"Role":       {"it only has rules", k8s.Role, false},
		"Lease":      {"it only has a spec", k8s.Lease, false},
		"Pod":        {"the kubelet writes one", k8s.Pod, true},
		"Namespace":  {"it has a phase", k8s.Namespace, true},
		"Service":    {"it may have a load balancer", k8s.Service, true},
		"OtherGroup": {"a custom type may have the name of a built-in one", resource.Type{APIVersion: "example.com/v1", Kind: "Secret"}, true},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, fakeapi.KindOf(tc.t).Status, tc.reason) })
	}
}

func TestKindOf(t *testing.T) {
	w := &world{kinds: []fakeapi.Kind{{Type: site(), Plural: "siten"}, fakeapi.ConfigMaps()}}
	for plural, tc := range map[string]struct{ reason, want string }{
		"siten":      {"a plural needn't look like the kind", "Site"},
		"configmaps": {"kinds are spelled as people do", "ConfigMap"},
		"unknowns":   {"what isn't served has some name, too", "unknown"},
	} {
		t.Run(plural, func(t *testing.T) { require.Equal(t, tc.want, w.kindOf(plural), tc.reason) })
	}
}
