package apirequest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/internal/apirequest"
)

func Example() {
	req, err := http.NewRequest(http.MethodPut, "https://server/apis/apps/v1/namespaces/ns/deployments/web/status", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	info := apirequest.Parse(req)
	fmt.Println(info.Verb, info.Resource.Resource, info.Namespace, info.Name, info.Subresource)
	// Output: update deployments ns web status
}

func TestParse(t *testing.T) {
	t.Parallel()
	var (
		none        = schema.GroupVersionResource{}
		pods        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
		namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
		deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
		roles       = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	)
	const (
		ofPods = "/api/v1/namespaces/ns/pods"
		ofApps = "/apis/apps/v1/namespaces/ns/deployments"
	)
	cases := map[string]struct {
		reason      string
		method, url string
		contentType string
		want        apirequest.Info
	}{
		"get":            {"a name", "GET", ofPods + "/p", "", apirequest.Info{Verb: "get", Resource: pods, Namespace: "ns", Name: "p"}},
		"list":           {"no name", "GET", ofPods + "?limit=500", "", apirequest.Info{Verb: "list", Resource: pods, Namespace: "ns"}},
		"list of all":    {"no namespace either", "GET", "/apis/apps/v1/deployments", "", apirequest.Info{Verb: "list", Resource: deployments}},
		"watch":          {"a parameter makes a list a watch", "GET", ofPods + "?watch=true&resourceVersion=7", "", apirequest.Info{Verb: "watch", Resource: pods, Namespace: "ns"}},
		"watch=1":        {"as kubectl writes it", "GET", ofApps + "?watch=1", "", apirequest.Info{Verb: "watch", Resource: deployments, Namespace: "ns"}},
		"watch alone":    {"a parameter without a value is set", "GET", ofPods + "?watch", "", apirequest.Info{Verb: "watch", Resource: pods, Namespace: "ns"}},
		"no watch":       {"a parameter may say no", "GET", ofPods + "?watch=False", "", apirequest.Info{Verb: "list", Resource: pods, Namespace: "ns"}},
		"watch of one":   {"the API server knows no watch by name in the path", "GET", ofPods + "/p?watch=true", "", apirequest.Info{Verb: "get", Resource: pods, Namespace: "ns", Name: "p"}},
		"create":         {"the name is in the body", "POST", ofPods + "?fieldManager=x", "", apirequest.Info{Verb: "create", Resource: pods, Namespace: "ns"}},
		"update":         {"PUT replaces", "PUT", ofApps + "/d", "", apirequest.Info{Verb: "update", Resource: deployments, Namespace: "ns", Name: "d"}},
		"status":         {"a subresource isn't part of the verb", "PUT", ofApps + "/d/status", "", apirequest.Info{Verb: "update", Resource: deployments, Namespace: "ns", Name: "d", Subresource: "status"}},
		"patch":          {"a JSON or merge patch", "PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/r", "application/json-patch+json", apirequest.Info{Verb: "patch", Resource: roles, Name: "r"}},
		"apply":          {"the content type tells an apply from a patch", "PATCH", ofPods + "/p?force=true", "application/apply-patch+yaml", apirequest.Info{Verb: "apply", Resource: pods, Namespace: "ns", Name: "p"}},
		"apply in CBOR":  {"an apply has more than one encoding", "PATCH", ofPods + "/p", "application/apply-patch+cbor", apirequest.Info{Verb: "apply", Resource: pods, Namespace: "ns", Name: "p"}},
		"delete":         {"a name", "DELETE", ofPods + "/p", "", apirequest.Info{Verb: "delete", Resource: pods, Namespace: "ns", Name: "p"}},
		"delete of many": {"no name", "DELETE", ofPods, "", apirequest.Info{Verb: "deletecollection", Resource: pods, Namespace: "ns"}},
		"eviction":       {"some subresources are created", "POST", ofPods + "/p/eviction", "", apirequest.Info{Verb: "create", Resource: pods, Namespace: "ns", Name: "p", Subresource: "eviction"}},
		"proxy": {
			"a subresource may have a path of its own", "GET", ofPods + "/p/proxy/apis/metrics", "",
			apirequest.Info{Verb: "get", Resource: pods, Namespace: "ns", Name: "p", Subresource: "proxy", Rest: "apis/metrics"},
		},
		"namespace":                   {"a namespace stands where that of another object does", "DELETE", "/api/v1/namespaces/ns", "", apirequest.Info{Verb: "delete", Resource: namespaces, Name: "ns"}},
		"status of a namespace":       {"this isn't a list of the type status in it", "GET", "/api/v1/namespaces/ns/status", "", apirequest.Info{Verb: "get", Resource: namespaces, Name: "ns", Subresource: "status"}},
		"end of a namespace":          {"nor one of the type finalize", "PUT", "/api/v1/namespaces/ns/finalize", "", apirequest.Info{Verb: "update", Resource: namespaces, Name: "ns", Subresource: "finalize"}},
		"a namespace called api":      {"it isn't where the path begins", "GET", "/api/v1/namespaces/api/pods/apis", "", apirequest.Info{Verb: "get", Resource: pods, Namespace: "api", Name: "apis"}},
		"behind a proxy":              {"the server's URL may have a path", "POST", "/k8s/clusters/c1/api/v1/namespaces/ns/pods", "", apirequest.Info{Verb: "create", Resource: pods, Namespace: "ns"}},
		"behind a proxy called api":   {"core objects have the version v1", "GET", "/api/c1/apis/apps/v1/deployments?watch=1", "", apirequest.Info{Verb: "watch", Resource: deployments}},
		"version":                     {"no object", "GET", "/version", "", apirequest.Info{Verb: "get", Resource: none}},
		"root":                        {"no path", "GET", "", "", apirequest.Info{Verb: "get", Resource: none}},
		"discovery of the core group": {"a version isn't an object", "GET", "/api/v1", "", apirequest.Info{Verb: "get", Resource: none}},
		"discovery of a group":        {"a version isn't an object", "GET", "/apis/apps/v1/", "", apirequest.Info{Verb: "get", Resource: none}},
		"OpenAPI":                     {"nor is the schema of a version", "GET", "/openapi/v3/apis/apps/v1?hash=h", "", apirequest.Info{Verb: "get", Resource: none}},
		"delete of something else":    {"what isn't an object is never many", "DELETE", "/metrics", "", apirequest.Info{Verb: "delete", Resource: none}},
		"head":                        {"anything but a write reads", "HEAD", ofPods + "/p", "", apirequest.Info{Verb: "get", Resource: pods, Namespace: "ns", Name: "p"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, err := http.NewRequest(c.method, "https://server"+c.url, nil)
			require.NoError(t, err)
			if c.contentType != "" {
				req.Header.Set("Content-Type", c.contentType)
			}
			require.Equal(t, c.want, apirequest.Parse(req), c.reason)
		})
	}
}

func TestNameIn(t *testing.T) {
	for name, tc := range map[string]struct{ reason, body, want string }{
		"Name":   {"the name is in the metadata", `{"metadata":{"name":"a"},"name":"b"}`, "a"},
		"None":   {"the API server makes it", `{"metadata":{"generateName":"a-"}}`, ""},
		"NoText": {"a name is a text", `{"metadata":{"name":1}}`, ""},
		"NoJSON": {"a body may be anything", "k8s\x00", ""},
		"Empty":  {"there may be none", "", ""},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, apirequest.NameIn([]byte(tc.body)), tc.reason) })
	}
}

func TestBody(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		body   io.Reader
		want   string
		length int64
	}{
		"Known":   {"a body of a known length", strings.NewReader("abc"), "abc", 3},
		"Unknown": {"a body that is streamed", io.MultiReader(strings.NewReader("abc"), strings.NewReader("def")), "abcdef", 0},
		"None":    {"there may be none", nil, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://server/api/v1/namespaces/a", tc.body)
			require.NoError(t, err)
			require.Equal(t, tc.length, req.ContentLength)
			body, err := apirequest.Body(req)
			require.NoError(t, err, tc.reason)
			require.Equal(t, tc.want, string(body), tc.reason)
		})
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "https://server/api/v1/namespaces/a", strings.NewReader("abc"))
	require.NoError(t, err)
	req.ContentLength = 5
	_, err = apirequest.Body(req)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "a body that is cut is an error")
}
