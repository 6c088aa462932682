package relate_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/defaults"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/relate"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// resolving returns what resolves references, for parents in namespaces or without.
func resolving(t *testing.T, namespaced bool, related ...config.Related) (func(parent *resource.Resource, refs []handler.Ref) ([]relate.Query, error), error) {
	t.Helper()
	cfg := defaults.Apply(config.Operator{
		Name: "op", Parent: sample.ParentType(), Related: related,
		Mappings: []resource.Mapping{{Type: sample.ParentType(), Plural: "parents", ClusterScoped: !namespaced}},
	})
	require.NoError(t, cfg.Validate())
	kinds, err := catalog.Offline(cfg)
	if err != nil {
		return nil, err
	}
	return func(parent *resource.Resource, refs []handler.Ref) ([]relate.Query, error) {
		return relate.NewResolver(cfg.Related).Queries(kinds, parent, refs)
	}, nil
}

func parentWith(t *testing.T, namespace string, spec map[string]any) *resource.Resource {
	t.Helper()
	meta := map[string]any{"name": "p", "uid": "p", "resourceVersion": "1"}
	if namespace != "" {
		meta["namespace"] = namespace
	}
	res, err := resource.New(map[string]any{"apiVersion": sample.ParentType().APIVersion, "kind": sample.ParentType().Kind, "metadata": meta, "spec": spec})
	require.NoError(t, err)
	return res
}

func TestQueries_ByFields(t *testing.T) {
	secret := func(name string) relate.Query {
		return relate.Query{Type: k8s.Secret, Namespace: "ns", Name: name}
	}
	for name, tc := range map[string]struct {
		reason string
		path   string
		spec   map[string]any
		want   []relate.Query
		err    string
	}{
		"Name":      {"the plain case", "spec.secret", map[string]any{"secret": "a"}, []relate.Query{secret("a")}, ""},
		"Missing":   {"it refers to nothing", "spec.secret", nil, nil, ""},
		"Empty":     {"so does an empty name", "spec.secret", map[string]any{"secret": ""}, nil, ""},
		"Null":      {"so does null", "spec.secret", map[string]any{"secret": nil}, nil, ""},
		"List":      {"each once, sorted", "spec.secrets", map[string]any{"secrets": []any{"b", "a", "b", ""}}, []relate.Query{secret("a"), secret("b")}, ""},
		"Items":     {"a field of every item", "spec.volumes[*].secret.name", map[string]any{"volumes": []any{map[string]any{"secret": map[string]any{"name": "a"}}, map[string]any{}, map[string]any{"secret": map[string]any{"name": "b"}}}}, []relate.Query{secret("a"), secret("b")}, ""},
		"Key":       {"of the item with that key", "spec.env[name=x].from", map[string]any{"env": []any{map[string]any{"name": "y", "from": "b"}, map[string]any{"name": "x", "from": "a"}}}, []relate.Query{secret("a")}, ""},
		"Index":     {"of the item at that place", "spec.env[1]", map[string]any{"env": []any{"a", "b"}}, []relate.Query{secret("b")}, ""},
		"Values":    {"of every value", "spec.by[*]", map[string]any{"by": map[string]any{"x": "b", "y": "a"}}, []relate.Query{secret("a"), secret("b")}, ""},
		"Number":    {"it isn't a name", "spec.secret", map[string]any{"secret": int64(7)}, nil, "related: spec.secret: neither a name nor a list of names"},
		"Object":    {"nor is an object", "spec.secret", map[string]any{"secret": map[string]any{"name": "a"}}, nil, "related: spec.secret: neither a name nor a list of names"},
		"Path":      {"it would lead elsewhere", "spec.secret", map[string]any{"secret": "../a"}, nil, `related: spec.secret: "../a" isn't the name of a Secret`},
		"Long":      {"no object has such a name", "spec.secret", map[string]any{"secret": strings.Repeat("x", 300)}, nil, "…\" isn't the name of a Secret: it is longer than 253 characters"},
		"Wide":      {"it is cut between its characters", "spec.secret", map[string]any{"secret": "x" + strings.Repeat("é", 200)}, nil, "related: spec.secret: \"x" + strings.Repeat("é", 39) + "…\" isn't the name of a Secret: it is longer than 253 characters"},
		"Null byte": {"nothing is called so", "spec.secret", map[string]any{"secret": "a\x00"}, nil, `related: spec.secret: "a\x00" isn't the name of a Secret: it has a control character`},
		"Newline":   {"nor so", "spec.secret", map[string]any{"secret": "a\nb"}, nil, `related: spec.secret: "a\nb" isn't the name of a Secret: it has a control character`},
		"NotInside": {"a path through a text", "spec.secret.name", map[string]any{"secret": "a"}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			queries, err := resolving(t, true, config.Related{Type: k8s.Secret, Fields: []string{tc.path}})
			require.NoError(t, err)
			found, err := queries(parentWith(t, "ns", tc.spec), nil)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err, tc.reason)
				var permanent interface{ Permanent() bool }
				require.ErrorAs(t, err, &permanent, "only a change of the parent mends it")
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, found, tc.reason)
		})
	}
}

