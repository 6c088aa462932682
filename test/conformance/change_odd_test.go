package conformance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/resource/k8s"
)

func TestC30b_AllocatedValuesStay(t *testing.T) {
	scenario(t, "C30b", "what the API server has allocated stays when something else of a Service changes: clusterIP and nodePorts")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c30-allocated-"+lower(strategy), childrenBy(strategy, k8s.Service)...)
			service := func(ports string) map[string]any {
				return manifest(t, `{apiVersion: v1, kind: Service, metadata: {name: one}, spec: {type: LoadBalancer, externalTrafficPolicy: Local, ports: [`+ports+`]}}`)
			}
			nodePorts := func() map[string]any {
				found := map[string]any{}
				for _, p := range s.field(service(""), "spec", "ports").([]any) {
					found[p.(map[string]any)["name"].(string)] = p.(map[string]any)["nodePort"]
				}
				return found
			}
			s.want(service(`{name: a, port: 80}, {name: b, port: 81}`))
			ip, health, ports := s.field(service(""), "spec", "clusterIP"), s.field(service(""), "spec", "healthCheckNodePort"), nodePorts()
			for _, next := range []string{
				`{name: a, port: 80, targetPort: http}, {name: b, port: 81}`, `{name: c, port: 82}, {name: a, port: 80}, {name: b, port: 81}`, `{name: b, port: 81}, {name: a, port: 80, appProtocol: http}`, `{name: a, port: 80}`,
			} {
				s.want(service(next))
				require.Equal(t, ip, s.field(service(""), "spec", "clusterIP"))
				require.Equal(t, health, s.field(service(""), "spec", "healthCheckNodePort"))
				for name, nodePort := range nodePorts() {
					if ports[name] != nil {
						require.Equal(t, ports[name], nodePort, "%s after %s", name, next)
					}
				}
				require.Len(t, nodePorts(), strings.Count(next, "{"))
			}
			s.silent()
			s.restart()
		})
	}
}

func TestC30c_ManyLongNames(t *testing.T) {
	scenario(t, "C30c", "where there are more names than the mark on a child can hold, dropped fields disappear all the same, and what others injected beside them stays")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c30-long-"+lower(strategy), childrenBy(strategy, k8s.Deployment)...)
			(&webhook{creation: true, mutate: injectSidecar}).serve(t, s.Namespace)
			deployment := func(n int, more string) map[string]any {
				var env, labels strings.Builder
				for i := range n {
					fmt.Fprintf(&env, `{name: "A_RATHER_LONG_NAME_OF_A_VARIABLE_%d", value: a}, `, i)
					fmt.Fprintf(&labels, `"example.com/a-rather-long-name-of-a-label-%d": a, `, i)
				}
				return manifest(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: one, labels: {`+labels.String()+`}}, spec: {replicas: 0, selector: {matchLabels: {app: one}}, template: {
					metadata: {labels: {app: one}}, spec: {`+more+`containers: [{name: main, image: example.com/app, env: [`+env.String()+`{name: LAST, value: a}]}]}}}}`)
			}
			s.want(deployment(600, "hostname: drop, "))
			s.patch(k8s.Deployment, "one", `{"metadata":{"labels":{"theirs":"x"}}}`)
			settle(t, s.Kit)
			s.silent()
			s.restart()
			s.want(deployment(599, ""))
			live := s.Get(deployment(0, "")).Unstructured()
			require.Equal(t, map[string]string{"sidecar": "example.com/mesh:1", "main": "example.com/app"}, images(live.Object))
			require.NotContains(t, podSpec(live.Object), "hostname")
			require.NotContains(t, containersOf(live.Object)[1].(map[string]any)["env"], map[string]any{"name": "A_RATHER_LONG_NAME_OF_A_VARIABLE_599", "value": "a"})
			require.Equal(t, "x", live.GetLabels()["theirs"])
			require.LessOrEqual(t, len(live.GetAnnotations()["roperator.com/applied"]), 16<<10)
			s.silent()
			s.restart()
		})
	}
}

func TestC30d_OddNamesAndValues(t *testing.T) {
	scenario(t, "C30d", "names with dots, slashes, quotes and brackets, empty values, values in other scripts: kept, changed and dropped like any other")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply, config.Recreate} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c30-odd-"+lower(strategy), childrenBy(strategy, k8s.ConfigMap, k8s.Pod)...)
			odd := func(value string, more bool) map[string]any {
				cm := configMap("one", "a.b-c_d", value)
				data, meta := cm["data"].(map[string]any), cm["metadata"].(map[string]any)
				data["_weird_"], data["lines"], data["text"] = value, "a\nb\r\n\tc\u2028 {{.X}} \"'`", "Ærøskøbing 船 🚢 <&>"
				meta["annotations"] = map[string]any{"example.com/a.b": value, "json": `{"a":["b",{"c":"d"}]}`, "empty": "", "x": strings.Repeat("ø", 500)}
				meta["labels"] = map[string]any{"example.com/a.b_c": "v1.2_3", "empty": ""}
				if more {
					data["drop.me"], data["drop-me.too_"] = "", "}]{[(,*)\"|:"
					meta["annotations"].(map[string]any)["drop.example.com/me"] = "#|,{}"
				}
				return cm
			}
			s.want(odd("1", true))
			s.Eventually(odd("1", true), patience)
			s.silent()
			s.restart()
			s.want(odd("2", false))
			s.Eventually(odd("2", false), patience)
			require.Len(t, s.field(odd("", false), "data"), 4)
			annotations := s.field(odd("", false), "metadata", "annotations").(map[string]any)
			require.NotContains(t, annotations, "drop.example.com/me")
			s.silent()
			s.restart()
		})
	}
}

