package security

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/apirequest"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

// An observed is what can be seen of an operator from outside: its requests and its log.
type observed struct {
	mu       sync.Mutex
	requests []string // verb resource namespace/name
	urls     []*url.URL
	log      rig.Logs
	registry *prometheus.Registry // of the metrics
}

// gauge returns the value of a metric for a type.
func (o *observed) gauge(t *testing.T, name, objects string) float64 {
	t.Helper()
	families, err := o.registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == name && slices.ContainsFunc(metric.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == "type" && l.GetValue() == objects }) {
				return metric.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("there is no %s of %s", name, objects)
	return 0
}

func (o *observed) made() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.requests)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

func (o *observed) options() testkit.KitOptions { return o.optionsAs(cluster.RESTConfig()) }

// optionsAs are the options of an operator of a user.
func (o *observed) optionsAs(user *rest.Config) testkit.KitOptions {
	cfg := rest.CopyConfig(user)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			info := apirequest.Parse(req)
			o.mu.Lock()
			o.urls = append(o.urls, req.URL)
			o.requests = append(o.requests, strings.TrimSpace(fmt.Sprintf("%s %s", info.Verb, strings.TrimSpace(fmt.Sprintf("%s %s/%s", info.Resource.Resource, info.Namespace, info.Name)))))
			o.mu.Unlock()
			return next.RoundTrip(req)
		})
	})
	o.registry = prometheus.NewRegistry()
	return testkit.KitOptions{Runner: runner.Options{RESTConfig: cfg, Metrics: o.registry, Logger: slog.New(slog.NewTextHandler(&o.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}}
}

// wanting is a Sync that always wants these children, and a status.
func wanting(children ...any) handler.SyncFunc {
	return func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Status: map[string]any{"children": req.Children.Len()}, Children: children}, nil
	}
}

// ofOperator returns the labels of a child.
func ofOperator(operator string, parent types.UID) map[string]any {
	return map[string]any{"roperator.com/operator": operator, "roperator.com/parent-uid": string(parent)}
}

func ownedBy(kind, name string, uid types.UID) []any {
	version := map[string]string{"Parent": parentType.APIVersion}[kind]
	if version == "" {
		version = "v1"
	}
	return []any{map[string]any{"apiVersion": version, "kind": kind, "name": name, "uid": string(uid), "controller": true}}
}

// Whoever could write ConfigMaps made the operator read any path with its own rights: the
// name in the owner reference of a foreign object was a part of the path. The Event that
// followed advised to grant the attacker's choice of rule.
func TestOwnerReferenceWasAPathOnTheAPIServer(t *testing.T) {
	t.Parallel()
	for name, owner := range map[string]string{
		"Up":     "../../../../../../api/v1/secrets",
		"Core":   "../../../../../../api/v1/configmaps",
		"Dots":   "..",
		"Query":  "one?watch=true",
		"Status": "one/status",
	} {
		for _, kind := range []string{"ConfigMap", "Parent"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				o := &observed{}
				kit := testkit.NewWithOptions(t, cluster, operator("traversal"), wanting(child("ConfigMap", map[string]any{"name": "wanted"})), o.options())
				kit.Create(child("ConfigMap", map[string]any{"name": "lives"}))
				live := kit.Get(child("ConfigMap", map[string]any{"name": "lives"})).UID()
				kit.Create(child("ConfigMap", map[string]any{"name": "wanted", "labels": ofOperator("traversal", live), "ownerReferences": ownedBy(kind, owner, live)}))
				kit.Create(parent("one", nil))
				eventually(t, "the parent's author is told", func() bool {
					return slices.ContainsFunc(kit.Events(parent("one", nil)), func(e string) bool { return strings.Contains(e, "wanted") })
				})
				for _, request := range o.made() {
					verb, object, _ := strings.Cut(request, " ")
					switch {
					case verb == "get" && strings.HasPrefix(object, "/"): // of a group, or of a schema
					case request == "get namespaces /"+kit.Namespace: // whether the namespace exists that the configuration names
					case strings.HasPrefix(object, "selfsubjectaccessreviews"): // of the rights that the configuration needs
					case verb == "get":
						require.Contains(t, []string{"configmaps", "parents"}, strings.Fields(object)[0], request)
						names := []string{kit.Namespace + "/wanted", kit.Namespace + "/one"}
						if len(content.IsPathSegmentName(owner)) == 0 {
							names = append(names, kit.Namespace+"/"+owner) // strange, but a name
						}
						require.Contains(t, names, strings.Fields(object)[1], request)
					default:
						require.Contains(t, []string{"parents", "configmaps", "secrets", "events"}, strings.Fields(object)[0], request)
					}
				}
				require.NotContains(t, o.log.String(), "add the rule")
				require.NotContains(t, strings.Join(kit.Events(parent("one", nil)), "\n"), "add the rule")
			})
		}
	}
}

