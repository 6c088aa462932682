package conformance

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/resource/k8s"
)

func TestC250_RejectedCorrection(t *testing.T) {
	scenario(t, "C250", "the API server rejects the correction of what another client has changed: the rest of the child is corrected, other children are written and deleted, nothing is recreated, and one Event names the field, its manager and the line of IgnoreFields")
	for name, child := range map[string]config.Child{
		"Replace": {Strategy: config.Replace}, "Apply": {Strategy: config.Apply}, "Recreate": {Strategy: config.Recreate},
		"RecreateImmutable": {Strategy: config.Replace, RecreateImmutable: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			child.Type = k8s.ConfigMap
			s := newStage(t, "c250-"+strings.ToLower(name), child)
			one := manifest(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: one, labels: {a: ours}}, data: {k: ours}}`)
			two := func(value string) any {
				return manifest(t, fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: two}, data: {k: %q}}`, value))
			}
			three := manifest(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: three}, data: {k: v}}`)
			s.want(one, two("1"), three)
			uid := s.Get(one).UID()
			maps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
			s.patchAs("somebody", maps, "one", `{"metadata":{"labels":{"a":"theirs"}},"data":{"k":"theirs"},"immutable":true}`)
			kept := func() {
				t.Helper()
				settle(t, s.Kit)
				require.Empty(t, s.errors())
				require.Equal(t, uid, s.Get(one).UID(), "S189: it is not recreated")
				require.Equal(t, "theirs", s.field(one, "data", "k"), "S177")
				require.Equal(t, "ours", s.field(one, "metadata", "labels", "a"), "S180: the rest is corrected")
			}
			kept()
			eventually(t, "an Event", func() bool { return len(s.eventsOf("CorrectionRejected")) > 0 })
			s.want(one, two("2"))
			kept()
			require.Equal(t, "2", s.field(two(""), "data", "k"))
			require.Nil(t, s.Get(three), "S189: it holds no delete")
			events := s.eventsOf("CorrectionRejected")
			require.Len(t, events, 1, "S180: one report")
			for _, part := range []string{"ConfigMap one", `data.k keeps "theirs" instead of "ours"`, "field manager somebody", `IgnoreFields: []string{"data.k"}`} {
				require.Contains(t, events[0], part)
			}
			changes, err := s.plan(s.config)
			require.NoError(t, err)
			require.Empty(t, changes, "a plan tells what is done")
			s.rebuild(s.config, nil, one, two("2"))
			kept()
			_, untyped := clients(t, "somebody")
			live, err := untyped.Resource(maps).Namespace(s.Namespace).Get(t.Context(), "one", metav1.GetOptions{})
			require.NoError(t, err)
			for _, entry := range live.GetManagedFields() {
				require.False(t, entry.Manager == s.config.Name && strings.Contains(string(entry.FieldsV1.GetRawBytes()), `"f:k"`), "the field is not ours")
			}
		})
	}
}

func TestC251_OneWay(t *testing.T) {
	scenario(t, "C251", "fields of built-in kinds that controllers change in one direction are no drift: the node selector of an unsuspended Job, taken scheduling gates, a resized Pod, a grown claim")
	admin, _ := clients(t, "somebody")
	class := "c251-" + rand.String(5)
	yes := true
	_, err := admin.StorageV1().StorageClasses().Create(t.Context(), &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: "example.com/none", AllowVolumeExpansion: &yes}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = admin.StorageV1().StorageClasses().Delete(t.Context(), class, metav1.DeleteOptions{}) })
	for name, tc := range map[string]struct {
		child  config.Child
		object string // with %q for a label
		of     schema.GroupVersionResource
		change []string // each a merge patch, perhaps after the name of a subresource
		path   []string
		want   any
	}{
		"Job": {
			child: config.Child{Type: k8s.Job, IgnoreFields: []string{"spec.suspend"}}, of: schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"},
			object: `{apiVersion: batch/v1, kind: Job, metadata: {name: one, labels: {v: %q}}, spec: {suspend: true, parallelism: 0, completions: 1, template: {spec: {restartPolicy: Never, nodeSelector: {ours: x},
				containers: [{name: main, image: example.com/app, resources: {requests: {cpu: 100m}}}]}}}}`,
			change: []string{`{"spec":{"suspend":false,"template":{"metadata":{"labels":{"queue":"q"}},"spec":{"nodeSelector":{"ours":"y","theirs":"z"},"tolerations":[{"key":"k","operator":"Exists"}]}}}}`},
			path:   []string{"spec", "template", "spec", "nodeSelector"}, want: map[string]any{"ours": "y", "theirs": "z"},
		},
		"Gates": {
			child: config.Child{Type: k8s.Pod}, of: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
			object: `{apiVersion: v1, kind: Pod, metadata: {name: one, labels: {v: %q}}, spec: {schedulingGates: [{name: example.com/a}, {name: example.com/b}], containers: [{name: main, image: example.com/app}]}}`,
			change: []string{`{"spec":{"schedulingGates":[{"name":"example.com/b"}]}}`, `{"spec":{"schedulingGates":null}}`},
			path:   []string{"spec", "schedulingGates"}, want: nil,
		},
		"Resized": {
			child: config.Child{Type: k8s.Pod}, of: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
			object: `{apiVersion: v1, kind: Pod, metadata: {name: one, labels: {v: %q}}, spec: {containers: [{name: main, image: example.com/app, resources: {requests: {cpu: 100m}, limits: {cpu: 100m, memory: 1Gi}}}]}}`,
			change: []string{`resize {"spec":{"containers":[{"name":"main","image":"example.com/app","resources":{"requests":{"cpu":"200m"},"limits":{"cpu":"200m"}}}]}}`},
			path:   []string{"spec", "containers"}, want: "200m",
		},
		"Claim": {
			child: config.Child{Type: k8s.PersistentVolumeClaim}, of: schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"},
			object: `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: one, labels: {v: %q}}, spec: {accessModes: [ReadWriteOnce], storageClassName: ` + class + `, resources: {requests: {storage: 1Gi}}}}`,
			change: []string{`{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`},
			path:   []string{"spec", "resources", "requests", "storage"}, want: "2Gi",
		},
	} {
		for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply, config.Recreate} {
			t.Run(name+"/"+string(strategy), func(t *testing.T) {
				t.Parallel()
				tc.child.Strategy = strategy
				_, untyped := clients(t, "somebody")
				s := newStage(t, "c251-"+strings.ToLower(name)+"-"+lower(strategy), tc.child)
				object := func(label string) map[string]any { return manifest(t, fmt.Sprintf(tc.object, label)) }
				if name == "Claim" {
					volume := manifest(t, fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolume, metadata: {generateName: c251-}, spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, hostPath: {path: /none},
						persistentVolumeReclaimPolicy: Retain, storageClassName: %s, claimRef: {name: one, namespace: %s}}}`, class, s.Namespace))
					volumes := untyped.Resource(schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumes"})
					made, err := volumes.Create(t.Context(), &unstructured.Unstructured{Object: volume}, metav1.CreateOptions{})
					require.NoError(t, err)
					t.Cleanup(func() { _ = volumes.Delete(context.WithoutCancel(t.Context()), made.GetName(), metav1.DeleteOptions{}) })
				}
				s.want(object("1"))
				if name == "Claim" {
					eventually(t, "it is bound", func() bool { return s.field(object(""), "status", "phase") == "Bound" })
					settle(t, s.Kit)
				}
				uid := s.Get(object("")).UID()
				s.silence.acts()
				for _, change := range tc.change {
					var subresource []string
					how := types.MergePatchType
					if sub, patch, ok := strings.Cut(change, " "); ok && !strings.HasPrefix(change, "{") {
						subresource, change = []string{sub}, patch
						if sub == "resize" {
							how = types.StrategicMergePatchType
						}
					}
					_, err := untyped.Resource(tc.of).Namespace(s.Namespace).Patch(t.Context(), "one", how, []byte(change), metav1.PatchOptions{}, subresource...)
					require.NoError(t, err)
					settle(t, s.Kit)
				}
				kept := func() {
					t.Helper()
					settle(t, s.Kit)
					require.Empty(t, s.errors())
					require.Equal(t, uid, s.Get(object("")).UID())
					live := s.field(object(""), tc.path...)
					if list, ok := live.([]any); ok {
						live = list[0].(map[string]any)["resources"].(map[string]any)["limits"].(map[string]any)["cpu"]
					}
					require.Equal(t, tc.want, live)
					require.Empty(t, s.eventsOf("CorrectionRejected"), "it is no drift")
				}
				kept()
				s.silent()
				s.restart()
				kept()
				if strategy != config.Recreate {
					s.want(object("2"))
					kept()
					require.Equal(t, "2", s.field(object(""), "metadata", "labels", "v"), "another field is written")
					s.silent()
				}
			})
		}
	}
}

