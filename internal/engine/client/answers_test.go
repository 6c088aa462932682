package client

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// An answering is a transport that answers every request itself.
type answering func(req *http.Request) *http.Response

func (a answering) RoundTrip(req *http.Request) (*http.Response, error) { return a(req), nil }

// answer returns an answer in JSON.
func answer(code int, body string, header ...string) *http.Response {
	h := http.Header{"Content-Type": {"application/json"}}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

// answered returns a client whose requests a transport answers, and the types of
// ConfigMaps and Secrets.
func answered(t *testing.T, log *slog.Logger, answers answering) (c *Client, configMaps, secrets *catalog.Kind) {
	t.Helper()
	return over(t, log, answers)
}

// over is answered for any transport.
func over(t *testing.T, log *slog.Logger, transport http.RoundTripper) (c *Client, configMaps, secrets *catalog.Kind) {
	t.Helper()
	link, err := Connect(&rest.Config{Host: "https://api", Transport: transport}, sample.DiscardLog())
	require.NoError(t, err)
	c, err = New(link, link.As("op", nil), "op", nil, log)
	require.NoError(t, err)
	parent := sample.ParentType()
	kinds, err := catalog.Offline(config.Operator{
		Name: "op", Parent: parent, Mappings: []resource.Mapping{{Type: parent, Plural: "parents"}},
		Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}, {Type: k8s.Secret, Strategy: config.Replace}},
	})
	require.NoError(t, err)
	return c, kinds.Of(k8s.ConfigMap), kinds.Of(k8s.Secret)
}

// TestDelete: a delete is of one object, and only an API server's word says what became
// of the object.
func TestDelete(t *testing.T) {
	object := func(uid, more string) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"ns","uid":"` + uid + `","resourceVersion":"7"` + more + `}}`
	}
	const going = `,"deletionTimestamp":"2026-01-01T00:00:00Z"`
	for name, tc := range map[string]struct {
		reason, body string
		left, fails  bool
	}{
		"Status":         {"it is gone", `{"apiVersion":"v1","kind":"Status","status":"Success"}`, false, false},
		"Last state":     {"it is gone, and this is what it was", object("u", ""), false, false},
		"Held":           {"its finalizers hold it", object("u", going), true, false},
		"Another object": {"whatever became of that one, this one isn't left", object("v", going), false, false},
		"Failure":        {"the code says that it was carried out, and the answer doesn't", `{"apiVersion":"v1","kind":"Status","status":"Failure"}`, false, true},
		"No status":      {"nor does this one", `{"apiVersion":"v1","kind":"Status"}`, false, true},
		"Page":           {"a proxy wants people to sign in", `<html>Sign in</html>`, false, true},
		"Empty":          {"an API server's answer has a kind", `{}`, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			var sent metav1.DeleteOptions
			var sentErr error
			c, configMaps, _ := answered(t, sample.DiscardLog(), func(req *http.Request) *http.Response {
				sentErr = json.NewDecoder(req.Body).Decode(&sent)
				return answer(http.StatusOK, tc.body)
			})
			version := map[bool]string{true: "7"}[tc.left]
			left, err := c.Delete(t.Context(), configMaps, types.NamespacedName{Namespace: "ns", Name: "c"}, "u", version)
			require.NoError(t, sentErr)
			require.NotNil(t, sent.Preconditions, "a successor of the object must stay")
			require.Equal(t, new(types.UID("u")), sent.Preconditions.UID)
			require.Equal(t, version != "", sent.Preconditions.ResourceVersion != nil)
			require.Equal(t, tc.fails, err != nil, tc.reason)
			require.Equal(t, tc.left, left != nil, tc.reason)
		})
	}
}

// TestAnswersOfAProxy: a success that isn't an API server's is an error, whatever was
// asked for. An empty list in its place would delete what is there.
func TestAnswersOfAProxy(t *testing.T) {
	key := types.NamespacedName{Namespace: "ns", Name: "c"}
	for name, ask := range map[string]func(ctx context.Context, c *Client, k *catalog.Kind) error{
		"List": func(ctx context.Context, c *Client, k *catalog.Kind) error {
			_, err := c.List(ctx, k, "ns", metav1.ListOptions{})
			return err
		},
		"Metadata": func(ctx context.Context, c *Client, k *catalog.Kind) error {
			return c.EachMetadata(ctx, k, "ns", "", func(*resource.Resource) {})
		},
		"Managed fields": func(ctx context.Context, c *Client, k *catalog.Kind) error {
			_, err := c.ManagedFields(ctx, k, key)
			return err
		},
		"Dry run": func(ctx context.Context, c *Client, k *catalog.Kind) error {
			_, err := c.DryCreate(ctx, k, "ns", map[string]any{"apiVersion": "v1", "kind": "ConfigMap"})
			return err
		},
		"Read": func(ctx context.Context, c *Client, k *catalog.Kind) error {
			_, err := c.Get(ctx, k, key)
			return err
		},
	} {
		for _, body := range []string{`{}`, `{"apiVersion":"v1","kind":"Status","status":"Success"}`, `{"items":[]}`, `<html>Sign in</html>`} {
			t.Run(name+" "+body, func(t *testing.T) {
				c, configMaps, _ := answered(t, sample.DiscardLog(), func(*http.Request) *http.Response { return answer(http.StatusOK, body) })
				require.Error(t, ask(t.Context(), c, configMaps))
			})
		}
	}
}

// TestListPages_Expired: pages that expire in the middle are read anew, as one page. No
// object is in the list twice.
func TestListPages_Expired(t *testing.T) {
	item := func(name string) string {
		return `{"metadata":{"name":"` + name + `","namespace":"ns","uid":"` + name + `","resourceVersion":"5"}}`
	}
	list := func(token string, names ...string) string {
		var items []string
		for _, name := range names {
			items = append(items, item(name))
		}
		return `{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"9","continue":"` + token + `"},"items":[` + strings.Join(items, ",") + `]}`
	}
	serve := func(req *http.Request) *http.Response {
		switch q := req.URL.Query(); {
		case q.Get("continue") != "":
			return answer(http.StatusGone, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Expired","code":410}`)
		case q.Get("limit") != "":
			return answer(http.StatusOK, list("more", "a"))
		}
		return answer(http.StatusOK, list("", "a", "b"))
	}
	c, configMaps, _ := answered(t, sample.DiscardLog(), serve)
	objects, version, err := c.ListPages(t.Context(), configMaps, "ns", metav1.ListOptions{})
	require.NoError(t, err)
	require.Equal(t, "9", version)
	require.Len(t, objects, 2)
	seen := map[string]bool{}
	require.NoError(t, c.EachMetadata(t.Context(), configMaps, "ns", "", func(res *resource.Resource) { seen[res.Name()] = true }))
	require.Len(t, seen, 2)
}

