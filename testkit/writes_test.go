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
		reason      string
		method, url string
		want        bool
	}{
		"create":         {"a write", "POST", "/api/v1/namespaces/ns/pods?fieldManager=x", true},
		"delete of many": {"a write", "DELETE", "/api/v1/namespaces/ns/pods", true},
		"read":           {"changes nothing", "GET", "/api/v1/namespaces/ns/pods/p", false},
		"list":           {"changes nothing", "GET", "/api/v1/namespaces/ns/pods", false},
		"watch":          {"changes nothing", "GET", "/api/v1/namespaces/ns/pods?watch=true", false},
		"dry run":        {"persists nothing", "PUT", "/api/v1/namespaces/ns/pods/p?dryRun=All", false},
		"event":          {"a report", "POST", "/apis/events.k8s.io/v1/namespaces/ns/events", false},
		"core event":     {"a report", "POST", "/api/v1/namespaces/ns/events", false},
		"lease":          {"leader election", "PUT", "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l", false},
		"access review":  {"a question", "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", false},
		"something else": {"not a resource", "POST", "/metrics", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, err := http.NewRequest(c.method, "https://server"+c.url, nil)
			require.NoError(t, err)
			_, isWrite := parseWrite(req)
			require.Equal(t, c.want, isWrite, c.reason)
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
		"update of a status": {
			reason: "a subresource belongs to the verb", method: "PUT", url: "/api/v1/namespaces/ns/configmaps/one/status",
			code: 200, body: oneConfigMap, want: "update-status ConfigMap ns/one", object: true,
		},
		"delete of many": {
			reason: "the path has no name", method: "DELETE", url: "/api/v1/namespaces/ns/configmaps",
			code: 200, body: `{"apiVersion":"v1","kind":"ConfigMapList","metadata":{},"items":[]}`, want: "deletecollection ConfigMap ns/",
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
