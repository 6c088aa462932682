package conformance

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/resource/k8s"
)

// A webhook is a mutating admission webhook for the ConfigMaps, Pods and
// Deployments of one namespace.
type webhook struct {
	mutate   func(object map[string]any)
	wet      bool // it refuses dry runs
	creation bool // it isn't asked about updates
	calls    atomic.Int64
}

// serve registers the webhook for a namespace until the test ends, and returns
// when the API server asks it.
func (w *webhook) serve(t *testing.T, namespace string) {
	t.Helper()
	server := httptest.NewUnstartedServer(w)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	operations := []admissionregistrationv1.OperationType{"CREATE", "UPDATE"}
	if w.creation {
		operations = operations[:1]
	}
	typed, _ := clients(t, "somebody")
	hooks := typed.AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := hooks.Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name:                    "mutate.conformance.roperator.com",
			AdmissionReviewVersions: []string{"v1"},
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds:          new(int32(30)), // as long as may be: a late answer is none
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL:      new(server.URL),
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: operations,
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{"", "apps"}, APIVersions: []string{"v1"}, Resources: []string{"configmaps", "pods", "deployments", "secrets"},
				},
			}},
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, hooks.Delete(context.Background(), namespace, metav1.DeleteOptions{}))
	})
	probe := typed.CoreV1().ConfigMaps(namespace)
	eventually(t, "the API server asks the webhook", func() bool {
		cm, err := probe.Create(t.Context(), configMapNamed("probe"), metav1.CreateOptions{})
		require.NoError(t, err)
		require.NoError(t, probe.Delete(t.Context(), cm.Name, metav1.DeleteOptions{}))
		return w.calls.Load() > 0
	})
}

