package conformance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/resource/k8s"
)

func TestC132_StaleDefaults(t *testing.T) {
	scenario(t, "C132", "what the server made of our words is made anew when the words change")
	checkTransitionsBy(t, "c132", defaultsTransitions(), config.Replace, config.Apply)
}

// defaultsTransitions are of fields that the API server makes of others.
func defaultsTransitions() map[string]transition {
	return map[string]transition{
		"target port": {
			"targetPort follows port", `apiVersion: v1, kind: Service, spec: {selector: {app: one}, ports: [{%s}]}`,
			[]string{"port: 80", "port: 8080", "port: 8080, name: http", "port: 81, name: http", "port: 81, name: http, targetPort: 9090", "port: 82, name: http"},
		},
		"node port": {
			"what the server has allocated stays with the port, and targetPort follows", `apiVersion: v1, kind: Service, spec: {selector: {app: one}, type: ClusterIP, ports: [{port: 80, name: a}, {%s}]}`,
			[]string{"port: 81, name: b", "port: 82, name: b", "port: 83, name: c"},
		},
		"node port by name": {
			"an allocated port isn't made anew, whatever its name and number", `apiVersion: v1, kind: Service, spec: {selector: {app: one}, type: NodePort, ports: [%s]}`,
			[]string{"{name: a, port: 80}", "{name: a, port: 81}", "{name: b, port: 81}", "{name: b, port: 81}, {name: c, port: 83, protocol: UDP}", "{name: d, port: 83}, {name: b, port: 81}"},
		},
		"policy types": {
			"policyTypes follow the rules that there are", `apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, spec: {podSelector: {}, %s}`,
			[]string{"ingress: []", "ingress: [], egress: [{}]", "egress: [{}]", "policyTypes: [Ingress]", "ingress: [{}]"},
		},
		"image": {
			"imagePullPolicy follows the tag", `apiVersion: apps/v1, kind: Deployment, spec: {replicas: 0, selector: {matchLabels: {app: one}}, template: {metadata: {labels: {app: one}}, spec: {containers: [{name: main, %s}]}}}`,
			[]string{"image: example.com/app:latest", `image: "example.com/app:1.0"`, "image: example.com/app", `image: "example.com/app:2.0", imagePullPolicy: Always`, `image: "example.com/app:2.0"`},
		},
		"affinity": {
			"a session affinity has a timeout, and none has none", `apiVersion: v1, kind: Service, spec: {selector: {app: one}, ports: [{port: 80}], %s}`,
			[]string{"sessionAffinity: ClientIP", "sessionAffinity: None", "sessionAffinity: ClientIP", ""},
		},
		"limits": {
			"a LimitRange's defaults follow its maxima", `apiVersion: v1, kind: LimitRange, spec: {limits: [{type: PersistentVolumeClaim, %s}]}`,
			[]string{`max: {storage: 1Gi}`, `max: {storage: 2Gi}`, `max: {storage: 2Gi}, min: {storage: 1Mi}`},
		},
		"external traffic": {
			"a policy for traffic from outside goes with the type", `apiVersion: v1, kind: Service, spec: {selector: {app: one}, ports: [{port: 80}], %s}`,
			[]string{"type: ClusterIP", "type: ExternalName, externalName: example.com", "type: ClusterIP"},
		},
		"autoscaler": {
			"a behaviour's defaults", `apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: none}, maxReplicas: 3, %s}`,
			[]string{"minReplicas: 2", "metrics: [{type: Resource, resource: {name: memory, target: {type: Utilization, averageUtilization: 50}}}]", "behavior: {scaleDown: {stabilizationWindowSeconds: 60}}", "minReplicas: 1"},
		},
		"job": {
			"completions follow nothing else", `apiVersion: batch/v1, kind: CronJob, spec: {schedule: "0 0 * * *", suspend: true, jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, %s}]}}}}}`,
			[]string{"image: example.com/app:latest", `image: "example.com/app:1.0"`},
		},
		"fixed": {
			"what can't be changed stays", `apiVersion: batch/v1, kind: Job, spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: main, image: "example.com/app"}]}}, %s}`,
			[]string{"parallelism: 1", "parallelism: 2", "parallelism: 2, backoffLimit: 3", "parallelism: 3"},
		},
		"pod": {
			"of a Pod hardly anything can be changed", `apiVersion: v1, kind: Pod, spec: {schedulerName: nobody, containers: [{name: main, %s}]}`,
			[]string{`image: "example.com/app:1.0"`, `image: "example.com/app:2.0"`, `image: "example.com/app:3.0"`},
		},
		"probe": {
			"a probe's defaults are made with its kind", aContainer,
			[]string{"livenessProbe: {httpGet: {port: 80}}", "livenessProbe: {tcpSocket: {port: 80}}, ports: [{containerPort: 80}]", "livenessProbe: {grpc: {port: 81}}"},
		},
		"requests": {
			"requests follow limits in a Pod's template only once a Pod is made of it", aContainer,
			[]string{`resources: {limits: {cpu: "1"}}`, `resources: {limits: {cpu: "2"}}`},
		},
		"update strategy": {
			"a partition is a default only where no type of strategy is said", aStatefulSet,
			[]string{"", "updateStrategy: {type: RollingUpdate}", "updateStrategy: {type: RollingUpdate}, minReadySeconds: 1", ""},
		},
		"update strategy beside what is normalized": {
			"cpu is stored in another way, which keeps nothing from being made anew",
			`apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 0, selector: {matchLabels: {app: one}}, template: {metadata: {labels: {app: one}}, spec: {
				containers: [{name: main, image: example.com/app, resources: {limits: {cpu: 1000m}}}]}}, %s}`,
			[]string{"", "updateStrategy: {type: RollingUpdate}", "updateStrategy: {type: RollingUpdate}, minReadySeconds: 1", ""},
		},
		"families": {
			"clusterIP stays, whatever else changes", aService,
			[]string{"ports: [{port: 80}]", "ports: [{port: 80}], ipFamilyPolicy: PreferDualStack", "ports: [{port: 81}], ipFamilyPolicy: PreferDualStack", "ports: [{port: 82}], ipFamilyPolicy: SingleStack"},
		},
	}
}