// eventsOf returns the Events on the parent with a reason.
func (s *stage) eventsOf(reason string) (notes []string) {
	s.t.Helper()
	for _, e := range s.Events(s.it()) {
		if strings.Contains(e, reason) {
			notes = append(notes, e)
		}
	}
	return notes
}

func TestC252_IgnoredUpdate(t *testing.T) {
	scenario(t, "C252", "a Service that ceases to be headless: the API server ignores that, which one Event says, and Recreate recreates the Service; a node port that is no longer said stays, without an Event")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply, config.Recreate} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c252-"+lower(strategy), childrenBy(strategy, k8s.Service)...)
			service := func(name, spec string) map[string]any {
				return manifest(t, `{apiVersion: v1, kind: Service, metadata: {name: `+name+`}, spec: {`+spec+` ports: [{port: 80}]}}`)
			}
			headless, other := service("one", "clusterIP: None, "), service("other", "type: NodePort, externalTrafficPolicy: Cluster, ")
			s.want(headless, other)
			uid, ip := s.Get(headless).UID(), s.field(other, "spec", "clusterIP")
			plain, less := service("one", ""), service("other", "type: NodePort, ")
			if strategy == config.Recreate {
				s.want(plain, less)
				require.NotEqual(t, uid, s.Get(plain).UID())
				require.NotEqual(t, "None", s.field(plain, "spec", "clusterIP"))
				require.Empty(t, s.eventsOf("UpdateIgnored"))
			} else {
				s.want(plain, less)
				require.Equal(t, uid, s.Get(plain).UID())
				eventually(t, "an Event", func() bool { return len(s.eventsOf("UpdateIgnored")) > 0 })
				events := s.eventsOf("UpdateIgnored")
				require.Len(t, events, 1)
				require.Contains(t, events[0], `Service one: spec.clusterIP keeps "None" instead of null`)
			}
			require.Equal(t, ip, s.field(less, "spec", "clusterIP"), "a new build that leaves out a default needs no new child")
			s.silent()
		})
	}
}