// The name of a child was taken, or its end awaited, and nobody was told: no log, no Event,
// and observedGeneration said that the generation was done.
func TestSquattedNamesWereWaitedForInSilence(t *testing.T) {
	t.Parallel()
	holding := func(meta map[string]any) map[string]any {
		meta["finalizers"] = []any{"example.com/hold"}
		return meta
	}
	for name, tc := range map[string]struct {
		reason string
		squat  func(kit *testkit.Kit, live types.UID) // before there is a parent
		then   func(kit *testkit.Kit)                 // once the parent has its child, which the operator then sees terminating; nil: it never has
		told   string
	}{
		"Labels and an ordinary owner": {"a live object, but no parent", func(kit *testkit.Kit, live types.UID) {
			kit.Create(child("ConfigMap", map[string]any{"name": "wanted", "labels": ofOperator("squat", live), "ownerReferences": ownedBy("ConfigMap", "lives", live)}))
		}, nil, "already exists and is not managed by"},
		"Labels alone": {"of a parent that isn't there", func(kit *testkit.Kit, live types.UID) {
			kit.Create(child("ConfigMap", map[string]any{"name": "wanted", "labels": ofOperator("other", live)}))
		}, nil, "already exists and is not managed by"},
		"Terminating": {"nobody knows for how long", func(kit *testkit.Kit, live types.UID) {
			kit.Create(child("ConfigMap", holding(map[string]any{"name": "wanted", "labels": ofOperator("squat", live)})))
			kit.Delete(child("ConfigMap", map[string]any{"name": "wanted"}))
		}, nil, "wanted"},
		"Terminating child": {"the operator's own, and nobody knows for how long", nil, func(kit *testkit.Kit) {
			_, err := clients(t).CoreV1().ConfigMaps(kit.Namespace).Patch(t.Context(), "wanted", types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/hold"]}}`), metav1.PatchOptions{})
			require.NoError(t, err)
			kit.Delete(child("ConfigMap", map[string]any{"name": "wanted"}))
		}, "wanted is being deleted, and is created anew once it is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &observed{}
			kit := testkit.NewWithOptions(t, cluster, operator("squat"), wanting(child("ConfigMap", map[string]any{"name": "wanted"})), o.options())
			kit.Create(child("ConfigMap", map[string]any{"name": "lives"}))
			if tc.squat != nil {
				tc.squat(kit, kit.Get(child("ConfigMap", map[string]any{"name": "lives"})).UID())
			}
			t.Cleanup(func() {
				_, err := clients(t).CoreV1().ConfigMaps(kit.Namespace).Patch(context.Background(), "wanted", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				require.NoError(t, err)
			})
			kit.Create(parent("one", nil))
			if tc.then != nil {
				require.NoError(t, kit.Settle(patience))
				tc.then(kit)
			}
			eventually(t, "it is told: "+tc.reason, func() bool {
				return strings.Contains(o.log.String(), tc.told) && slices.ContainsFunc(kit.Events(parent("one", nil)), func(e string) bool { return strings.Contains(e, tc.told) })
			})
			eventually(t, "the status is written", func() bool {
				_, ok := kit.Get(parent("one", nil)).Field("status", "children")
				return ok
			})
			if tc.then != nil {
				kit.Update(parent("one", map[string]any{"value": "edited"})) // a generation that isn't done
				require.NoError(t, kit.Settle(patience))
			}
			live := kit.Get(parent("one", nil))
			generation, _ := live.Field("status", "observedGeneration")
			require.NotEqual(t, live.Generation(), generation, "the child isn't there")
		})
	}
}

// One tenant who took the name of a child kept a cluster-scoped parent from deleting what
// it had in other namespaces.
func TestSquattedNameHeldBackDeletesElsewhere(t *testing.T) {
	t.Parallel()
	here, there := bystander(t, "squat-here"), bystander(t, "squat-there")
	clusterParent := resource.Type{APIVersion: parentType.APIVersion, Kind: "ClusterParent"}
	cfg := config.Operator{Name: "squat-cluster", Parent: clusterParent, MaxErrorBackoff: time.Second, ParentSelector: "of=" + here.Namespace, Children: operator("").Children}
	kit := testkit.New(t, cluster, cfg, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		children, _ := req.Parent.Field("spec", "children")
		list, _ := children.([]any)
		return &handler.SyncResponse{Children: list}, nil
	}))
	in := func(namespace, name string) map[string]any {
		return child("ConfigMap", map[string]any{"name": name, "namespace": namespace})
	}
	one := func(children ...any) map[string]any {
		return map[string]any{"apiVersion": clusterParent.APIVersion, "kind": clusterParent.Kind, "metadata": map[string]any{"name": kit.Namespace, "labels": map[string]any{"of": here.Namespace}}, "spec": map[string]any{"children": children}}
	}
	kit.Create(one(in(there.Namespace, "old"), in(here.Namespace, "old")))
	there.EventuallyExists(in(there.Namespace, "old"), patience)
	here.EventuallyExists(in(here.Namespace, "old"), patience)
	here.Create(in(here.Namespace, "taken"))
	kit.Update(one(in(here.Namespace, "taken")))
	there.EventuallyGone(in(there.Namespace, "old"), patience)
	require.NotNil(t, here.Get(in(here.Namespace, "old")), "here a write has failed")
	kit.Delete(one())
}

