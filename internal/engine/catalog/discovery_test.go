package catalog_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/faults"
	"github.com/roperator/roperator/resource"
)

// A detour answers some paths in place of an API server.
type detour struct {
	server  http.RoundTripper
	answers map[string]string // what is met, by path
}

// RoundTrip is http.RoundTripper's.
func (d detour) RoundTrip(req *http.Request) (*http.Response, error) {
	x, err := faults.Read(req)
	if err != nil {
		return nil, err
	}
	link := faults.Link{Process: faults.NewProcess("process", func() {}), Dice: faults.Play(nil), Serve: func(x *faults.Exchange, _ faults.Fault) (*http.Response, error) {
		return d.server.RoundTrip(x.Request)
	}}
	return link.Carry(x, faults.Fault{Outcome: d.answers[strings.TrimSuffix(req.URL.Path, "/")]})
}

// TestFind holds that a type counts as not served only where the API server says so: a proxy that answers by 404 is
// no such answer.
func TestFind(t *testing.T) {
	thing, pod := resource.Type{APIVersion: "example.com/v1", Kind: "Thing"}, resource.Type{APIVersion: "v1", Kind: "Pod"}
	config := resource.Type{APIVersion: "v1", Kind: "ConfigMap"}
	lost := map[string]string{"/api": faults.PageMissing, "/apis": faults.PageMissing, "/apis/example.com/v1": faults.PageMissing, "/api/v1": faults.PageMissing}
	for name, tc := range map[string]struct {
		reason  string
		kinds   []fakeapi.Kind
		of      resource.Type
		answers map[string]string
		found   bool
		says    string
	}{
		"Served":      {"it is there", []fakeapi.Kind{fakeapi.Custom(thing, "things")}, thing, nil, true, ""},
		"NoGroup":     {"its group isn't", nil, thing, nil, false, ""},
		"NoVersion":   {"its version isn't", []fakeapi.Kind{fakeapi.Custom(resource.Type{APIVersion: "example.com/v2", Kind: "Thing"}, "things")}, thing, nil, false, ""},
		"NoKind":      {"its kind isn't", []fakeapi.Kind{fakeapi.Custom(resource.Type{APIVersion: "example.com/v1", Kind: "Other"}, "others")}, thing, nil, false, ""},
		"NoCoreKind":  {"its kind isn't", []fakeapi.Kind{fakeapi.ConfigMaps()}, pod, nil, false, ""},
		"NoCore":      {"the core group has nothing", nil, pod, nil, false, ""},
		"Page":        {"a proxy has no such page", []fakeapi.Kind{fakeapi.Custom(thing, "things")}, thing, map[string]string{"/apis/example.com/v1": faults.PageMissing}, false, "example.com/v1 is listed, but what it has isn't found"},
		"CorePage":    {"nor this", []fakeapi.Kind{fakeapi.ConfigMaps()}, config, map[string]string{"/api/v1": faults.PageMissing}, false, "v1 is listed, but what it has isn't found"},
		"Lost":        {"nor any", []fakeapi.Kind{fakeapi.Custom(thing, "things")}, thing, lost, false, "discovery: "},
		"CoreLost":    {"nor any", []fakeapi.Kind{fakeapi.ConfigMaps()}, config, lost, false, "discovery: "},
		"Overloaded":  {"the list can't be had", nil, thing, map[string]string{"/apis": "503"}, false, "discovery"},
		"Status":      {"the 404 of an API server isn't enough either", []fakeapi.Kind{fakeapi.Custom(thing, "things")}, thing, map[string]string{"/apis/example.com/v1": "404"}, false, "is listed"},
		"PageOfGroup": {"the list that would have it hasn't come", []fakeapi.Kind{fakeapi.ConfigMaps()}, thing, map[string]string{"/apis": faults.PageMissing}, false, "discovery: "},
	} {
		t.Run(name, func(t *testing.T) {
			server := fakeapi.New(tc.kinds...)
			cfg := rest.CopyConfig(server.RESTConfig())
			cfg.Transport = detour{server, tc.answers}
			httpClient, err := rest.HTTPClientFor(cfg)
			require.NoError(t, err)
			finder, err := catalog.NewFinder(cfg, httpClient)
			require.NoError(t, err)
			kind, err := finder.Find(t.Context(), tc.of)
			if tc.says != "" {
				require.ErrorContains(t, err, tc.says, tc.reason)
				return
			}
			require.NoError(t, err, tc.reason)
			require.Equal(t, tc.found, kind != nil, tc.reason)
		})
	}
}

// TestFindLost holds that a type that isn't served is asked for by one request.
func TestFindLost(t *testing.T) {
	server := fakeapi.New()
	paths := &[]string{}
	cfg := rest.CopyConfig(server.RESTConfig())
	cfg.Transport = counted{server, paths}
	httpClient, err := rest.HTTPClientFor(cfg)
	require.NoError(t, err)
	finder, err := catalog.NewFinder(cfg, httpClient)
	require.NoError(t, err)
	kind, err := finder.FindLost(t.Context(), resource.Type{APIVersion: "example.com/v1", Kind: "Thing"})
	require.NoError(t, err)
	require.Nil(t, kind)
	require.Equal(t, []string{"/apis/example.com/v1"}, *paths)
}

// A counted transport notes the paths of requests.
type counted struct {
	server http.RoundTripper
	paths  *[]string
}

// RoundTrip is http.RoundTripper's.
func (c counted) RoundTrip(req *http.Request) (*http.Response, error) {
	*c.paths = append(*c.paths, req.URL.Path)
	return c.server.RoundTrip(req)
}
