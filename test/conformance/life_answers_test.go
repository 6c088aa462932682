package conformance

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

func TestC174_NotFoundByAProxy(t *testing.T) {
	scenario(t, "C174", "a proxy's 404 on taking the finalizer off is no end of the parent: the deletion completes once the proxy lets the request pass")
	m := &middleman{}
	kit := testkit.NewWithOptions(t, cluster, operator("c174-proxy", configMapChild()), finalizing(released), behind(m))
	it := parent("one", withData("k", "v"))
	kit.Create(it)
	settle(t, kit)
	var refused atomic.Int64
	m.answers(func(req *http.Request) *http.Response {
		if !strings.HasSuffix(req.URL.Path, "/parents/one") {
			return nil
		}
		refused.Add(1)
		return respond(req, http.StatusNotFound, "text/html", "<html>no such page</html>")
	})
	kit.Delete(it)
	eventually(t, "it is tried again and again", func() bool { return refused.Load() >= 8 })
	require.Equal(t, []string{"roperator.com/c174-proxy"}, kit.Get(it).Finalizers())
	require.NotEmpty(t, kit.HandlerErrors(it))
	m.answers(nil)
	kit.EventuallyGone(it, patience)
	settle(t, kit)
}

func TestC174b_NotServedForAMoment(t *testing.T) {
	scenario(t, "C174b", "a 404 of the API server, which doesn't serve the parents' version for a moment, is no end of the parent: the deletion completes once it does")
	log := needsAudit(t)
	const group = "c174.conformance.roperator.com"
	installThing(t, group, `{type: object, x-kubernetes-preserve-unknown-fields: true}`, "v1", "v2")
	crds, things := crdsOf(t)
	serve := func(served bool) {
		require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			crd, err := crds.Get(t.Context(), "things."+group, metav1.GetOptions{})
			require.NoError(t, err)
			versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
			require.NoError(t, err)
			versions[0].(map[string]any)["served"] = served
			require.NoError(t, unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
			_, err = crds.Update(t.Context(), crd, metav1.UpdateOptions{})
			return err
		}))
	}
	finalizer := &latch{}
	cfg := operator("c174-served", configMapChild())
	cfg.Parent = thingOf(group)
	kit := testkit.New(t, cluster, cfg, handler.Funcs{
		SyncFunc: copier,
		FinalizeFunc: func(ctx context.Context, _ *handler.SyncRequest) (*handler.FinalizeResponse, error) {
			finalizer.pass(ctx)
			return &handler.FinalizeResponse{Finalized: true}, nil
		},
	})
	it := thing(t, group, `{data: {k: v}}`)
	kit.Create(it)
	settle(t, kit)
	name := kit.Get(it).Name()
	finalizer.shut(t)
	kit.Delete(it)
	eventually(t, "it is being finalized", func() bool { return finalizer.waiting.Load() == 1 })
	from := log.mark(t)
	serve(false)
	v1 := things.Resource(plural(cfg.Parent)).Namespace(kit.Namespace)
	v2 := plural(cfg.Parent)
	v2.Version = "v2"
	eventually(t, "the version isn't served", func() bool {
		_, err := v1.Get(t.Context(), name, metav1.GetOptions{})
		return err != nil
	})
	finalizer.release()
	eventually(t, "the API server says 404", func() bool {
		for _, r := range log.since(t, from, cfg.Name) {
			if r.Verb == "patch" && r.Resource == "things" && r.Code == http.StatusNotFound {
				return true
			}
		}
		return false
	})
	live, err := things.Resource(v2).Namespace(kit.Namespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{"roperator.com/" + cfg.Name}, live.GetFinalizers())
	serve(true)
	eventually(t, "it has gone", func() bool {
		_, err := things.Resource(v2).Namespace(kit.Namespace).Get(t.Context(), name, metav1.GetOptions{})
		return err != nil
	})
	eventually(t, "the version is served again", func() bool {
		_, err := v1.List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
	settle(t, kit)
}

func TestC176_CreateAnsweredWithAConflict(t *testing.T) {
	scenario(t, "C176", "a webhook answers a create with 409: few creates, an error is said, observedGeneration stays, and all is well when the webhook lets it pass")
	log := needsAudit(t)
	s := newStageWith(t, patient("c176", childrenBy(config.Replace, k8s.ConfigMap)...), testkit.KitOptions{})
	s.want(configMap("one", "k", "v"))
	d := &denial{}
	d.serve(t, s.Namespace)
	d.set(denying(admissionv1.Create, "two", http.StatusConflict, metav1.StatusReasonConflict))
	from := log.mark(t)
	s.ask(configMap("one", "k", "v"), configMap("two", "k", "v"))
	failing(t, s.Kit, s.it(), "never on a Friday")
	eventually(t, "an Event", func() bool { return anyContains(s.Events(s.it()), "Warning", "never on a Friday") })
	during(t, 5*time.Second)
	sent := requestsFor(t, log, from, "c176", "create", "two")
	require.GreaterOrEqual(t, sent, 2)
	require.LessOrEqual(t, sent, 9, "with growing distance")
	observed := func() any {
		generation, _ := s.Get(s.it()).Field("status", "observedGeneration")
		return generation
	}
	require.Equal(t, s.Get(s.it()).Generation()-1, observed())
	d.set(nil)
	s.EventuallyExists(configMap("two", "", ""), patience)
	settle(t, s.Kit)
	require.Equal(t, s.Get(s.it()).Generation(), observed())
	quiet(t, s.config.Name)
}

func TestC177_DeletesThatDeleteNothing(t *testing.T) {
	scenario(t, "C177", "DELETE is answered with 200 and deletes nothing: a bounded number of requests, an error and an Event that say so, and all is well when that ends")
	for name, tc := range map[string]struct {
		strategy          config.UpdateStrategy
		contentType, body string
		told              string
	}{
		"dropped-page":     {config.Replace, "text/html", "<html>sign in</html>", "isn't a Kubernetes API server's"},
		"recreate-page":    {config.Recreate, "text/html", "<html>sign in</html>", "isn't a Kubernetes API server's"},
		"dropped-success":  {config.Replace, "application/json", `{"kind":"Status","apiVersion":"v1","status":"Success"}`, "still has it"},
		"recreate-success": {config.Recreate, "application/json", `{"kind":"Status","apiVersion":"v1","status":"Success"}`, "still has it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &middleman{}
			s := newStageWith(t, operator("c177-"+name, childrenBy(tc.strategy, k8s.ConfigMap)...), behind(m))
			s.want(configMap("one", "k", "v"), configMap("two", "k", "v"))
			var deletes, requests atomic.Int64
			m.answers(func(req *http.Request) *http.Response {
				requests.Add(1)
				if req.Method != http.MethodDelete {
					return nil
				}
				deletes.Add(1)
				return respond(req, http.StatusOK, tc.contentType, tc.body)
			})
			begin := time.Now()
			if tc.strategy == config.Recreate {
				s.ask(configMap("one", "k", "v"), configMap("two", "k", "w"))
			} else {
				s.ask(configMap("one", "k", "v"))
			}
			failing(t, s.Kit, s.it(), tc.told)
			eventually(t, "an Event", func() bool { return anyContains(s.Events(s.it()), "Warning", tc.told) })
			during(t, 8*time.Second)
			took := time.Since(begin).Seconds()
			require.LessOrEqual(t, float64(deletes.Load()), 20+2*took, "ten passes at once, ten a second for a second, and then one a second")
			require.LessOrEqual(t, float64(requests.Load()), 100+10*took)
			require.Equal(t, "v", s.field(configMap("two", "", ""), "data", "k"))
			m.answers(nil)
			if tc.strategy == config.Recreate {
				s.Eventually(configMap("two", "k", "w"), patience)
			} else {
				s.EventuallyGone(configMap("two", "", ""), patience)
			}
			var loop *testkit.HotLoopError
			if err := s.Settle(patience); err != nil {
				require.ErrorAs(t, err, &loop, "that of the deletes, told once")
			}
			settle(t, s.Kit)
			quiet(t, s.config.Name)
		})
	}
}
