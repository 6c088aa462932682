package storm

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/faults"
)

// exchangeWith returns what a process makes of a request, nil if it is about no object.
func exchangeWith(t *testing.T, method, url, body string) *faults.Exchange {
	t.Helper()
	w := &world{kinds: []fakeapi.Kind{
		fakeapi.Custom(site(), "sites"), fakeapi.ConfigMaps(), fakeapi.Leases(), fakeapi.Namespaces(),
	}}
	req, err := http.NewRequestWithContext(t.Context(), method, "https://storm"+url, strings.NewReader(body))
	require.NoError(t, err)
	if body == "" {
		req.Body = nil
	}
	x, err := faults.Read(req)
	require.NoError(t, err)
	if x.On.Resource.Resource == "" {
		return nil
	}
	x.Name = w.nameOf(x)
	return x
}

func TestNamesOfRequests(t *testing.T) {
	const maps, sites = "/api/v1/namespaces/ns/configmaps", "/apis/example.com/v1/namespaces/ns/sites"
	const body = `{"metadata":{"name":"a"}}`
	for name, tc := range map[string]struct{ reason, method, url, body, want string }{
		"Create":        {"the object's name is in the body", "POST", maps, body, "create ConfigMap ns/a"},
		"CreateNoName":  {"the server may make the name", "POST", maps, `{"metadata":{"generateName":"a-"}}`, "create ConfigMap ns/"},
		"CreateNoJSON":  {"a body needn't be JSON", "POST", maps, `k8s`, "create ConfigMap ns/"},
		"Update":        {"the name is in the path", "PUT", maps + "/a", body, "update ConfigMap ns/a"},
		"Patch":         {"custom types are of a group", "PATCH", sites + "/a", `{}`, "patch Site ns/a"},
		"Delete":        {"a delete may have options", "DELETE", maps + "/a", `{}`, "delete ConfigMap ns/a"},
		"Get":           {"one object", "GET", maps + "/a", "", "get ConfigMap ns/a"},
		"ListNamespace": {"the objects of a namespace", "GET", maps, "", "list ConfigMap ns/"},
		"List":          {"those of all", "GET", "/api/v1/configmaps?resourceVersion=0", "", "list ConfigMap"},
		"NextPage":      {"the next page of a list", "GET", "/api/v1/configmaps?continue=x", "", "list ConfigMap next page"},
		"Watch":         {"a watch", "GET", "/apis/example.com/v1/sites?watch=true&resourceVersion=7", "", "watch Site"},
		"WatchOne":      {"a watch of one", "GET", maps + "?watch=true&fieldSelector=metadata.name%3Da", "", "watch ConfigMap ns/ metadata.name=a"},
		"Status":        {"the status is a part of an object", "PUT", sites + "/a/status", body, "update status of Site ns/a"},
		"PatchStatus":   {"of one that is changed, too", "PATCH", sites + "/a/status", `{}`, "patch status of Site ns/a"},
		"DryRun":        {"a dry run isn't the write", "PUT", maps + "/a?dryRun=All", body, "update ConfigMap ns/a (dry run)"},
		"Cluster":       {"no namespace", "DELETE", "/api/v1/namespaces/ns", "", "delete Namespace ns"},
		"EventsMap":     {"an object may be called as a resource is", "PUT", maps + "/events", body, "update ConfigMap ns/events"},
		"StatusMap":     {"or as a part of an object", "PUT", maps + "/status", body, "update ConfigMap ns/status"},
		"EventsSpace":   {"a namespace, too", "POST", "/api/v1/namespaces/events/configmaps", body, "create ConfigMap events/a"},
		"SpaceStatus":   {"a namespace has a status", "PUT", "/api/v1/namespaces/ns/status", body, "update status of Namespace ns"},
		"ClusterCreate": {"no namespace", "POST", "/api/v1/namespaces", body, "create Namespace a"},
		"ClusterList":   {"no namespace", "GET", "/api/v1/namespaces", "", "list Namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			x := exchangeWith(t, tc.method, tc.url, tc.body)
			require.NotNil(t, x, "it is about an object")
			require.Equal(t, tc.want, x.Name, tc.reason)
			if tc.body != "" {
				sent, err := io.ReadAll(x.Body)
				require.NoError(t, err)
				require.Equal(t, tc.body, string(sent), "the server gets all of the body")
			}
		})
	}
}

func TestExchangesKnowWhatTheyAre(t *testing.T) {
	type what struct{ write, trial, watch, lease bool }
	const leases = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
	for name, tc := range map[string]struct {
		reason, method, url string
		want                what
	}{
		"Read":    {"it changes nothing", "GET", "/api/v1/configmaps", what{}},
		"Watch":   {"it goes on", "GET", "/api/v1/configmaps?watch=true", what{watch: true}},
		"Write":   {"it changes something", "DELETE", "/api/v1/namespaces/ns/configmaps/a", what{write: true}},
		"DryRun":  {"it only looks like it", "DELETE", "/api/v1/namespaces/ns/configmaps/a?dryRun=All", what{trial: true}},
		"Ends":    {"a false is no true", "GET", "/api/v1/configmaps?watch=false", what{}},
		"Leases":  {"a lease of somebody else's is an object", "PUT", leases + "/other", what{write: true}},
		"NoLease": {"what is only called so is none", "PUT", "/api/v1/namespaces/leases/configmaps/leases", what{write: true}},
		"Lease":   {"a write of the election's", "PUT", leases + "/storm", what{write: true, lease: true}},
	} {
		t.Run(name, func(t *testing.T) {
			x := exchangeWith(t, tc.method, tc.url, "{}")
			require.NotNil(t, x)
			require.Equal(t, tc.want, what{x.Write, x.Trial, x.Watch, isLease(x)}, tc.reason)
		})
	}
}

func TestRequestsAboutNoObject(t *testing.T) {
	for name, tc := range map[string]struct{ reason, method, url string }{
		"Versions": {"discovery is about no object", "GET", "/api"},
		"Core":     {"nor is this", "GET", "/api/v1"},
		"Groups":   {"nor is this", "GET", "/apis"},
		"Group":    {"nor is this", "GET", "/apis/example.com/v1"},
		"Version":  {"nor is this", "GET", "/version"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Nil(t, exchangeWith(t, tc.method, tc.url, "{}"), tc.reason)
		})
	}
}

func TestRequestsWithoutFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, url string
		status      int
	}{
		"Review": {"what a process may do isn't known", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", http.StatusNotFound},
		"Event":  {"nobody relies on Events", "/apis/events.k8s.io/v1/namespaces/ns/events", http.StatusCreated},
	} {
		t.Run(name, func(t *testing.T) {
			p := scripted()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://storm"+tc.url, strings.NewReader("{}"))
			require.NoError(t, err)
			resp, err := p.RoundTrip(req)
			require.NoError(t, err)
			require.Equal(t, tc.status, resp.StatusCode, tc.reason)
			require.Empty(t, p.world.dice.Met(), "it meets no fault")
			p.Kill()
			_, err = p.RoundTrip(req)
			require.ErrorIs(t, err, faults.ErrDead, "a dead process doesn't get to know even this")
		})
	}
}
