package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/resource/k8s"
)

func TestC12b_ImageOfAPodThatAdmissionChanged(t *testing.T) {
	scenario(t, "C12b", "what admission made of a Pod at its creation doesn't keep its image from being changed in place")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c12-image-"+lower(strategy), childrenBy(strategy, k8s.Pod)...)
			(&webhook{creation: true, mutate: func(pod map[string]any) { podSpec(pod)["schedulerName"] = "theirs" }}).serve(t, s.Namespace)
			pod := func(image string) map[string]any {
				return manifest(t, `{apiVersion: v1, kind: Pod, metadata: {name: one}, spec: {schedulerName: ours, tolerations: [{key: example.com/own, operator: Exists, effect: NoSchedule}],
					containers: [{name: main, image: "example.com/app:`+image+`", resources: {limits: {cpu: 1000m}}}]}}`)
			}
			s.want(pod("1"))
			uid := s.Get(pod("")).UID()
			require.Equal(t, "theirs", s.field(pod(""), "spec", "schedulerName"))
			for _, image := range []string{"2", "3"} {
				s.want(pod(image))
				require.Equal(t, map[string]string{"main": "example.com/app:" + image}, images(s.Get(pod("")).Unstructured().Object))
			}
			s.silent()
			s.restart()
			s.want(pod("4"))
			s.rebuild(s.config, nil, pod("5"))
			require.Equal(t, map[string]string{"main": "example.com/app:5"}, images(s.Get(pod("")).Unstructured().Object), "and no memory either")
			require.Equal(t, uid, s.Get(pod("")).UID())
			s.silent()
			s.restart()
		})
	}
}

func TestC13b_NewBuildSaysWhatIsSoAlready(t *testing.T) {
	scenario(t, "C13b", "a new build that spells out defaults and quantities differently recreates nothing")
	s := newStage(t, "c13-build", childrenBy(config.Recreate, k8s.Pod)...)
	pod := func(more, cpu string) map[string]any {
		return manifest(t, `{apiVersion: v1, kind: Pod, metadata: {name: one}, spec: {`+more+`containers: [{name: main, image: example.com/app, resources: {limits: {cpu: `+cpu+`, memory: 1024Mi}}}]}}`)
	}
	s.want(pod("", "1000m"))
	uid := s.Get(pod("", "1")).UID()
	s.rebuild(s.config, nil, pod("restartPolicy: Always, ", "1000m"))
	s.rebuild(s.config, nil, pod("dnsPolicy: ClusterFirst, ", `"1.0"`))
	s.silent()
	s.restart()
	require.Equal(t, uid, s.Get(pod("", "1")).UID())
	s.rebuild(s.config, nil, pod("", "2000m"))
	require.NotEqual(t, uid, s.Get(pod("", "1")).UID(), "but what differs is recreated")
	s.silent()
}

