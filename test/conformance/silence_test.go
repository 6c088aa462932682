package conformance

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// A template of a Pod that never runs anywhere.
const template = `template: {metadata: {labels: {app: one}}, spec: {containers: [{name: main, image: example.com/app}]}}`

func TestC10_ServerDefaultedFields(t *testing.T) {
	scenario(t, "C10", "fields that the API server fills in are no difference: Deployment, Service, CronJob, StatefulSet with only what is required")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Recreate, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c10-"+lower(strategy), childrenBy(strategy, k8s.Deployment, k8s.Service, k8s.CronJob, k8s.StatefulSet)...)
			s.want(
				manifest(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: one}, spec: {selector: {matchLabels: {app: one}}, `+template+`}}`),
				manifest(t, `{apiVersion: v1, kind: Service, metadata: {name: one}, spec: {ports: [{port: 80}]}}`),
				manifest(t, `{apiVersion: batch/v1, kind: CronJob, metadata: {name: one}, spec: {schedule: "0 0 1 1 *", jobTemplate: {spec: {
					template: {spec: {restartPolicy: Never, containers: [{name: main, image: example.com/app}]}}}}}}`),
				manifest(t, `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: one}, spec: {selector: {matchLabels: {app: one}}, `+template+`}}`),
			)
			s.undisturbed()
			require.Len(t, s.creates(), 4, "%v", s.Writes())
			s.silent()
			s.restart()
		})
	}
}

func TestC11_EmptyEnvValue(t *testing.T) {
	scenario(t, "C11", `env value "" that the API server drops is no difference`)
	s := newStage(t, "c11", childrenBy(config.Replace, k8s.Deployment)...)
	deployment := func(value string) map[string]any {
		return manifest(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: one}, spec: {replicas: 0, selector: {matchLabels: {app: one}}, template: {
			metadata: {labels: {app: one}}, spec: {containers: [{name: main, image: example.com/app, env: [
				{name: EMPTY, value: ""}, {name: CHANGES, value: "`+value+`"}, {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}]}}}}`)
	}
	s.want(deployment(""))
	s.undisturbed()
	s.silent()
	s.restart()
	variable := func() any {
		containers := s.field(deployment(""), "spec", "template", "spec", "containers")
		return containers.([]any)[0].(map[string]any)["env"].([]any)[1].(map[string]any)["value"]
	}
	s.want(deployment("x"))
	require.Equal(t, "x", variable())
	s.want(deployment(""))
	require.Nil(t, variable(), "dropped by the API server, and gone after it had one")
	s.silent()
	s.restart()
}

func TestC12_AppendedTolerations(t *testing.T) {
	scenario(t, "C12", "tolerations that admission appended to a Pod under Recreate: same UID")
	s := newStage(t, "c12", childrenBy(config.Recreate, k8s.Pod)...)
	pod := manifest(t, `{apiVersion: v1, kind: Pod, metadata: {name: one}, spec: {
		tolerations: [{key: example.com/own, operator: Exists, effect: NoSchedule}], containers: [{name: main, image: example.com/app}]}}`)
	s.want(pod)
	live := s.Get(pod)
	tolerations, _ := live.Field("spec", "tolerations")
	require.Greater(t, len(tolerations.([]any)), 1, "DefaultTolerationSeconds has added some")
	s.silent()
	s.restart()
	s.silent()
	require.Equal(t, live.UID(), s.Get(pod).UID())
	require.Equal(t, []string{"create"}, verbs(s.Writes(), "Pod", "one"))
}