func TestQueries_ByRefs(t *testing.T) {
	for name, tc := range map[string]struct {
		reason    string
		namespace string // of the parent
		ref       handler.Ref
		want      relate.Query
		err       string
	}{
		"Own":            {"an empty namespace is the parent's", "ns", handler.Ref{Type: k8s.Secret, Name: "a"}, relate.Query{Type: k8s.Secret, Namespace: "ns", Name: "a"}, ""},
		"OwnSaid":        {"it may be said", "ns", handler.Ref{Type: k8s.Secret, Namespace: "ns", Name: "a"}, relate.Query{Type: k8s.Secret, Namespace: "ns", Name: "a"}, ""},
		"Other":          {"who writes the parent can't read there", "ns", handler.Ref{Type: k8s.Secret, Namespace: "kube-system", Name: "a"}, relate.Query{}, `v1/Secret: namespace "kube-system" isn't the parent's; config.Related.AnyNamespace would allow that`},
		"All":            {"nor everywhere", "ns", handler.Ref{Type: k8s.Secret, Namespace: handler.AllNamespaces}, relate.Query{}, `namespace "*" isn't the parent's`},
		"Allowed":        {"AnyNamespace allows it", "ns", handler.Ref{Type: k8s.ConfigMap, Namespace: "other", Name: "a"}, relate.Query{Type: k8s.ConfigMap, Namespace: "other", Name: "a"}, ""},
		"AllowedAll":     {"everywhere, too", "ns", handler.Ref{Type: k8s.ConfigMap, Namespace: handler.AllNamespaces, Selector: "a=b"}, relate.Query{Type: k8s.ConfigMap, Selector: "a=b"}, ""},
		"NameEverywhere": {"a name needs one namespace", "ns", handler.Ref{Type: k8s.ConfigMap, Namespace: handler.AllNamespaces, Name: "a"}, relate.Query{}, "a name needs one namespace"},
		"NoNamespace":    {"it isn't the name of one", "ns", handler.Ref{Type: k8s.ConfigMap, Namespace: "a/b", Name: "a"}, relate.Query{}, `"a/b" isn't the name of a namespace`},
		"ClusterScoped":  {"its namespace is ignored", "ns", handler.Ref{Type: k8s.Node, Namespace: "x", Name: "n"}, relate.Query{Type: k8s.Node, Name: "n"}, ""},
		"ClusterParent":  {"a cluster-scoped parent has no namespace", "", handler.Ref{Type: k8s.ConfigMap, Name: "a"}, relate.Query{}, "v1/ConfigMap: no namespace; the parent is cluster-scoped, so the reference must name one"},
		"Selector":       {"selectors that mean the same are the same", "ns", handler.Ref{Type: k8s.Secret, Selector: "b = c,a in (y, x)"}, relate.Query{Type: k8s.Secret, Namespace: "ns", Selector: "a in (x,y),b=c"}, ""},
		"NoSelector":     {"it can't be read", "ns", handler.Ref{Type: k8s.Secret, Selector: "a=(b"}, relate.Query{}, "v1/Secret: Selector: "},
		"LongSelector":   {"it wouldn't fit into every URL", "ns", handler.Ref{Type: k8s.Secret, Selector: "a in (" + strings.Repeat("b,", 5000) + "c)"}, relate.Query{}, "v1/Secret: Selector: it is longer than 8192 characters"},
		"Both":           {"which of them is meant?", "ns", handler.Ref{Type: k8s.Secret, Name: "a", Selector: "a=b"}, relate.Query{}, "a Name and a Selector"},
		"Unknown":        {"nobody watches it", "ns", handler.Ref{Type: k8s.Pod, Name: "a"}, relate.Query{}, "v1/Pod isn't among config.Operator.Related; add it there"},
		"Everything":     {"of the parent's namespace", "ns", handler.Ref{Type: k8s.Secret}, relate.Query{Type: k8s.Secret, Namespace: "ns"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			queries, err := resolving(t, tc.namespace != "", config.Related{Type: k8s.Secret}, config.Related{Type: k8s.ConfigMap, AnyNamespace: true}, config.Related{Type: k8s.Node})
			require.NoError(t, err)
			found, err := queries(parentWith(t, tc.namespace, nil), []handler.Ref{tc.ref})
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err, tc.reason)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []relate.Query{tc.want}, found, tc.reason)
		})
	}
}

// A name in a field of a cluster-scoped parent doesn't say where the object is.
func TestResolver_FieldsOfClusterScopedParents(t *testing.T) {
	_, err := resolving(t, false, config.Related{Type: k8s.Secret, Fields: []string{"spec.secret"}})
	require.ErrorContains(t, err, "config: Related[0].Fields: example.com/v1/Parent is cluster-scoped, so a name alone doesn't say which Secret is meant")
	queries, err := resolving(t, false, config.Related{Type: k8s.Node, Fields: []string{"spec.node"}})
	require.NoError(t, err)
	found, err := queries(parentWith(t, "", map[string]any{"node": "n"}), nil)
	require.NoError(t, err)
	require.Equal(t, []relate.Query{{Type: k8s.Node, Name: "n"}}, found)
}
