package client

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/apirequest"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
)

// FuzzPath makes every request with names that somebody may have written into an object.
// What is sent asks for the object of that name, or for a list in that namespace, and for
// nothing else.
func FuzzPath(f *testing.F) {
	for _, seed := range [][2]string{
		{"ns", "one"},
		{"ns", "../../../../../../api/v1/configmaps"},
		{"../../../../api/v1/secrets", "one"},
		{"ns", ".."},
		{"ns", "."},
		{"ns", ""},
		{"", "one"},
		{"ns", "one/status"},
		{"ns", "%2e%2e%2fsecrets"},
		{"ns", "one?watch=true"},
		{"ns", "one#"},
		{"ns", "one\r\nHost: other"},
		{"ns", "one\x00"},
		{"n s", "ö;ne"},
		{"ns", `..\..\secrets`},
		{"ns", "//other/api"},
		{"ns", "system:node:one"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, namespace, name string) {
		var sent *http.Request
		c, configMaps, _ := answered(t, sample.DiscardLog(), func(req *http.Request) *http.Response {
			sent = req
			return answer(http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		})
		key := types.NamespacedName{Namespace: namespace, Name: name}
		for verb, try := range everyRequest(c, configMaps, key) {
			sent = nil
			require.Error(t, try(t.Context()), verb)
			if sent == nil {
				continue
			}
			require.Equal(t, "api", sent.URL.Host)
			require.Empty(t, sent.URL.Fragment)
			require.Equal(t, verb != "watch", sent.URL.Query().Get("watch") == "", "%s %s", verb, sent.URL)
			info := apirequest.Parse(sent)
			require.Equal(t, "configmaps", info.Resource.Resource, sent.URL)
			require.Equal(t, "v1", info.Resource.Version, sent.URL)
			require.Equal(t, namespace, info.Namespace, sent.URL)
			switch verb {
			case "create", "list", "list metadata", "watch":
				require.Empty(t, info.Name, sent.URL)
			default:
				require.Equal(t, name, info.Name, sent.URL)
				require.NotEmpty(t, name)
			}
			require.Equal(t, map[bool]string{true: "status"}[verb == "update status"], info.Subresource, sent.URL)
			require.Empty(t, info.Rest)
		}
	})
}

// everyRequest returns all requests that a client makes, by the verb.
func everyRequest(c *Client, k *catalog.Kind, key types.NamespacedName) map[string]func(context.Context) error {
	object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}
	err := func(_ any, err error) error { return err }
	return map[string]func(context.Context) error{
		"get":            func(ctx context.Context) error { return err(c.Get(ctx, k, key)) },
		"managed fields": func(ctx context.Context) error { return err(c.ManagedFields(ctx, k, key)) },
		"create":         func(ctx context.Context) error { return err(c.Create(ctx, k, key, object)) },
		"update":         func(ctx context.Context) error { return err(c.Update(ctx, k, key, "", object, false)) },
		"update status":  func(ctx context.Context) error { return err(c.Update(ctx, k, key, "status", object, false)) },
		"patch":          func(ctx context.Context) error { return err(c.Patch(ctx, k, key, types.MergePatchType, []byte("{}"))) },
		"delete":         func(ctx context.Context) error { return err(c.Delete(ctx, k, key, "uid", "")) },
		"list":           func(ctx context.Context) error { return err(c.List(ctx, k, key.Namespace, metav1.ListOptions{})) },
		"list metadata": func(ctx context.Context) error {
			return c.EachMetadata(ctx, k, key.Namespace, "", func(*resource.Resource) {})
		},
		"watch": func(ctx context.Context) error { return err(c.Watch(ctx, k, key.Namespace, metav1.ListOptions{})) },
	}
}

// What can't be a name in a path isn't sent, and the error says so.
func TestPath_OfNoObject(t *testing.T) {
	sent := 0
	c, configMaps, _ := answered(t, sample.DiscardLog(), func(*http.Request) *http.Response {
		sent++
		return answer(http.StatusOK, `{}`)
	})
	for _, name := range []string{"", ".", "..", "a/b", "../secrets/s", "%2e%2e"} {
		for verb, try := range everyRequest(c, configMaps, types.NamespacedName{Namespace: "ns", Name: name}) {
			if strings.HasPrefix(verb, "list") || verb == "create" || verb == "watch" {
				continue // they have no name
			}
			require.ErrorContains(t, try(t.Context()), "resource name", "%s %q", verb, name)
		}
	}
	require.Zero(t, sent)
}