// Two operators with other Domains that share a type of parents took each other's children:
// the parent was the controller of both.
func TestOperatorOfAnotherDomainLostItsChild(t *testing.T) {
	t.Parallel()
	for name, adopt := range map[string]bool{"Adopt": true, "No Adopt": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := func(name, domain string) config.Operator {
				cfg := operator(name)
				cfg.Domain = domain
				cfg.Children = []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace, Adopt: adopt}}
				return cfg
			}
			data := func(v string) map[string]any {
				cm := child("ConfigMap", map[string]any{"name": "contested"})
				cm["data"] = map[string]any{"of": v}
				return cm
			}
			first := testkit.New(t, cluster, of("first", "first.example.com"), wanting(data("first")))
			first.Create(parent("one", nil))
			first.Eventually(data("first"), patience)
			require.NoError(t, first.Settle(patience))
			before := first.Get(data("")).ResourceVersion()
			second := testkit.NewWithOptions(t, cluster, of("second", "second.example.com"), wanting(data("second")), testkit.KitOptions{Namespace: first.Namespace})
			failsWith(t, second, "one", "already exists and is not managed by second", "operator first")
			require.Equal(t, before, first.Get(data("")).ResourceVersion())
		})
	}
}

// With Adopt, the author of a parent took over and destroyed what others had made. With
// AdoptOffered only its owner can give it away.
func TestAdoptOfferedTakesOnlyWhatIsOffered(t *testing.T) {
	t.Parallel()
	cfg := operator("offered")
	cfg.Children[0].AdoptOffered = true
	kit := testkit.New(t, cluster, cfg, handler.SyncFunc(naive))
	named := func(name, offer string) map[string]any {
		meta := map[string]any{"name": name}
		if offer != "" {
			meta["annotations"] = map[string]any{"roperator.com/adopt": offer}
		}
		return child("ConfigMap", meta)
	}
	kit.Create(named("theirs", ""))
	kit.Create(named("others", "another-operator"))
	kit.Create(named("given", "offered"))
	before := everything(t, kit.Namespace)
	for _, name := range []string{"theirs", "others", "given"} {
		kit.Create(parent("wants-"+name, map[string]any{"child": named(name, "")}))
	}
	eventually(t, "what is offered is adopted", func() bool {
		return len(kit.Get(named("given", "")).OwnerReferences()) == 1
	})
	failsWith(t, kit, "wants-theirs", "already exists and is not managed by")
	failsWith(t, kit, "wants-others", "already exists and is not managed by")
	after := everything(t, kit.Namespace)
	for _, name := range []string{"ConfigMap theirs", "ConfigMap others"} {
		require.Equal(t, before[name], after[name])
	}
}

// A flood of objects that carry the operator's labels filled its memory: each was held whole.
func TestLabelFloodWasHeldInMemory(t *testing.T) {
	t.Parallel()
	const many, size = 40, 200_000
	o := &observed{}
	kit := testkit.NewWithOptions(t, cluster, operator("flood"), wanting(child("ConfigMap", map[string]any{"name": "real"})), o.options())
	kit.Create(parent("one", nil))
	kit.EventuallyExists(child("ConfigMap", map[string]any{"name": "real"}), patience)
	require.NoError(t, kit.Settle(patience))
	uid := kit.Get(parent("one", nil)).UID()
	passes, requests := kit.Passes(), len(o.made())
	for i := range many {
		forged := child("ConfigMap", map[string]any{"name": fmt.Sprint("flood-", i), "labels": ofOperator("flood", uid)})
		forged["data"] = map[string]any{"k": strings.Repeat("x", size)}
		kit.Create(forged)
	}
	require.NoError(t, kit.Settle(patience)) // the watches have come past the flood
	require.Equal(t, passes, kit.Passes())
	for _, request := range o.made()[requests:] {
		require.True(t, strings.HasPrefix(request, "watch "), request)
	}
	held := func() float64 { return o.gauge(t, "roperator_store_bytes", k8s.ConfigMap.String()) }
	require.Less(t, held(), float64(size))
	kit.Restart(operator("flood"), wanting(child("ConfigMap", map[string]any{"name": "real"})))
	require.NoError(t, kit.Settle(patience))
	require.Positive(t, held())
	require.Less(t, held(), float64(size), "nor by the first list")
}