func TestC32b_TheMarkItself(t *testing.T) {
	scenario(t, "C32b", "the mark on a child, taken off or tampered with, is put back, and recreates nothing")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply, config.Recreate, config.OnDelete} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c32-mark-"+lower(strategy), childrenBy(strategy, k8s.Pod)...)
			pod := manifest(t, `{apiVersion: v1, kind: Pod, metadata: {name: one, labels: {a: b}}, spec: {containers: [{name: main, image: example.com/app, resources: {limits: {cpu: 1000m}}}]}}`)
			s.want(pod)
			mark := func() any { return s.field(pod, "metadata", "annotations", "roperator.com/applied") }
			good, uid := mark(), s.Get(pod).UID()
			require.NotEmpty(t, good)
			for _, patch := range []string{`{"metadata":{"annotations":null}}`, `{"metadata":{"annotations":{"roperator.com/applied":"v1:abc:{{{"},"labels":{"theirs":"x"}}}`} {
				s.patch(k8s.Pod, "one", patch)
				settle(t, s.Kit)
				require.Equal(t, good, mark(), "after %s", patch)
			}
			s.rebuild(s.config, func() { s.patch(k8s.Pod, "one", `{"metadata":{"annotations":null}}`) }, pod)
			if strategy != config.OnDelete { // which can't know what the quantity was
				require.Equal(t, good, mark())
			}
			require.Equal(t, uid, s.Get(pod).UID())
			require.Equal(t, "x", s.field(pod, "metadata", "labels", "theirs"))
			s.silent()
			s.restart()
		})
	}
}

func TestC30e_OwnerReferences(t *testing.T) {
	scenario(t, "C30e", "a further owner that the desired state names is added and dropped; one that others have added stays")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c30-owners-"+lower(strategy), childrenBy(strategy, k8s.ConfigMap)...)
			typed, _ := clients(t, "somebody")
			owner := func(name string) metav1.OwnerReference {
				cm, err := typed.CoreV1().ConfigMaps(s.Namespace).Create(t.Context(), configMapNamed(name), metav1.CreateOptions{})
				require.NoError(t, err)
				return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: cm.UID}
			}
			child := configMapNamed("one")
			child.OwnerReferences = []metav1.OwnerReference{owner("ours")}
			s.want(child)
			live, err := typed.CoreV1().ConfigMaps(s.Namespace).Get(t.Context(), "one", metav1.GetOptions{})
			require.NoError(t, err)
			require.Len(t, live.OwnerReferences, 2)
			live.OwnerReferences = append(live.OwnerReferences, owner("theirs"))
			_, err = typed.CoreV1().ConfigMaps(s.Namespace).Update(t.Context(), live, metav1.UpdateOptions{})
			require.NoError(t, err)
			settle(t, s.Kit)
			s.silent()
			s.want(configMap("one", "k", "w"))
			var names []string
			for _, ref := range s.Get(child).OwnerReferences() {
				names = append(names, ref.Name)
			}
			require.ElementsMatch(t, []string{"one", "theirs"}, names)
			s.silent()
			s.restart()
		})
	}
}
