package conformance

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// patch is what somebody else does to an object, by a JSON merge patch.
func (s *stage) patch(of resource.Type, name, patch string) {
	s.t.Helper()
	require.NoError(s.t, s.tryPatch(of, name, patch))
}

// tryPatch is patch for an object that may be gone.
func (s *stage) tryPatch(of resource.Type, name, patch string) error {
	s.t.Helper()
	_, untyped := clients(s.t, "somebody")
	_, err := untyped.Resource(plural(of)).Namespace(s.Namespace).Patch(s.t.Context(), name, types.MergePatchType,
		[]byte(patch), metav1.PatchOptions{FieldManager: "somebody"})
	return err
}

// richDeployment has a field, a label, an annotation and list items of which
// the drops are missing from the poor one.
func richDeployment(t *testing.T, rich bool) map[string]any {
	t.Helper()
	text := `{apiVersion: apps/v1, kind: Deployment, metadata: {name: one, labels: {keep: a, DROP}, annotations: {keep: a, DROP}}, spec: {FIELD
		replicas: 0, selector: {matchLabels: {app: one}}, template: {metadata: {labels: {app: one, DROP}}, spec: {CONTAINER
			containers: [{name: main, image: example.com/app, args: [a ARG], env: [{name: KEEP, value: a}, ENV], ports: [{containerPort: 80}, PORT]}]}}}}`
	drops := strings.NewReplacer("DROP", "drop: a", "FIELD", "minReadySeconds: 5,", "CONTAINER", "initContainers: [{name: drop, image: a}], volumes: [{name: drop, emptyDir: {}}],",
		"ARG", ", b", "ENV", "{name: DROP, value: a}", "PORT", "{containerPort: 81}")
	if !rich {
		drops = strings.NewReplacer(", DROP", "", "FIELD", "", "CONTAINER", "", "ARG", "", ", ENV", "", ", PORT", "")
	}
	return manifest(t, drops.Replace(text))
}

// richConfigMap has a finalizer, too, unless it must be possible to delete it.
func richConfigMap(t *testing.T, name string, strategy config.UpdateStrategy) map[string]any {
	t.Helper()
	cm := manifest(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: `+name+`, annotations: {drop: a}}, data: {keep: a, drop: a}, binaryData: {raw: AAEC}}`)
	if strategy != config.Recreate {
		cm["metadata"].(map[string]any)["finalizers"] = []any{"example.com/drop"}
	}
	return cm
}

// isPoor requires that what was dropped is gone.
func (s *stage) isPoor() {
	s.t.Helper()
	for _, child := range s.children() {
		object := child.Unstructured()
		object.SetManagedFields(nil)
		delete(object.Object, "status")
		text := strings.ReplaceAll(fmt.Sprint(object.Object), "maxUnavailable", "")
		require.NotContains(s.t, strings.ToLower(text), "drop:", "%s", child)
		require.NotContains(s.t, text, "example.com/drop", "%s", child)
		require.NotContains(s.t, text, "containerPort:81", "%s", child)
		require.NotContains(s.t, text, "name:drop", "%s", child)
		require.NotContains(s.t, text, "name:DROP", "%s", child)
		require.NotContains(s.t, text, "minReadySeconds", "%s", child)
		require.NotContains(s.t, text, "binaryData", "%s", child)
		require.NotContains(s.t, text, "args:[a b]", "%s", child)
	}
}

func TestC30_DroppedFieldsDisappear(t *testing.T) {
	scenario(t, "C30", "a field, label, annotation, list item dropped from the desired state disappears; what another manager set stays")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply, config.Recreate} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c30-"+lower(strategy), childrenBy(strategy, k8s.Deployment, k8s.ConfigMap)...)
			s.want(richDeployment(t, true), richConfigMap(t, "one", strategy))
			s.patch(k8s.ConfigMap, "one", `{"metadata":{"labels":{"theirs":"x"},"annotations":{"theirs":"x"}},"data":{"theirs":"x"}}`)
			s.patch(k8s.Deployment, "one", `{"metadata":{"labels":{"theirs":"x"},"annotations":{"theirs":"x"}},"spec":{"progressDeadlineSeconds":60,"template":{"metadata":{"annotations":{"theirs":"x"}}}}}`)
			typed, _ := clients(t, "somebody")
			_, err := typed.AppsV1().Deployments(s.Namespace).Patch(t.Context(), "one", types.StrategicMergePatchType,
				[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"main","env":[{"name":"THEIRS","value":"x"}]},{"name":"theirs","image":"x"}]}}}}`), metav1.PatchOptions{FieldManager: "somebody"})
			require.NoError(t, err)
			settle(t, s.Kit)
			uid := s.Get(richDeployment(t, true)).UID()

			s.want(richDeployment(t, false), configMap("one", "keep", "a"))
			s.isPoor()
			s.Eventually(richDeployment(t, false), patience)
			if strategy != config.Recreate {
				require.Equal(t, uid, s.Get(richDeployment(t, true)).UID())
				s.Eventually(manifest(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: one, labels: {theirs: x}, annotations: {theirs: x}}, spec: {progressDeadlineSeconds: 60, template: {
					metadata: {annotations: {theirs: x}}, spec: {containers: [{name: main, env: [{name: THEIRS, value: x}]}, {name: theirs, image: x}]}}}}`), patience)
				s.Eventually(manifest(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: one, labels: {theirs: x}, annotations: {theirs: x}}, data: {theirs: x}}`), patience)
			}
			s.silent()
			s.restart()
		})
	}
}