// ServeHTTP answers an AdmissionReview with a patch that replaces the object.
func (w *webhook) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	var review admissionv1.AdmissionReview
	var object map[string]any
	err := json.NewDecoder(in.Body).Decode(&review)
	if err == nil {
		err = json.Unmarshal(review.Request.Object.Raw, &object)
	}
	if err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	w.calls.Add(1)
	if review.Request.Resource.Resource != "configmaps" {
		w.mutate(object)
	}
	patch, err := json.Marshal([]any{map[string]any{"op": "replace", "path": "", "value": object}})
	if err != nil {
		http.Error(out, err.Error(), http.StatusInternalServerError)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{
		UID: review.Request.UID, Allowed: true, Patch: patch, PatchType: new(admissionv1.PatchTypeJSONPatch),
	}
	if w.wet && *review.Request.DryRun {
		review.Response = &admissionv1.AdmissionResponse{
			UID: review.Request.UID, Result: &metav1.Status{Message: "there is no such thing as a dry run here"},
		}
	}
	review.Request = nil
	out.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(out).Encode(review); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// podSpec returns that of a Pod or of a template of Pods.
func podSpec(object map[string]any) map[string]any {
	spec, _ := object["spec"].(map[string]any)
	if template, ok := spec["template"].(map[string]any); ok {
		spec, _ = template["spec"].(map[string]any)
	}
	return spec
}

func containersOf(object map[string]any) []any {
	containers, _ := podSpec(object)["containers"].([]any)
	return containers
}

// injectSidecar does what service meshes do: it puts a container first, gives
// the others a variable and a mount, and adds a volume and an annotation.
func injectSidecar(object map[string]any) {
	spec := podSpec(object)
	containers := containersOf(object)
	if containers[0].(map[string]any)["name"] == "sidecar" {
		return
	}
	for _, c := range containers {
		c := c.(map[string]any)
		env, _ := c["env"].([]any)
		c["env"] = append([]any{map[string]any{"name": "MESH", "value": "on"}}, env...)
		mounts, _ := c["volumeMounts"].([]any)
		c["volumeMounts"] = append(mounts, map[string]any{"name": "mesh", "mountPath": "/mesh"})
	}
	spec["containers"] = append([]any{map[string]any{"name": "sidecar", "image": "example.com/mesh:1"}}, containers...)
	volumes, _ := spec["volumes"].([]any)
	spec["volumes"] = append(volumes, map[string]any{"name": "mesh", "emptyDir": map[string]any{}})
	meta := object["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
	}
	annotations["mesh.example.com/status"] = "injected"
	meta["annotations"] = annotations
}

// mirrorImages takes every image from another registry.
func mirrorImages(object map[string]any) {
	for _, c := range containersOf(object) {
		c := c.(map[string]any)
		if image, _ := c["image"].(string); !strings.HasPrefix(image, "mirror.") {
			c["image"] = "mirror." + image
		}
	}
}

// images returns the image of each container.
func images(object map[string]any) map[string]string {
	out := map[string]string{}
	for _, c := range containersOf(object) {
		c := c.(map[string]any)
		out[c["name"].(string)], _ = c["image"].(string)
	}
	return out
}

func podWith(t *testing.T, image string) map[string]any {
	t.Helper()
	return manifest(t, `{apiVersion: v1, kind: Pod, metadata: {name: one}, spec: {containers: [
		{name: main, image: "example.com/app:`+image+`", env: [{name: A, value: a}], volumeMounts: [{name: data, mountPath: /data}]}], volumes: [{name: data, emptyDir: {}}]}}`)
}

func deploymentWith(t *testing.T, image string) map[string]any {
	t.Helper()
	return manifest(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: one}, spec: {replicas: 0, selector: {matchLabels: {app: one}}, template: {
		metadata: {labels: {app: one}}, spec: {containers: [{name: main, image: "example.com/app:`+image+`", env: [{name: A, value: a}], resources: {limits: {cpu: 1000m}}}]}}}}`)
}

func TestC20_InjectedSidecar(t *testing.T) {
	scenario(t, "C20", "a sidecar injected by a mutating webhook: kept when our image changes, no loop")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply, config.Recreate} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c20-"+lower(strategy), childrenBy(strategy, k8s.Pod, k8s.Deployment)...)
			(&webhook{mutate: injectSidecar}).serve(t, s.Namespace)
			for _, image := range []string{"1", "2"} {
				s.want(podWith(t, image), deploymentWith(t, image))
				for _, child := range s.children() {
					live := child.Unstructured()
					require.Equal(t, map[string]string{"sidecar": "example.com/mesh:1", "main": "example.com/app:" + image}, images(live.Object), "%s", child)
					require.Equal(t, "injected", live.GetAnnotations()["mesh.example.com/status"])
					var names []any
					for _, v := range containersOf(live.Object)[1].(map[string]any)["env"].([]any) {
						names = append(names, v.(map[string]any)["name"])
					}
					require.Equal(t, []any{"MESH", "A"}, names)
				}
				s.undisturbed()
				s.silent()
			}
			s.restart()
			s.silent()
			wanted := map[config.UpdateStrategy][]string{
				config.Replace: {"create", "update"}, config.Apply: {"create", "apply"}, config.Recreate: {"create", "delete", "create"},
			}
			require.Equal(t, wanted[strategy], verbs(s.Writes(), "Pod", "one"))
		})
	}
}

func TestC20c_WebhookThatChangesOurFields(t *testing.T) {
	scenario(t, "C20c", "a webhook that makes something else of what we set, with and without dry runs: no loop, nothing written after a restart")
	for name, wet := range map[string]bool{"dry": false, "wet": true} {
		for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply, config.Recreate} {
			t.Run(name+string(strategy), func(t *testing.T) {
				t.Parallel()
				s := newStage(t, "c20-"+name+"-"+lower(strategy), childrenBy(strategy, k8s.Pod, k8s.Deployment)...)
				(&webhook{mutate: mirrorImages, wet: wet}).serve(t, s.Namespace)
				for _, image := range []string{"1", "2"} {
					s.want(podWith(t, image), deploymentWith(t, image))
					for _, child := range s.children() {
						require.Equal(t, map[string]string{"main": "mirror.example.com/app:" + image}, images(child.Unstructured().Object), "%s", child)
					}
				}
				s.undisturbed()
				s.silent()
				uid := s.Get(podWith(t, "")).UID()
				s.restart()
				require.Equal(t, uid, s.Get(podWith(t, "")).UID())
				s.silent()
				s.want(podWith(t, "3"), deploymentWith(t, "3"))
				for _, child := range s.children() {
					require.Equal(t, map[string]string{"main": "mirror.example.com/app:3"}, images(child.Unstructured().Object), "%s", child)
				}
			})
		}
	}
}