func TestC13_NormalizedQuantities(t *testing.T) {
	scenario(t, "C13", "cpu: 1000m stored as 1 is no difference, nor is any other spelling of a quantity")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Recreate, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c13-"+lower(strategy), childrenBy(strategy, k8s.Pod, k8s.ResourceQuota)...)
			pod := manifest(t, `{apiVersion: v1, kind: Pod, metadata: {name: one}, spec: {containers: [
				{name: main, image: example.com/app, resources: {limits: {cpu: 1000m, memory: 1024Mi, ephemeral-storage: 1e3}, requests: {cpu: "0.5", memory: 0.5Gi}}},
				{name: bare, image: example.com/app, resources: {limits: {cpu: 1, memory: 1073741824}, requests: {cpu: 0.5}}}],
				volumes: [{name: scratch, emptyDir: {sizeLimit: 2048Mi}}]}}`)
			quota := func(cpu any) map[string]any {
				q := manifest(t, `{apiVersion: v1, kind: ResourceQuota, metadata: {name: one}, spec: {hard: {}}}`)
				q["spec"].(map[string]any)["hard"] = map[string]any{"limits.cpu": cpu, "limits.memory": "102400Mi"}
				return q
			}
			s.want(pod, quota("10000m"))
			live := s.Get(pod)
			cpu, _ := live.Field("spec", "containers")
			require.Equal(t, "1", cpu.([]any)[0].(map[string]any)["resources"].(map[string]any)["limits"].(map[string]any)["cpu"])
			s.undisturbed()
			s.silent()
			s.restart()
			require.Equal(t, live.UID(), s.Get(pod).UID())

			s.want(pod, quota("11000m"))
			require.Equal(t, "11", s.field(quota(nil), "spec", "hard", "limits.cpu"))
			s.want(pod, quota(12))
			require.Equal(t, "12", s.field(quota(nil), "spec", "hard", "limits.cpu"))
			s.silent()
			s.restart()
		})
	}
}

func TestC14_NullsOfTypedObjects(t *testing.T) {
	scenario(t, "C14", "nested creationTimestamp: null and the empty status of typed objects are no difference")
	s := newStage(t, "c14", childrenBy(config.Replace, k8s.Deployment, k8s.StatefulSet)...)
	raw := manifest(t, `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: raw, creationTimestamp: null}, status: {}, spec: {
		replicas: 0, serviceName: "", selector: {matchLabels: {app: raw}}, updateStrategy: {}, template: {
			metadata: {creationTimestamp: null, labels: {app: raw}, annotations: null},
			spec: {containers: [{name: main, image: example.com/app, resources: {}, env: null, args: []}], nodeSelector: {}, tolerations: null, volumes: []}},
		volumeClaimTemplates: [{metadata: {name: data, creationTimestamp: null}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1024Mi}}}, status: {}}]},
		}`)
	s.want(typedDeployment(), raw)
	s.undisturbed()
	s.silent()
	s.restart()
}

func TestC15_ObservedChildren(t *testing.T) {
	scenario(t, "C15", "handler.Keep of an observed child, and a handler that returns the observed child itself: nothing is written")
	service := manifest(t, `{apiVersion: v1, kind: Service, metadata: {name: one}, spec: {ports: [{port: 80}]}}`)
	for name, again := range map[string]func(*resource.Resource) any{
		"keep": handler.Keep,
		"self": func(r *resource.Resource) any { return r },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c15-"+name, childrenBy(config.Replace, k8s.Service)...)
			s.answer(func(req *handler.SyncRequest) *handler.SyncResponse {
				if live, ok := req.Children.Find(service); ok {
					return &handler.SyncResponse{Children: []any{again(live)}}
				}
				return &handler.SyncResponse{Children: []any{service}}
			})
			s.Eventually(service, patience)
			settle(t, s.Kit)
			s.silent()
			typed, _ := clients(t, "somebody")
			live, err := typed.CoreV1().Services(s.Namespace).Get(t.Context(), "one", metav1.GetOptions{})
			require.NoError(t, err)
			live.Spec.Ports[0].Port, live.Labels["theirs"] = 81, "yes"
			_, err = typed.CoreV1().Services(s.Namespace).Update(t.Context(), live, metav1.UpdateOptions{})
			require.NoError(t, err)
			settle(t, s.Kit)
			require.Equal(t, int64(81), s.field(service, "spec", "ports").([]any)[0].(map[string]any)["port"], "as it is")
			s.silent()
			s.restart()
			require.Len(t, s.creates(), 1)
			require.Empty(t, s.errors())
		})
	}
}