func TestC30f_IgnoredFieldsAreKept(t *testing.T) {
	scenario(t, "C30f", "ignored fields are set once, and keep what another manager makes of them")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c30-ignore-"+lower(strategy), config.Child{
				Type: k8s.Deployment, Strategy: strategy, IgnoreFields: []string{"spec.replicas", `spec.template.spec.containers[name="main"].image`, `metadata.annotations["theirs"]`},
			})
			deployment := func(delay string) map[string]any {
				return manifest(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: one, annotations: {theirs: a}}, spec: {replicas: 0, minReadySeconds: `+delay+`, selector: {matchLabels: {app: one}}, template: {
					metadata: {labels: {app: one}}, spec: {containers: [{name: main, image: "example.com/app:1"}]}}}}`)
			}
			s.want(deployment("1"))
			typed, _ := clients(t, "somebody")
			for round, delay := range []string{"2", "3"} {
				replicas := int32(round) + 2
				scale := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
				_, err := typed.AppsV1().Deployments(s.Namespace).Patch(t.Context(), "one", types.MergePatchType, []byte(scale), metav1.PatchOptions{}, "scale")
				require.NoError(t, err)
				image := "example.com/app:" + delay
				_, err = typed.AppsV1().Deployments(s.Namespace).Patch(t.Context(), "one", types.StrategicMergePatchType,
					[]byte(`{"metadata":{"annotations":{"theirs":"x"}},"spec":{"template":{"spec":{"containers":[{"name":"main","image":"`+image+`"}]}}}}`), metav1.PatchOptions{})
				require.NoError(t, err)
				settle(t, s.Kit)
				s.want(deployment(delay))
				s.Eventually(manifest(t, fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: one, annotations: {theirs: x}}, spec: {replicas: %d, minReadySeconds: %s, template: {spec: {containers: [
					{name: main, image: "%s"}]}}}}`, replicas, delay, image)), patience)
			}
			s.undisturbed()
			s.silent()
			s.restart()
		})
	}
}

func TestC31_DroppedByANewBuild(t *testing.T) {
	scenario(t, "C31", "fields dropped by a new build while the operator was down disappear, also of a ConfigMap of 900 kB in one value and one of 19,000 keys")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply, config.Recreate} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c31-"+lower(strategy), childrenBy(strategy, k8s.Deployment, k8s.ConfigMap)...)
			s.want(richDeployment(t, true), richConfigMap(t, "small", strategy), bigConfigMap("big", true), manyKeys("many", true))
			s.silent()
			s.restart()
			s.rebuild(s.config, func() {
				if strategy != config.Recreate {
					s.patch(k8s.ConfigMap, "small", `{"data":{"theirs":"x"}}`)
					s.patch(k8s.Deployment, "one", `{"metadata":{"annotations":{"theirs":"x"}}}`)
				}
			}, richDeployment(t, false), configMap("small", "keep", "a"), bigConfigMap("big", false), manyKeys("many", false))
			for _, name := range []string{"big", "many"} {
				data := s.field(configMap(name, "", ""), "data").(map[string]any)
				require.NotContains(t, data, "drop", name)
				require.Contains(t, data, "keep", name)
			}
			require.Len(t, s.field(configMap("many", "", ""), "data"), 19_000)
			s.isPoor()
			if strategy != config.Recreate {
				require.Equal(t, "x", s.field(configMap("small", "", ""), "data", "theirs"))
				require.Equal(t, "x", s.field(richDeployment(t, false), "metadata", "annotations", "theirs"))
			}
			s.silent()
			s.restart()
		})
	}
}

// bigConfigMap has a value of 900 kB.
func bigConfigMap(name string, rich bool) map[string]any {
	cm := configMap(name, "keep", strings.Repeat("0123456789", 90_000))
	if rich {
		cm["data"].(map[string]any)["drop"] = "x"
	}
	return cm
}

// manyKeys has 19,000 keys and maybe one to drop.
func manyKeys(name string, rich bool) map[string]any {
	data := map[string]any{"keep": "x"}
	for i := range 18_999 {
		data[fmt.Sprintf("key-%05d", i)] = "x"
	}
	if rich {
		data["drop"] = "x"
	}
	cm := configMap(name, "", "")
	cm["data"] = data
	return cm
}