func TestC14b_EveryForm(t *testing.T) {
	scenario(t, "C14b", "one child as a map, typed, unstructured and as an apply configuration: never another object, silent in every form")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Recreate, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c14-"+lower(strategy), childrenBy(strategy, k8s.Deployment)...)
			plain := manifest(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: typed}, spec: {replicas: 0, selector: {matchLabels: {app: typed}}, template: {
				metadata: {labels: {app: typed}}, spec: {containers: [{name: main, image: example.com/app}]}}}}`)
			s.want(plain)
			before := s.identities()
			labels := map[string]string{"app": "typed"}
			for _, form := range []any{
				typedDeployment(), *typedDeployment(), &unstructured.Unstructured{Object: plain},
				applyappsv1.Deployment("typed", "").WithSpec(applyappsv1.DeploymentSpec().WithReplicas(0).
					WithSelector(applymetav1.LabelSelector().WithMatchLabels(labels)).
					WithTemplate(applycorev1.PodTemplateSpec().WithLabels(labels).WithSpec(applycorev1.PodSpec().
						WithContainers(applycorev1.Container().WithName("main").WithImage("example.com/app"))))),
			} {
				s.rebuild(s.config, nil, form)
				require.Equal(t, before, s.identities(), "%T", form)
				s.restart()
			}
			s.silent()
		})
	}
}

func TestC20b_SidecarInjectedAtCreation(t *testing.T) {
	scenario(t, "C20b", "a sidecar that a webhook injects only when an object is created is kept when our image changes and our variables go")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c20-create-"+lower(strategy), childrenBy(strategy, k8s.Pod, k8s.Deployment)...)
			(&webhook{creation: true, mutate: injectSidecar}).serve(t, s.Namespace)
			s.want(podWith(t, "1"), deploymentWith(t, "1"))
			before := s.identities()
			bare := deploymentWith(t, "2")
			delete(containersOf(bare)[0].(map[string]any), "env")
			delete(containersOf(bare)[0].(map[string]any), "resources")
			more := deploymentWith(t, "3")
			podSpec(more)["containers"] = append(containersOf(more), map[string]any{"name": "more", "image": "example.com/more"})
			for image, deployment := range map[string]map[string]any{"2": bare, "3": more, "4": deploymentWith(t, "4")} {
				generation := s.Get(deployment).Generation()
				s.want(podWith(t, image), deployment)
				require.Equal(t, generation+1, s.Get(deployment).Generation(), "one rollout")
				for _, child := range s.children() {
					live := child.Unstructured()
					require.Equal(t, "example.com/mesh:1", images(live.Object)["sidecar"], "%s", child)
					require.Equal(t, "example.com/app:"+image, images(live.Object)["main"], "%s", child)
					require.Equal(t, "injected", live.GetAnnotations()["mesh.example.com/status"])
					main := containersOf(live.Object)[1].(map[string]any)
					require.Contains(t, main["env"], map[string]any{"name": "MESH", "value": "on"}, "%s", child)
					require.Contains(t, main["volumeMounts"], map[string]any{"name": "mesh", "mountPath": "/mesh"}, "%s", child)
				}
				live := s.Get(deployment).Unstructured().Object
				require.Len(t, containersOf(live), 1+len(containersOf(deployment)))
				_, env := containersOf(deployment)[0].(map[string]any)["env"]
				require.Equal(t, env, len(containersOf(live)[1].(map[string]any)["env"].([]any)) == 2)
			}
			require.Equal(t, before, s.identities())
			s.silent()
			s.restart()
		})
	}
}

func TestC30i_OwnedByTwo(t *testing.T) {
	scenario(t, "C30i", "Apply: what another manager applies as well stays when it is dropped; what only we did goes")
	s := newStage(t, "c30-two", childrenBy(config.Apply, k8s.ConfigMap)...)
	both := manifest(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {keep: a, both: b, ours: c}}`)
	s.want(both)
	_, untyped := clients(t, "somebody")
	_, err := untyped.Resource(plural(k8s.ConfigMap)).Namespace(s.Namespace).Patch(t.Context(), "one", types.ApplyYAMLPatchType,
		[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"},"data":{"both":"b","theirs":"d"}}`), metav1.PatchOptions{FieldManager: "somebody"})
	require.NoError(t, err)
	settle(t, s.Kit)
	s.want(configMap("one", "keep", "a"))
	require.Equal(t, map[string]any{"keep": "a", "both": "b", "theirs": "d"}, s.field(both, "data"))
	s.silent()
	s.restart()
}

func TestC22b_StrategyChanges(t *testing.T) {
	scenario(t, "C22b", "a new build with another strategy: nothing is written for that, and what it drops goes")
	deployment := func(drop string) map[string]any {
		return manifest(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: one}, spec: {replicas: 0, selector: {matchLabels: {app: one}}, template: {
			metadata: {labels: {app: one}}, spec: {containers: [{name: main, image: example.com/app, env: [{name: KEEP, value: a}`+drop+`], resources: {limits: {cpu: 1000m}}}]}}}}`)
	}
	s := newStage(t, "c22-change", childrenBy(config.Replace, k8s.Deployment)...)
	s.want(deployment(", {name: A, value: a}, {name: B, value: a}, {name: C, value: a}, {name: D, value: a}"))
	uid := s.Get(deployment("")).UID()
	rest := []string{", {name: B, value: a}, {name: C, value: a}, {name: D, value: a}", ", {name: C, value: a}, {name: D, value: a}", ", {name: D, value: a}", ""}
	current := deployment(", {name: A, value: a}, {name: B, value: a}, {name: C, value: a}, {name: D, value: a}")
	for i, strategy := range []config.UpdateStrategy{config.Apply, config.Replace, config.Apply, config.Recreate} {
		s.config.Children = childrenBy(strategy, k8s.Deployment)
		writes := len(s.Writes())
		s.rebuild(s.config, nil, current)
		require.Len(t, s.Writes(), writes, "%s", strategy)
		current = deployment(rest[i])
		s.rebuild(s.config, nil, current)
		containers := s.field(current, "spec", "template", "spec", "containers").([]any)
		require.Len(t, containers[0].(map[string]any)["env"], 4-i, "%s", strategy)
		require.Equal(t, strategy == config.Recreate, uid != s.Get(current).UID())
		s.restart()
	}
	s.silent()
}
