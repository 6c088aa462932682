package security

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// relating is an operator whose parents name Secrets, and refer to whatever their authors say.
func relating(name string) config.Operator {
	cfg := operator(name)
	cfg.Children = cfg.Children[:1] // ConfigMaps
	cfg.Related = []config.Related{{Type: k8s.Secret, Fields: []string{"spec.secret", "spec.secrets"}}, {Type: k8s.PriorityClass}}
	return cfg
}

// trusting is the handler of somebody who trusts the authors of parents: a parent refers to
// whatever its spec says. Its child says what it is shown.
func trusting() handler.Handler {
	return handler.Funcs{
		SyncFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			names := []string{}
			for res := range req.Related.All() {
				names = append(names, res.Name())
			}
			it := child("ConfigMap", map[string]any{"name": req.Parent.Name()})
			it["data"] = map[string]any{"shown": strings.Join(names, " ")}
			return &handler.SyncResponse{Children: []any{it}}, nil
		},
		RelateFunc: func(parent *resource.Resource) ([]handler.Ref, error) {
			value, ok := parent.Field("spec", "ref")
			if !ok {
				return nil, nil
			}
			ref, _ := value.(map[string]any)
			text := func(name string) string {
				text, _ := ref[name].(string)
				return text
			}
			return []handler.Ref{{
				Type:      resource.Type{APIVersion: text("apiVersion"), Kind: text("kind")},
				Namespace: text("namespace"), Name: text("name"), Selector: text("selector"),
			}}, nil
		},
	}
}

// shows waits until the handler has been shown these objects of a parent, by their names.
func shows(kit *testkit.Kit, parent string, names ...string) {
	it := child("ConfigMap", map[string]any{"name": parent})
	it["data"] = map[string]any{"shown": strings.Join(names, " ")}
	kit.Eventually(it, patience)
}

