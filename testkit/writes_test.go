package testkit

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/resource/k8s"
)

func TestParseWrite(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason              string
		method, url         string
		contentType         string
		want                bool
		verb, resource, key string
	}{
		"create": {
			reason: "the core group has no name in the path", method: "POST", url: "/api/v1/namespaces/ns/pods?fieldManager=x",
			want: true, verb: "create", resource: "/v1, Resource=pods", key: "ns/",
		},
		"update of a status": {
			reason: "a subresource belongs to the verb", method: "PUT", url: "/apis/apps/v1/namespaces/ns/deployments/d/status",
			want: true, verb: "update-status", resource: "apps/v1, Resource=deployments", key: "ns/d",
		},
		"apply": {
			reason: "the content type tells an apply from a patch", method: "PATCH", url: "/api/v1/namespaces/ns/configmaps/c?force=true",
			contentType: "application/apply-patch+yaml", want: true, verb: "apply", resource: "/v1, Resource=configmaps", key: "ns/c",
		},
		"patch of something without a namespace": {
			reason: "no namespace, no part of the path for it", method: "PATCH", url: "/apis/rbac.authorization.k8s.io/v1/clusterroles/r",
			contentType: "application/json-patch+json", want: true, verb: "patch",
			resource: "rbac.authorization.k8s.io/v1, Resource=clusterroles", key: "/r",
		},
		"delete of a namespace": {
			reason: "namespaces come in the same place as the namespace of another object", method: "DELETE", url: "/api/v1/namespaces/ns",
			want: true, verb: "delete", resource: "/v1, Resource=namespaces", key: "/ns",
		},
		"status of a namespace": {
			reason: "this isn't an object of type status in it", method: "PUT", url: "/api/v1/namespaces/ns/status",
			want: true, verb: "update-status", resource: "/v1, Resource=namespaces", key: "/ns",
		},
		"delete of many": {
			reason: "no name", method: "DELETE", url: "/api/v1/namespaces/ns/pods",
			want: true, verb: "deletecollection", resource: "/v1, Resource=pods", key: "ns/",
		},
		"behind a proxy": {
			reason: "the server's URL may have a path", method: "POST", url: "/k8s/clusters/c1/api/v1/namespaces/ns/pods",
			want: true, verb: "create", resource: "/v1, Resource=pods", key: "ns/",
		},
		"read":          {reason: "changes nothing", method: "GET", url: "/api/v1/namespaces/ns/pods"},
		"dry run":       {reason: "persists nothing", method: "PUT", url: "/api/v1/namespaces/ns/pods/p?dryRun=All"},
		"event":         {reason: "a report", method: "POST", url: "/apis/events.k8s.io/v1/namespaces/ns/events"},
		"core event":    {reason: "a report", method: "POST", url: "/api/v1/namespaces/ns/events"},
		"lease":         {reason: "leader election", method: "PUT", url: "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l"},
		"access review": {reason: "a question", method: "POST", url: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"},
		"something else": {
			reason: "not a resource", method: "POST", url: "/metrics",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, err := http.NewRequest(c.method, "https://server"+c.url, nil)
			require.NoError(t, err)
			req.Header.Set("Content-Type", c.contentType)
			target, isWrite := parseWrite(req)
			require.Equal(t, c.want, isWrite, c.reason)
			if c.want {
				require.Equal(t, c.verb, target.verb, c.reason)
				require.Equal(t, c.resource, target.resource.String(), c.reason)
				require.Equal(t, c.key, target.key.String(), c.reason)
			}
		})
	}
}

// server answers every request in the same way.
func server(code int, body io.Reader) roundTripper {
	return roundTripper{nil, func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(body)}, nil
	}}
}

func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	return m
}

const oneConfigMap = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one","namespace":"ns","uid":"u","resourceVersion":"7"},"data":{"k":"v"}}`

func TestRecorder(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason      string
		method, url string
		code        int
		body        string
		want        string
		object      bool
	}{
		"create": {
			reason: "the name is in the answer", method: "POST", url: "/api/v1/namespaces/ns/configmaps",
			code: 201, body: oneConfigMap, want: "create ConfigMap ns/one", object: true,
		},
		"delete that leaves nothing": {
			reason: "the answer is a Status", method: "DELETE", url: "/api/v1/namespaces/ns/configmaps/one",
			code: 200, body: `{"apiVersion":"v1","kind":"Status","metadata":{},"status":"Success"}`, want: "delete ConfigMap ns/one",
		},
		"refused": {
			reason: "nothing was written", method: "PUT", url: "/api/v1/namespaces/ns/configmaps/one",
			code: 409, body: `{"kind":"Status"}`,
		},
		"a type that discovery doesn't know": {
			reason: "the resource is the best there is", method: "DELETE", url: "/apis/example.com/v1/namespaces/ns/things/one",
			code: 200, body: `{}`, want: "delete things ns/one",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecorder(mapper())
			req, err := http.NewRequest(c.method, "https://server"+c.url, nil)
			require.NoError(t, err)
			resp, err := r.wrap(server(c.code, strings.NewReader(c.body))).RoundTrip(req)
			require.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, c.body, string(body), "the client gets what it would have got")
			writes := r.all()
			if c.want == "" {
				require.Empty(t, writes, c.reason)
				return
			}
			require.Len(t, writes, 1)
			require.Equal(t, c.want, writes[0].String(), c.reason)
			require.Equal(t, c.object, writes[0].Object != nil)
			if c.object {
				require.Equal(t, k8s.ConfigMap, writes[0].Type)
				require.Equal(t, "7", writes[0].Object.ResourceVersion())
			}
		})
	}
}

func TestRecorderPassesErrorsOn(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection lost")
	body := io.MultiReader(bytes.NewReader([]byte(`{"half`)), iotest.ErrReader(broken))
	r := newRecorder(mapper())
	req, err := http.NewRequest(http.MethodPost, "https://server/api/v1/namespaces/ns/configmaps", nil)
	require.NoError(t, err)
	resp, err := r.wrap(server(201, body)).RoundTrip(req)
	require.NoError(t, err)
	_, err = io.ReadAll(resp.Body)
	require.ErrorIs(t, err, broken)
	require.Len(t, r.all(), 1, "it was written all the same")
}

func TestValidateFields(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason, method, url, want string
	}{
		"write":      {reason: "asked for", method: "POST", url: "/api?fieldManager=a", want: "fieldManager=a&fieldValidation=Strict"},
		"overridden": {reason: "the test decides", method: "PUT", url: "/api?fieldValidation=Warn", want: "fieldValidation=Strict"},
		"read":       {reason: "not for reads", method: "GET", url: "/api?limit=1", want: "limit=1"},
		"delete":     {reason: "a delete has no fields", method: "DELETE", url: "/api", want: ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got string
			end := roundTripper{nil, func(r *http.Request) (*http.Response, error) {
				got = r.URL.RawQuery
				return &http.Response{}, nil
			}}
			req, err := http.NewRequest(c.method, "https://server"+c.url, nil)
			require.NoError(t, err)
			before := req.URL.String()
			_, err = validateFields("Strict")(end).RoundTrip(req)
			require.NoError(t, err)
			require.Equal(t, c.want, got, c.reason)
			require.Equal(t, before, req.URL.String(), "a RoundTripper must not change the request")
		})
	}
}