func TestC253_RecreateImmutable(t *testing.T) {
	needsWidgets(t)
	scenario(t, "C253", "RecreateImmutable takes a rule of a CRD in other words for immutability, but not the rejection of a field that another client has set")
	t.Run("Rule", func(t *testing.T) {
		for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply} {
			t.Run(string(strategy), func(t *testing.T) {
				t.Parallel()
				s := newStage(t, "c253-rule-"+lower(strategy), config.Child{Type: widgetType, Strategy: strategy, RecreateImmutable: true})
				widget := func(seal string) map[string]any {
					return manifest(t, `{apiVersion: conformance.roperator.com/v1, kind: Widget, metadata: {name: one}, spec: {sealed: `+seal+`}}`)
				}
				s.want(widget("a"))
				uid := s.Get(widget("")).UID()
				s.want(widget("b"))
				require.NotEqual(t, uid, s.Get(widget("")).UID())
				require.Equal(t, "b", s.field(widget(""), "spec", "sealed"))
				s.silent()
			})
		}
	})
	t.Run("Foreign", func(t *testing.T) {
		for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply} {
			t.Run(string(strategy), func(t *testing.T) {
				t.Parallel()
				s := newStage(t, "c253-"+lower(strategy), config.Child{Type: k8s.Service, Strategy: strategy, RecreateImmutable: true})
				service := func(typ string) map[string]any {
					return manifest(t, `{apiVersion: v1, kind: Service, metadata: {name: one}, spec: {type: `+typ+`, ports: [{port: 80}]}}`)
				}
				s.want(service("LoadBalancer"))
				s.patchAs("somebody", servicesResource, "one", `{"spec":{"loadBalancerSourceRanges":["192.0.2.0/24"]}}`)
				settle(t, s.Kit)
				uid := s.Get(service("")).UID()
				s.ask(service("ClusterIP"))
				settle(t, s.Kit)
				require.Equal(t, uid, s.Get(service("")).UID(), "no field here is immutable")
				require.NotEmpty(t, s.errors())
				require.ErrorContains(t, s.errors()[0], "oadBalancerSourceRanges")
				require.NotContains(t, s.errors()[0].Error(), "immutable")
			})
		}
	})
}