func TestC16_PortsOfTwoProtocols(t *testing.T) {
	scenario(t, "C16", "Service ports 53/TCP and 53/UDP both live")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c16-"+lower(strategy), childrenBy(strategy, k8s.Service, k8s.Deployment)...)
			want := func(target string) []any {
				return []any{
					manifest(t, `{apiVersion: v1, kind: Service, metadata: {name: one}, spec: {selector: {app: one}, ports: [
						{name: dns-tcp, port: 53, targetPort: `+target+`}, {name: dns, port: 53, protocol: UDP, targetPort: `+target+`}]}}`),
					manifest(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: one}, spec: {replicas: 0, selector: {matchLabels: {app: one}}, template: {
						metadata: {labels: {app: one}}, spec: {containers: [{name: main, image: example.com/app, ports: [
							{name: tcp-`+target+`, containerPort: 53}, {name: udp-`+target+`, containerPort: 53, protocol: UDP}]}]}}}}`),
				}
			}
			for _, target := range []string{"1053", "2053"} {
				s.want(want(target)...)
				ports := s.field(want("")[0], "spec", "ports").([]any)
				require.Len(t, ports, 2)
				require.Equal(t, []any{"TCP", "UDP"}, []any{ports[0].(map[string]any)["protocol"], ports[1].(map[string]any)["protocol"]})
				for _, child := range want(target) {
					s.Eventually(child, patience)
				}
			}
			s.silent()
			s.restart()
		})
	}
}

func TestC17_TwoMountsOfOneVolume(t *testing.T) {
	scenario(t, "C17", "two volumeMounts of one volume both live")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c17-"+lower(strategy), childrenBy(strategy, k8s.Deployment)...)
			want := func(second string) map[string]any {
				return manifest(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: one}, spec: {replicas: 0, selector: {matchLabels: {app: one}}, template: {
					metadata: {labels: {app: one}}, spec: {volumes: [{name: data, emptyDir: {}}], containers: [{name: main, image: example.com/app, volumeMounts: [
						{name: data, mountPath: /a}, {name: data, mountPath: `+second+`, subPath: b, readOnly: true}]}]}}}}`)
			}
			for _, second := range []string{"/b", "/c"} {
				s.want(want(second))
				mounts := s.field(want(second), "spec", "template", "spec", "containers").([]any)[0].(map[string]any)["volumeMounts"].([]any)
				require.True(t, len(mounts) == 2 && slices.ContainsFunc(mounts, func(m any) bool { return m.(map[string]any)["mountPath"] == second }), "%v", mounts)
			}
			s.silent()
			s.restart()
		})
	}
}

func TestC19_DefaultsInListItems(t *testing.T) {
	scenario(t, "C19", "defaults inside list items are no difference: fieldRef.apiVersion, ports' protocol, modes of volumes")
	s := newStage(t, "c19", childrenBy(config.Recreate, k8s.Pod)...)
	pod := manifest(t, `{apiVersion: v1, kind: Pod, metadata: {name: one}, spec: {serviceAccountName: default,
		volumes: [{name: info, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}},
			{name: all, projected: {sources: [{configMap: {name: a, items: [{key: a, path: a}]}}, {serviceAccountToken: {path: token}}]}}, {name: secret, secret: {secretName: a}}],
		containers: [{name: main, image: example.com/app, ports: [{containerPort: 80}], livenessProbe: {httpGet: {port: 80}},
			env: [{name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}]}]}}`)
	s.want(pod)
	s.silent()
	s.restart()
	require.Equal(t, []string{"create"}, verbs(s.Writes(), "Pod", "one"))
}

func TestC21_StatusWrittenOnce(t *testing.T) {
	scenario(t, "C21", "an idempotent status is written once")
	for name, status := range map[string]any{
		"map": map[string]any{"phase": "Ready", "nothing": nil, "empty": map[string]any{}, "list": []any{}, "ratio": 0.5, "whole": 2.0},
		"typed": struct {
			Conditions []metav1.Condition      `json:"conditions"`
			Started    metav1.Time             `json:"started"`
			Address    corev1.NodeAddress      `json:"address"`
			Missing    *corev1.ObjectReference `json:"missing"`
		}{Conditions: []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Fine"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStageWith(t, operator("c21-"+name, childrenBy(config.Replace, k8s.ConfigMap)...), testkit.KitOptions{})
			s.answer(func(*handler.SyncRequest) *handler.SyncResponse {
				return &handler.SyncResponse{Status: status, Children: []any{configMap("one", "k", "v")}}
			})
			s.Eventually(configMap("one", "k", "v"), patience)
			settle(t, s.Kit)
			require.Equal(t, []string{"update-status"}, verbs(s.Writes(), "Parent", "one"))
			s.silent()
			s.restart()
			require.Equal(t, []string{"update-status"}, verbs(s.Writes(), "Parent", "one"))
		})
	}
}