// TestWarnings: a warning of the API server is logged once, and without its text if the
// text may quote a Secret.
func TestWarnings(t *testing.T) {
	var out strings.Builder
	c, configMaps, secrets := answered(t, slog.New(slog.NewTextHandler(&out, nil)), func(*http.Request) *http.Response {
		return answer(http.StatusOK, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"ns","uid":"u","resourceVersion":"7"}}`, "Warning", `299 - "swordfish"`)
	})
	for _, k := range []*catalog.Kind{secrets, configMaps, configMaps} {
		_, err := c.Get(t.Context(), k, types.NamespacedName{Namespace: "ns", Name: "c"})
		require.NoError(t, err)
		if k == secrets {
			require.NotContains(t, out.String(), "swordfish", "it may be a value of the Secret")
		}
	}
	require.Equal(t, 1, strings.Count(out.String(), "swordfish"), "%s", &out)
}

// TestBodiesStayOutOfLogs: client-go logs no body of a request or an answer, however much
// it is told to log.
func TestBodiesStayOutOfLogs(t *testing.T) {
	var out strings.Builder
	logger := logr.FromSlogHandler(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.Level(-100)}))
	ctx := klog.NewContext(t.Context(), logger)
	c, _, secrets := answered(t, sample.DiscardLog(), func(*http.Request) *http.Response {
		return answer(http.StatusForbidden, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"swordfish"}`)
	})
	_, err := c.Create(ctx, secrets, types.NamespacedName{Namespace: "ns", Name: "one"}, map[string]any{"apiVersion": "v1", "kind": "Secret", "data": map[string]any{"k": "marlin"}})
	require.Error(t, err)
	_, err = c.Watch(ctx, secrets, "ns", metav1.ListOptions{})
	require.Error(t, err)
	require.NotContains(t, out.String(), "swordfish")
	require.NotContains(t, out.String(), "marlin")
}