func TestC254_LessonsOfAnother(t *testing.T) {
	scenario(t, "C254", "a webhook for creations changes one Deployment and not another of the same namespace: what an update of one taught decides nothing for the other, whichever changes first")
	for _, first := range []string{"a", "b"} {
		for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply} {
			t.Run(first+" first/"+string(strategy), func(t *testing.T) {
				t.Parallel()
				s := newStage(t, "c254-"+first+"-"+lower(strategy), childrenBy(strategy, k8s.Deployment)...)
				(&webhook{creation: true, mutate: func(o map[string]any) {
					labels, _ := o["metadata"].(map[string]any)["labels"].(map[string]any)
					if labels["team"] != "x" {
						return
					}
					for _, c := range containersOf(o) {
						c.(map[string]any)["imagePullPolicy"] = "Never"
					}
				}}).serve(t, s.Namespace)
				of := func(name, image string) map[string]any {
					label := map[string]string{"a": "team: x", "b": "team: z"}[name]
					return manifest(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: `+name+`, labels: {`+label+`}}, spec: {replicas: 0, selector: {matchLabels: {app: `+name+`}},
						template: {metadata: {labels: {app: `+name+`}}, spec: {containers: [{name: main, image: "`+image+`"}]}}}}`)
				}
				policy := func(name string) any {
					containers := s.field(of(name, ""), "spec", "template", "spec", "containers").([]any)
					return containers[0].(map[string]any)["imagePullPolicy"]
				}
				images := map[string]string{"a": "app:1", "b": "app:1"}
				want := func() { t.Helper(); s.want(of("a", images["a"]), of("b", images["b"])) }
				want()
				require.Equal(t, "Never", policy("a"))
				require.Equal(t, "IfNotPresent", policy("b"))
				change := map[string]string{"a": "app:2", "b": "app:latest"}
				second := map[string]string{"a": "b", "b": "a"}[first]
				for _, name := range []string{first, second} {
					images[name] = change[name]
					want()
				}
				require.Equal(t, "Never", policy("a"), "what the webhook chose at the creation stays")
				require.Equal(t, "Always", policy("b"), "a default follows from the image")
				s.silent()
				s.restart()
			})
		}
	}
}

func TestC255_EmptyList(t *testing.T) {
	needsWidgets(t)
	scenario(t, "C255", "a list that is desired empty arrives by an update where the type keeps empty lists, as under a rule that asks for it, and an empty list of a built-in type is none")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply, config.Recreate} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c255-"+lower(strategy), childrenBy(strategy, widgetType, k8s.Role)...)
			widget := func(either string) map[string]any {
				return manifest(t, `{apiVersion: conformance.roperator.com/v1, kind: Widget, metadata: {name: one}, spec: {either: {`+either+`}}}`)
			}
			role := manifest(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: one, labels: {}}, rules: []}`)
			for _, either := range []string{"one: a", "list: []", "list: [a]", "list: []", "one: b"} {
				s.want(widget(either), role)
				require.Equal(t, widget(either)["spec"].(map[string]any)["either"], s.field(widget(""), "spec", "either"))
				s.silent()
				s.restart()
			}
		})
	}
}

func TestC256_OddCharacters(t *testing.T) {
	scenario(t, "C256", "characters that JSON allows and YAML does not arrive under every strategy")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply, config.Recreate} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c256-"+lower(strategy), childrenBy(strategy, k8s.ConfigMap)...)
			for _, text := range []string{"\u007f", "a\u0080\u0085\u009fb", "\u2028\u2029\ufeff"} {
				s.want(configMap("one", "k", text))
				require.Equal(t, text, s.field(configMap("one", "", ""), "data", "k"))
				s.silent()
			}
			s.restart()
		})
	}
}