func TestC132b_DefaultThatWasSaid(t *testing.T) {
	scenario(t, "C132b", "a field that we said once, and that the server makes as we said it, is made anew when the words that it follows from change")
	for name, tc := range map[string]struct {
		head   string
		states []string
		want   string // the field that follows
		value  any
	}{
		"policyTypes": {
			`apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: one}, spec: {podSelector: {}, %s}`,
			[]string{"ingress: [{}]", "policyTypes: [Ingress]", "ingress: []", "egress: [{}]"}, "policyTypes", []any{"Ingress", "Egress"},
		},
		"limits": {
			`apiVersion: v1, kind: LimitRange, metadata: {name: one}, spec: {%s}`,
			[]string{
				"limits: [{type: Pod, max: {cpu: 1}}]", "limits: [{type: Container, max: {cpu: 1}, default: {cpu: 1}, defaultRequest: {cpu: 1}}]",
				"limits: [{type: Container, max: {cpu: 1}}]", "limits: [{type: Container, max: {cpu: 2}}]",
			}, "limits", []any{map[string]any{
				"type": "Container", "max": map[string]any{"cpu": "2"}, "default": map[string]any{"cpu": "2"}, "defaultRequest": map[string]any{"cpu": "2"},
			}},
		},
		"strategy": {
			`apiVersion: apps/v1, kind: DaemonSet, metadata: {name: one}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}, %s}`,
			[]string{
				"updateStrategy: {type: RollingUpdate}", "updateStrategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}", "updateStrategy: {type: RollingUpdate}", "updateStrategy: {type: OnDelete}",
			}, "updateStrategy", map[string]any{"type": "OnDelete"},
		},
	} {
		for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply} {
			t.Run(name+"/"+string(strategy), func(t *testing.T) {
				t.Parallel()
				child := func(state string) map[string]any { return manifest(t, fmt.Sprintf("{"+tc.head+"}", state)) }
				s := newStage(t, "c132-said-"+strings.ToLower(name)+"-"+lower(strategy), childrenBy(strategy, typeOf(child("")))...)
				for _, state := range tc.states {
					s.want(child(state))
					s.undisturbed()
				}
				require.Equal(t, tc.value, s.field(child(""), "spec", tc.want))
				s.silent()
				s.restart()
			})
		}
	}
}

