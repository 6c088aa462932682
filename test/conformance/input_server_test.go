package conformance

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/budget"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

// writesTo returns how often an operator asked for a change of objects of a
// resource, refused or not.
func writesTo(t *testing.T, log *auditLog, from mark, operator, resource string) []request {
	t.Helper()
	var found []request
	for _, r := range log.since(t, from, operator) {
		if r.persists() && r.Resource == resource {
			found = append(found, r)
		}
	}
	return found
}

func TestC210_RefusedByTheServer(t *testing.T) {
	scenario(t, "C210", "what the API server refuses is sent in growing distance, and at once when the desired state changes")
	log := needsAudit(t)
	from := log.mark(t)
	s := newStageWith(t, patient("badsize", configMapChild(), config.Child{Type: k8s.Service, Strategy: config.Replace}), testkit.KitOptions{})
	big := configMap("big", "k", strings.Repeat("x", 1<<20+1))
	service := map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "Not-A-Name"}, "spec": map[string]any{"ports": []any{map[string]any{"port": 99999}}}}
	s.ask(configMap("good", "k", "v"), big, service)
	s.Eventually(configMap("good", "k", "v"), patience)
	failing(t, s.Kit, parent("one", nil), "ConfigMap "+s.Namespace+"/big: create")
	failing(t, s.Kit, parent("one", nil), "Service "+s.Namespace+"/Not-A-Name: create")
	settle(t, s.Kit)
	require.ErrorContains(t, s.errors()[0], "may not be more than 1048576 bytes")
	require.ErrorContains(t, s.errors()[0], "spec.ports[0].port")
	eventually(t, "an Event", func() bool { return anyContains(s.Events(parent("one", nil)), "Warning", "big") })
	during(t, 10*time.Second)
	require.Less(t, len(writesTo(t, log, from, "badsize", "services")), 12, "with growing distance")
	eventually(t, "it is tried again", func() bool { return len(writesTo(t, log, from, "badsize", "services")) > 3 })
	sent := len(writesTo(t, log, from, "badsize", "services"))

	// A change of something else is a reason to try again: it may have been the cause.
	s.ask(configMap("good", "k", "w"), big, service)
	s.Eventually(configMap("good", "k", "w"), patience)
	eventually(t, "another try", func() bool { return len(writesTo(t, log, from, "badsize", "services")) > sent })
	s.ask(configMap("good", "k", "w"), configMap("big", "k", "small"))
	s.Eventually(configMap("big", "k", "small"), patience)
	settle(t, s.Kit)

	// The same for an update.
	from = log.mark(t)
	s.ask(configMap("good", "k", "w"), big)
	failing(t, s.Kit, parent("one", nil), "ConfigMap "+s.Namespace+"/big: update")
	during(t, 5*time.Second)
	require.Less(t, len(writesTo(t, log, from, "badsize", "configmaps")), 12, "with growing distance")
	eventually(t, "it is tried again", func() bool { return len(writesTo(t, log, from, "badsize", "configmaps")) > 2 })
}