// references are what the author of a parent may refer to, and what it is answered.
func references(elsewhere string) map[string]struct {
	reason string
	spec   map[string]any
	want   []string // in the error; none: there is no such object, and that is all
} {
	type reference = struct {
		reason string
		spec   map[string]any
		want   []string
	}
	ref := func(kind, namespace, name, selector string) map[string]any {
		version := map[string]string{"ClusterRole": "rbac.authorization.k8s.io/v1", "PriorityClass": "scheduling.k8s.io/v1"}[kind]
		if version == "" {
			version = "v1"
		}
		return map[string]any{"ref": map[string]any{"apiVersion": version, "kind": kind, "namespace": namespace, "name": name, "selector": selector}}
	}
	named := func(name any) map[string]any { return map[string]any{"secret": name} }
	const noName = "isn't the name of a Secret"
	return map[string]reference{
		"path-up":         {"another path", named("../../kube-system/secrets/s"), []string{"spec.secret", `"../../kube-system/secrets/s"`, noName}},
		"path-slash":      {"another path", named("a/b"), []string{"spec.secret", `"a/b"`, noName}},
		"path-escaped":    {"the same, escaped", named("%2e%2e"), []string{"spec.secret", `"%2e%2e"`, noName}},
		"path-dots":       {"the list", named(".."), []string{"spec.secret", `".."`, noName}},
		"path-dot":        {"the list", named("."), []string{"spec.secret", `"."`, noName}},
		"too-long":        {"a name of 300 letters", named(strings.Repeat("x", 300)), []string{"spec.secret", noName, "longer than 253"}},
		"null-byte":       {"the end of a C string", named("token\x00.x"), []string{"spec.secret", `"token\x00.x"`, noName}},
		"newline":         {"a line of its own in a log", named("token\nlevel=ERROR"), []string{"spec.secret", `"token\nlevel=ERROR"`, noName}},
		"object":          {"not even a text", named(map[string]any{"name": "token"}), []string{"spec.secret", "neither a name nor a list of names"}},
		"in-a-list":       {"among names that are some", map[string]any{"secrets": []any{"token", "../x"}}, []string{"spec.secrets", `"../x"`, noName}},
		"namespace":       {"another namespace", ref("Secret", elsewhere, "theirs", ""), []string{"Relate", "v1/Secret", elsewhere, "isn't the parent's"}},
		"kube-system":     {"the system's namespace", ref("Secret", "kube-system", "", ""), []string{"Relate", "v1/Secret", "kube-system", "isn't the parent's"}},
		"all-namespaces":  {"every namespace", ref("Secret", handler.AllNamespaces, "", ""), []string{"Relate", "v1/Secret", "isn't the parent's"}},
		"namespace-path":  {"another path", ref("Secret", "../"+elsewhere, "theirs", ""), []string{"Relate", "v1/Secret", "isn't the parent's"}},
		"kind":            {"another type", ref("Pod", "", "p", ""), []string{"Relate", "v1/Pod", "isn't among config.Operator.Related"}},
		"cluster-scoped":  {"a cluster-scoped type", ref("ClusterRole", "", "cluster-admin", ""), []string{"Relate", "ClusterRole", "isn't among config.Operator.Related"}},
		"cluster-path":    {"another path, from a type that is allowed", ref("PriorityClass", "", "../../../api/v1/nodes", ""), []string{"Relate", "isn't the name of a PriorityClass"}},
		"relate-path":     {"another path, by Relate", ref("Secret", "", "../x", ""), []string{"Relate", `"../x"`, noName}},
		"both":            {"a name and a selector", ref("Secret", "", "token", "a=b"), []string{"Relate", "v1/Secret", "a Name and a Selector"}},
		"selector":        {"it can't be read", ref("Secret", "", "", "a=(b"), []string{"Relate", "v1/Secret", "Selector"}},
		"selector-query":  {"more parameters", ref("Secret", "", "", "a=b&resourceVersion=0"), []string{"Relate", "v1/Secret", "Selector"}},
		"selector-huge":   {"longer than any URL", ref("Secret", "", "", "a in ("+strings.Repeat("b,", 300_000)+"c)"), []string{"Relate", "v1/Secret", "Selector", "longer than 8192"}},
		"query":           {"odd, and nobody's name", named("a?watch=false"), nil},
		"field-selector":  {"odd, and nobody's name", named("a,metadata.namespace=kube-system"), nil},
		"empty":           {"it is no reference", named(""), nil},
		"nothing-matches": {"a selector like any other", ref("Secret", "", "", "no=such"), nil},
	}
}

// Whoever can write a parent chooses what it refers to. Nothing else than the configuration
// allows is read for it, and no text of it becomes a part of a path.
func TestRelated_AuthorsReadOnlyWhatTheyMay(t *testing.T) {
	t.Parallel()
	elsewhere := bystander(t, "references-elsewhere")
	elsewhere.Create(secret("theirs", "1"))
	o := &observed{}
	kit := testkit.NewWithOptions(t, cluster, relating("references"), trusting(), o.options())
	kit.Create(secret("token", "1"))
	cases := references(elsewhere.Namespace)
	for name, tc := range cases {
		kit.Create(parent(name, tc.spec))
	}
	kit.Create(parent("good", map[string]any{"secret": "token"}))
	shows(kit, "good", "token")
	for name, tc := range cases {
		if tc.want == nil {
			shows(kit, name)
			continue
		}
		failsWith(t, kit, name, tc.want...)
		eventually(t, name+": the author is told", func() bool { return strings.Contains(strings.Join(kit.Events(parent(name, nil)), "\n"), "related: ") })
		require.Nil(t, kit.Get(child("ConfigMap", map[string]any{"name": name})), tc.reason)
	}
	require.NoError(t, kit.Settle(patience))
	made := len(o.made())
	for name, tc := range cases { // an edit that mends nothing is no reason to ask
		if tc.want != nil {
			tc.spec["edited"] = true
			kit.Update(parent(name, tc.spec))
		}
	}
	kit.Update(parent("good", map[string]any{"secret": "token", "edited": true}))
	require.NoError(t, kit.Settle(patience))
	shows(kit, "good", "token")
	for _, request := range o.made()[made:] {
		require.NotContains(t, request, " secrets ")
	}
	readOnly(t, o, kit.Namespace, "token", "a?watch=false", "a,metadata.namespace=kube-system")
}