func TestC132c_OthersKeepWhatTheySaid(t *testing.T) {
	scenario(t, "C132c", "what others have set beside our words stays when the words change")
	s := newStage(t, "c132-others", childrenBy(config.Replace, k8s.Service)...)
	service := func(port string) map[string]any {
		return manifest(t, `{apiVersion: v1, kind: Service, metadata: {name: one}, spec: {selector: {app: one}, ports: [{name: http, port: `+port+`}]}}`)
	}
	s.ask(service("80"))
	settle(t, s.Kit)
	typed, _ := clients(t, "somebody")
	_, err := typed.CoreV1().Services(s.Namespace).Patch(t.Context(), "one", types.JSONPatchType,
		[]byte(`[{"op": "replace", "path": "/spec/ports/0/targetPort", "value": 9090}, {"op": "replace", "path": "/spec/internalTrafficPolicy", "value": "Local"}]`), metav1.PatchOptions{FieldManager: "somebody"})
	require.NoError(t, err)
	s.ask(service("8080"))
	settle(t, s.Kit)
	ports, _ := s.field(service("80"), "spec", "ports").([]any)
	require.Len(t, ports, 1)
	port, _ := ports[0].(map[string]any)
	require.EqualValues(t, 8080, port["port"])
	require.EqualValues(t, 9090, port["targetPort"], "somebody has set it")
	require.Equal(t, "Local", s.field(service("80"), "spec", "internalTrafficPolicy"))
	s.silent()
}

func TestC132d_CreateOnlyWebhook(t *testing.T) {
	scenario(t, "C132d", "what a webhook injects at the creation alone isn't lost when the words change")
	s := newStage(t, "c132-hook", childrenBy(config.Replace, k8s.Deployment)...)
	hook := &webhook{creation: true, mutate: func(object map[string]any) {
		spec, ok := object["spec"].(map[string]any)
		template, ok2 := spec["template"].(map[string]any)
		if pod, ok3 := template["spec"].(map[string]any); ok && ok2 && ok3 {
			pod["priorityClassName"] = "injected"
			pod["dnsPolicy"] = "Default"
		}
	}}
	hook.serve(t, s.Namespace)
	child := func(image string) map[string]any {
		return manifest(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: one}, spec: {replicas: 0, selector: {matchLabels: {app: one}},
			template: {metadata: {labels: {app: one}}, spec: {containers: [{name: main, image: "`+image+`"}]}}}}`)
	}
	for _, image := range []string{"example.com/app:latest", "example.com/app:1.0", "example.com/app:2.0"} {
		s.ask(child(image))
		settle(t, s.Kit)
	}
	require.Equal(t, "injected", s.field(child(""), "spec", "template", "spec", "priorityClassName"))
	require.Equal(t, "Default", s.field(child(""), "spec", "template", "spec", "dnsPolicy"), "an update would make another default")
	containers, _ := s.field(child(""), "spec", "template", "spec", "containers").([]any)
	require.Len(t, containers, 1)
	main, _ := containers[0].(map[string]any)
	require.Equal(t, "IfNotPresent", main["imagePullPolicy"])
	s.silent()
	s.restart()
}