func TestC211_LargeAndDeepCustomResources(t *testing.T) {
	scenario(t, "C211", "custom resources and statuses that are too large or too deep: an error on that parent, tried with growing distance, others undisturbed")
	log := needsAudit(t)
	from := log.mark(t)
	specs := map[string]func() any{
		"large":   func() any { return strings.Repeat("x", 1_600_000) }, // etcd's limit
		"larger":  func() any { return strings.Repeat("x", 4_000_000) }, // that of requests
		"deep":    func() any { return deep(100) },
		"deeper":  func() any { return deep(1_000) },
		"deepest": func() any { return deep(4_000) }, // what it takes the API server grows with the square
		"good":    func() any { return "v" },
	}
	sync := func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		what, _ := req.Parent.Field("spec", "what")
		namespace, _ := req.Parent.Field("spec", "namespace")
		if namespace == nil { // the status is what is large or deep
			return &handler.SyncResponse{Status: map[string]any{"value": specs[fmt.Sprint(what)]()}}, nil
		}
		child := parent(fmt.Sprint(what), map[string]any{"value": specs[fmt.Sprint(what)]()})
		metadata(child)["namespace"] = namespace
		return &handler.SyncResponse{Children: []any{child}, Status: map[string]any{"seen": req.Children.Len()}}, nil
	}
	cfg := patient("badcr", config.Child{Type: parentType, Strategy: config.Replace})
	cfg.Parent = clusterParentType
	kit := testkit.New(t, cluster, cfg, handler.SyncFunc(sync))
	of := func(what string) map[string]any {
		return map[string]any{
			"apiVersion": clusterParentType.APIVersion, "kind": clusterParentType.Kind,
			"metadata": map[string]any{"name": kit.Namespace + "-" + what},
			"spec":     map[string]any{"what": what, "namespace": kit.Namespace},
		}
	}
	inStatus := func(what string) map[string]any {
		p := of(what)
		metadata(p)["name"] = kit.Namespace + "-status-" + what
		p["spec"] = map[string]any{"what": what}
		return p
	}
	for what := range specs {
		kit.Create(of(what))
		kit.Create(inStatus(what))
	}
	settle(t, kit)
	for what := range specs {
		status, _ := kit.Get(inStatus(what)).Field("status", "value")
		errs := kit.HandlerErrors(inStatus(what))
		if status == nil {
			require.NotEmpty(t, errs, what)
			require.ErrorContains(t, errs[0], kit.Namespace+"-status-"+what+": status")
		} else {
			require.Empty(t, errs, what)
		}
		switch what {
		case "large", "larger":
			require.Nil(t, status, what)
		case "good", "deep":
			require.NotNil(t, status, what)
		}
	}
	for _, what := range []string{"large", "larger"} {
		require.NotEmpty(t, kit.HandlerErrors(of(what)), what)
		require.ErrorContains(t, kit.HandlerErrors(of(what))[0], "Parent "+kit.Namespace+"/"+what+": create")
	}
	for _, what := range []string{"deep", "deeper", "deepest"} {
		child := parent(what, nil)
		if errs := kit.HandlerErrors(of(what)); len(errs) > 0 {
			t.Log(what, errs[0])
			require.ErrorContains(t, errs[0], "Parent "+kit.Namespace+"/"+what+": create")
			continue
		}
		require.NotNil(t, kit.Get(child), "either it is there or there is an error")
	}
	require.Empty(t, kit.HandlerErrors(of("deep")))
	require.Empty(t, kit.HandlerErrors(of("good")))
	require.NotNil(t, kit.Get(parent("good", nil)))
	require.Less(t, len(writesTo(t, log, from, "badcr", "parents")), 15*len(specs))
}

func TestC212_TenThousandChildren(t *testing.T) {
	scenario(t, "C212", "10,000 children of one parent: one request each, at most 16 at a time")
	budget.Slow(t)
	const count = 10_000
	children := make([]any, count)
	for i := range children {
		children[i] = configMap(fmt.Sprintf("child-%05d", i), "k", "v")
	}
	var running, most atomic.Int64
	rest := cluster.RESTConfig()
	rest.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			if req.Method != http.MethodPost {
				return next.RoundTrip(req)
			}
			now := running.Add(1)
			defer running.Add(-1)
			for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
			}
			return next.RoundTrip(req)
		})
	})
	log := needsAudit(t)
	from := log.mark(t)
	s := newStageWith(t, operator("tenthousand", config.Child{Type: k8s.ConfigMap, Strategy: config.Replace}),
		testkit.KitOptions{Runner: runner.Options{RESTConfig: rest}})
	t.Cleanup(func() { // one by one would take long
		s.Stop()
		typed, _ := clients(t, "somebody")
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = typed.CoreV1().ConfigMaps(s.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	})
	s.ask(children...)
	s.EventuallyExists(configMap(fmt.Sprintf("child-%05d", count-1), "", ""), 3*patience)
	require.NoError(t, s.Settle(3*patience))
	require.Empty(t, s.errors())
	require.Equal(t, count, s.Snapshot(parent("one", nil)).Children.Len())
	require.Len(t, writesTo(t, log, from, "tenthousand", "configmaps"), count, "one request each")
	require.LessOrEqual(t, most.Load(), int64(16), "writes of one parent at the same time")

	from = log.mark(t)
	s.ask(children[:count-1]...)
	require.NoError(t, s.Settle(patience))
	require.Len(t, writesTo(t, log, from, "tenthousand", "configmaps"), 1, "one of them goes")
}

// A roundTrip is an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