func TestC32_DriftIsReverted(t *testing.T) {
	scenario(t, "C32", "drift made by hand is reverted: a Service's spec, a ConfigMap's data, a label without a generation bump; also if it was made while the operator was down")
	service := manifest(t, `{apiVersion: v1, kind: Service, metadata: {name: one, labels: {keep: a}}, spec: {selector: {app: one}, ports: [{name: a, port: 80, targetPort: 8080}, {name: b, port: 81}]}}`)
	secret := manifest(t, `{apiVersion: v1, kind: Secret, metadata: {name: one}, stringData: {keep: a}, data: {more: YQ==}}`)
	pod := manifest(t, `{apiVersion: v1, kind: Pod, metadata: {name: one, labels: {keep: a}}, spec: {containers: [{name: main, image: example.com/app, resources: {limits: {cpu: 1000m}}}]}}`)
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply, config.Recreate, config.OnDelete} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c32-"+lower(strategy), childrenBy(strategy, k8s.Service, k8s.ConfigMap, k8s.Secret, k8s.Pod)...)
			want := []any{service, configMap("one", "keep", "a"), secret, pod}
			s.want(want...)
			drift := func() {
				s.patch(k8s.Service, "one", `{"spec":{"selector":{"app":"two"},"ports":[{"name":"a","port":80,"targetPort":9090}]}}`)
				s.patch(k8s.ConfigMap, "one", `{"data":{"keep":"b"}}`)
				s.patch(k8s.Secret, "one", `{"data":{"keep":"Yg==","more":null}}`)
				s.patch(k8s.Pod, "one", `{"metadata":{"labels":{"keep":"b"}}}`)
			}
			before := s.identities()
			check := func() {
				settle(t, s.Kit)
				require.Empty(t, s.errors())
				if strategy == config.OnDelete {
					require.Equal(t, "b", s.field(pod, "metadata", "labels", "keep"))
					return
				}
				for _, child := range []any{service, configMap("one", "keep", "a"), secret} {
					s.Eventually(child, patience)
				}
				require.Len(t, s.field(service, "spec", "ports"), 2)
				require.Equal(t, "a", s.field(pod, "metadata", "labels", "keep"))
				if strategy != config.Recreate {
					require.Equal(t, before, s.identities())
				}
			}
			drift()
			check()
			s.silent()
			s.rebuild(s.config, drift, want...)
			check()
			s.silent()
			s.restart()
		})
	}
}

func TestC33_RecreateImmutable(t *testing.T) {
	needsWidgets(t)
	scenario(t, "C33", "Recreate on an immutable field: exactly one delete and one create")
	s := newStage(t, "c33", childrenBy(config.Recreate, immutableTypes()...)...)
	for version := range 2 {
		from := needsAudit(t).mark(t)
		s.want(immutables(t, version)...)
		s.undisturbed()
		requests := map[string]int{}
		for _, r := range needsAudit(t).since(t, from, "c33") {
			if r.persists() && r.Resource != "parents" && r.Resource != "events" {
				requests[r.Verb+" "+r.Resource]++
			}
		}
		for _, of := range immutableTypes() {
			name := plural(of).Resource
			require.Equal(t, 1, requests["create "+name], "version %d: %v", version, requests)
			require.Equal(t, version, requests["delete "+name], "version %d: %v", version, requests)
		}
		require.Len(t, requests, (1+version)*len(immutableTypes()), "nothing else: %v", requests)
	}
	s.silent()
	s.restart()
}

func TestC38_ParentChangesInTheMiddle(t *testing.T) {
	scenario(t, "C38", "a change of the parent in the middle of a pass is not lost")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply, config.Recreate} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c38-"+lower(strategy), childrenBy(strategy, k8s.ConfigMap)...)
			entered, proceed := make(chan struct{}, 1), make(chan struct{})
			var hold atomic.Bool // the next call is held up
			hold.Store(true)
			s.answer(func(req *handler.SyncRequest) *handler.SyncResponse {
				if hold.CompareAndSwap(true, false) {
					entered <- struct{}{}
					select {
					case <-proceed:
					case <-t.Context().Done():
					}
				}
				resp, err := copier(context.Background(), req)
				require.NoError(t, err)
				return resp
			})
			for round, color := range []string{"red", "blue", "green"} {
				if round > 0 {
					hold.Store(true)
					s.Update(parent("one", map[string]any{"color": color + " before", "data": map[string]any{"color": color + " before"}}))
				}
				<-entered
				s.Update(parent("one", map[string]any{"color": color, "data": map[string]any{"color": color}}))
				proceed <- struct{}{}
				s.Eventually(configMap("one", "color", color), patience)
				settle(t, s.Kit)
				s.Eventually(map[string]any{
					"apiVersion": parentType.APIVersion, "kind": parentType.Kind, "metadata": map[string]any{"name": "one"},
					"status": map[string]any{"children": 1, "observedGeneration": s.Get(parent("one", nil)).Generation()},
				}, patience)
			}
			require.Empty(t, s.errors())
			s.silent()
		})
	}
}