// readOnly requires that of Secrets an operator has read only those of a namespace with these
// names, or with the label no=such, and nothing by a path that an object could have told.
func readOnly(t *testing.T, o *observed, namespace string, names ...string) {
	t.Helper()
	reads := 0
	for _, at := range o.asked(0) {
		path := strings.Split(strings.Trim(at.Path, "/"), "/")
		require.NotContains(t, path, "..")
		require.NotContains(t, strings.ToLower(at.EscapedPath()), "%", "%s", at)
		of := path[len(path)-1]
		switch {
		case slices.Contains(path, "secrets"):
			reads++
			require.Equal(t, "/api/v1/namespaces/"+namespace+"/secrets", at.Path)
			_, name, named := strings.Cut(unescaped(at.Query().Get("fieldSelector")), "metadata.name=")
			require.True(t, named && slices.Contains(names, name) || at.Query().Get("labelSelector") == "no=such", "%s", at)
		case len(path) >= 3 && path[0] == "apis" && path[1] != "conformance.roperator.com":
			require.Contains(t, []string{"events.k8s.io", "authorization.k8s.io", "scheduling.k8s.io", "apiextensions.k8s.io"}, path[1], "%s", at)
		case slices.Contains(path, "namespaces"):
			require.Equal(t, namespace, path[slices.Index(path, "namespaces")+1], "%s", at)
		default:
			require.NotContains(t, []string{"nodes", "pods", "clusterroles"}, of, "%s", at)
		}
	}
	require.Positive(t, reads)
}

// unescaped returns a field selector without the backslashes before what would be syntax.
func unescaped(selector string) string {
	return strings.NewReplacer(`\,`, ",", `\=`, "=", `\\`, `\`).Replace(selector)
}

// asked returns the URLs of an operator's requests, but for the first few of them.
func (o *observed) asked(since int) []*url.URL {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.urls[since:])
}

// ofSecrets returns the URLs by which Secrets are read.
func ofSecrets(urls []*url.URL) []*url.URL {
	return slices.DeleteFunc(urls, func(at *url.URL) bool { return !strings.HasSuffix(at.Path, "/secrets") })
}

// The author of one parent refers to 10,000 names, and to 10,000 others again and again. That
// costs a list each time, and no other parent its turn.
func TestRelated_TenThousandNames(t *testing.T) {
	t.Parallel()
	const many, times = 10_000, 5
	o := &observed{}
	kit := testkit.NewWithOptions(t, cluster, relating("flooded"), trusting(), o.options())
	kit.Create(secret("token", "1"))
	flood := func(n int) map[string]any {
		names := make([]any, 0, many+1)
		for i := range many {
			names = append(names, fmt.Sprintf("no-such-%d-%d", n, i))
		}
		return parent("many", map[string]any{"secrets": append(names, "token")})
	}
	kit.Create(parent("before", map[string]any{"secret": "token"}))
	shows(kit, "before", "token")
	kit.Create(flood(0))
	shows(kit, "many", "token")
	since := len(o.made())
	for i := range times {
		kit.Update(flood(1 + i))
		name := fmt.Sprint("after-", i)
		kit.Create(parent(name, map[string]any{"secret": "token"}))
		shows(kit, name, "token")
	}
	kit.Create(secret("another", "1"))
	kit.Update(parent("before", map[string]any{"secret": "another"}))
	shows(kit, "before", "another")
	require.NoError(t, kit.Settle(patience))
	reads := ofSecrets(o.asked(since))
	require.LessOrEqual(t, len(reads), times+2, "a list for all names that are new, and one for each other reference: %v", reads)
	require.LessOrEqual(t, o.gauge(t, "roperator_related_watches", k8s.Secret.String()), 1.0)
	require.LessOrEqual(t, o.gauge(t, "roperator_related_objects", k8s.Secret.String()), 2.0)
}
