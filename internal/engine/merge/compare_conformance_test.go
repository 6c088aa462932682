package merge

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

func TestComparisonConformance(t *testing.T) {
	const service = `
metadata: {name: dns}
spec:
  clusterIP: 10.0.0.10
  clusterIPs: [10.0.0.10]
  internalTrafficPolicy: Cluster
  ipFamilies: [IPv4]
  ipFamilyPolicy: SingleStack
  ports:
  - {name: dns-tcp, port: 53, protocol: TCP, targetPort: 5353}
  - {name: dns, port: 53, protocol: UDP, targetPort: 5353}
  selector: {app: dns}
  sessionAffinity: None
  type: ClusterIP
status: {loadBalancer: {}}
`
	app := `spec.template.spec.containers[name="app"].`
	runCompareCases(t, map[string]compareCase{
		"C10 C14 C16 C17 C19 C20 Deployment": {
			reason: "Defaults at every level, nested null timestamps, an empty status, one port number in two protocols, two mounts of " +
				"one volume, and injected containers are no differences.",
			of:      k8s.Deployment,
			live:    liveDeployment,
			desired: desiredDeployment,
			earlier: desiredDeployment,
		},
		"C10 Service": {
			reason:  "Nor are a Service's.",
			of:      k8s.Service,
			live:    service,
			desired: `spec: {selector: {app: dns}, ports: [{name: dns-tcp, port: 53, targetPort: 5353}, {name: dns, port: 53, protocol: UDP, targetPort: 5353}]}`,
		},
		"C10 CronJob": {
			reason: "Nor a CronJob's.",
			of:     k8s.CronJob,
			live: `spec: {schedule: "* * * * *", concurrencyPolicy: Allow, suspend: false, jobTemplate: {metadata: {}, spec: {template: {metadata: {}, spec: {
			  containers: [{name: a, image: b, imagePullPolicy: Always, resources: {}}], restartPolicy: Never, dnsPolicy: ClusterFirst}}}}}`,
			desired: `spec: {schedule: "* * * * *", jobTemplate: {metadata: {creationTimestamp: null}, spec: {template: {metadata: {creationTimestamp: null}, spec: {
			  containers: [{name: a, image: b, resources: {}}], restartPolicy: Never}}}}}`,
		},
		"C10 StatefulSet": {
			reason: "Nor a StatefulSet's. That the server completed its claims, which are an atomic list, is for the engine to remember.",
			of:     k8s.StatefulSet,
			live: `spec: {serviceName: a, replicas: 1, podManagementPolicy: OrderedReady, volumeClaimTemplates: [{apiVersion: v1, kind: PersistentVolumeClaim,
			  metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}, volumeMode: Filesystem}, status: {phase: Pending}}]}`,
			desired: `spec: {serviceName: a, volumeClaimTemplates: [{metadata: {name: data, creationTimestamp: null},
			  spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}`,
			want: []string{
				`spec.volumeClaimTemplates[0].apiVersion: "v1" -> none`, `spec.volumeClaimTemplates[0].kind: "PersistentVolumeClaim" -> none`,
				`spec.volumeClaimTemplates[0].spec.volumeMode: "Filesystem" -> none`, `spec.volumeClaimTemplates[0].status: {"phase":"Pending"} -> none`,
			},
			merged: `spec: {serviceName: a, replicas: 1, podManagementPolicy: OrderedReady, volumeClaimTemplates: [{
			  metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}`,
		},
		"C11 EmptyValue": {
			reason:  "S148: a zero value that the Go type drops equals none.",
			of:      k8s.Pod,
			live:    `spec: {containers: [{name: a, env: [{name: A}]}]}`,
			desired: `spec: {containers: [{name: a, env: [{name: A, value: ""}]}]}`,
		},
		"C12 Tolerations": {
			reason:  "So are tolerations that admission appended.",
			of:      k8s.Pod,
			live:    `spec: {tolerations: [{key: a}, {key: node.kubernetes.io/not-ready, tolerationSeconds: 300}]}`,
			desired: `spec: {tolerations: [{key: a}]}`,
			want:    []string{`spec.tolerations: [{"key":"a"},{"key":"node.kubernetes.io/not-ready","tolerationSeconds":300}] -> [{"key":"a"}]`},
			merged:  `spec: {tolerations: [{key: a}]}`,
		},
		"C18 Pruned": {
			reason:  "And fields that a CRD's schema doesn't have.",
			live:    `spec: {a: 1}`,
			desired: `spec: {a: 1, b: {c: 1}}`,
			want:    []string{`spec.b: none -> {"c":1}`},
			merged:  `spec: {a: 1, b: {c: 1}}`,
		},
		"C20 ImageChange": {
			reason:  "The sidecar stays when our image changes.",
			of:      k8s.Deployment,
			live:    liveDeployment,
			desired: changeDeployment(t, desiredDeployment, "image: web:1\n", "image: web:2\n"),
			earlier: desiredDeployment,
			want:    []string{app + `image: "web:1" -> "web:2"`},
			merged:  changeDeployment(t, liveDeployment, "image: web:1\n", "image: web:2\n"),
		},
		"C30 Dropped": {
			reason: "What the desired state lost disappears: a field, a label, an annotation, items of lists. What others set stays.",
			of:     k8s.Deployment,
			live:   liveDeployment,
			desired: changeDeployment(t, desiredDeployment,
				"  annotations: {example.com/note: ours}\n", "", "  labels: {app: web}\n", "", "  replicas: 2\n", "",
				`        - {name: LEVEL, value: debug}`+"\n", "", `        args: [--port, "8080"]`+"\n", "",
				"        - {containerPort: 8080, protocol: UDP, name: quic}\n", "",
				"        livenessProbe: {httpGet: {path: /, port: 8080}}\n", "",
				"      tolerations: [{key: node, operator: Exists, effect: NoSchedule}]\n", "",
				"      - {name: conf, configMap: {name: conf}}\n", ""),
			earlier: desiredDeployment,
			want: []string{
				`metadata.annotations["example.com/note"]: "ours" removed`,
				`metadata.labels.app: "web" removed`,
				`spec.replicas: 2 removed`,
				app + `args: ["--port","8080"] removed`,
				app + `env[name="LEVEL"]: {"name":"LEVEL","value":"debug"} removed`,
				app + `livenessProbe: {"failureThreshold":3,"httpGet":{"path":"/","port":8080,"scheme":"HTTP"},"periodSeconds":10,` +
					`"successThreshold":1,"timeoutSeconds":1} removed`,
				app + `ports[containerPort=8080,protocol="UDP"]: {"containerPort":8080,"name":"quic","protocol":"UDP"} removed`,
				`spec.template.spec.tolerations: [{"effect":"NoSchedule","key":"node","operator":"Exists"}] removed`,
				`spec.template.spec.volumes[name="conf"]: {"configMap":{"defaultMode":420,"name":"conf"},"name":"conf"} removed`,
			},
			merged: changeDeployment(t, liveDeployment,
				`, example.com/note: ours}`, "}", "{app: web, team: other}", "{team: other}", "  replicas: 2\n", "",
				`        - {name: LEVEL, value: debug}`+"\n", "", `        args: [--port, "8080"]`+"\n", "",
				"        - {containerPort: 8080, protocol: UDP, name: quic}\n", "",
				"        livenessProbe: {httpGet: {path: /, port: 8080, scheme: HTTP}, failureThreshold: 3, periodSeconds: 10, successThreshold: 1, timeoutSeconds: 1}\n", "",
				"      tolerations: [{key: node, operator: Exists, effect: NoSchedule}]\n", "",
				"      - {name: conf, configMap: {name: conf, defaultMode: 420}}\n", ""),
		},
		"C32 ServiceDrift": {
			reason: "Drift is reverted, defaults and what was allocated stay.",
			of:     k8s.Service,
			live: changeDeployment(t, service, "selector: {app: dns}", "selector: {app: else}", "port: 53, protocol: UDP, targetPort: 5353",
				"port: 54, protocol: UDP, targetPort: 1", "type: ClusterIP", "type: NodePort"),
			desired: `spec: {type: ClusterIP, selector: {app: dns}, ports: [{name: dns-tcp, port: 53}, {name: dns, port: 53, protocol: UDP, targetPort: 5353}]}`,
			want: []string{
				`spec.ports[port=53,protocol="UDP"].port: 54 -> 53`, `spec.ports[port=53,protocol="UDP"].targetPort: 1 -> 5353`,
				`spec.selector.app: "else" -> "dns"`, `spec.type: "NodePort" -> "ClusterIP"`,
			},
			merged: service,
		},
		"C32 ConfigMapDrift": {
			reason:  "Also where it is data, or a label, or was taken away.",
			of:      k8s.ConfigMap,
			live:    `{metadata: {labels: {a: x}}, data: {a: x}}`,
			desired: `{metadata: {labels: {a: b}}, data: {a: b, c: d}}`,
			want:    []string{`data.a: "x" -> "b"`, `data.c: none -> "d"`, `metadata.labels.a: "x" -> "b"`},
			merged:  `{metadata: {labels: {a: b}}, data: {a: b, c: d}}`,
		},
	})
}

// C15: a handler may return the observed child itself. C22: the child may be of any
// kind.
func TestComparisonWithItself(t *testing.T) {
	pod := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "a", Image: "b", Args: []string{"c"}, Env: []corev1.EnvVar{{Name: "A"}},
			Ports: []corev1.ContainerPort{{ContainerPort: 53, Protocol: "TCP"}, {ContainerPort: 53, Protocol: "UDP"}},
		}}},
	}
	meta := metav1.ObjectMeta{Name: "x", UID: "u", ResourceVersion: "1", Finalizers: []string{"a/b"}}
	for kind, object := range map[resource.Type]any{
		k8s.Pod:         &corev1.Pod{ObjectMeta: meta, Spec: pod.Spec, Status: corev1.PodStatus{Phase: "Running"}},
		k8s.Deployment:  &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Template: pod}},
		k8s.StatefulSet: &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Template: pod}},
		k8s.DaemonSet:   &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Template: pod}},
		k8s.ReplicaSet:  &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Template: pod}},
		k8s.Job:         &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: pod}},
		k8s.CronJob:     &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: pod}}}},
	} {
		t.Run(kind.Kind, func(t *testing.T) {
			live, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
			require.NoError(t, err)
			desired := runtime.DeepCopyJSON(live)
			c := Comparison{Schema: schemaOf(t, kind)}
			former := newFieldSet(desired, c.Schema)
			require.Nil(t, c.Compare(live, desired, former))
			require.Equal(t, live, c.Merge(live, desired, former))
			require.Nil(t, c.Compare(live, map[string]any{}, nil), "desiring nothing is satisfied by anything")
		})
	}
}

// C31: the FieldSet alone tells what a new build of the operator has dropped, of big
// ConfigMaps too.
func TestComparisonBigConfigMaps(t *testing.T) {
	many := map[string]any{}
	for i := range 19_000 {
		many[fmt.Sprint("key-", i)] = strings.Repeat("x", 40)
	}
	fewer := maps.Clone(many)
	delete(fewer, "key-7")
	delete(fewer, "key-18999")
	big := map[string]any{"value": strings.Repeat("x", 900_000), "old": "x"}
	cases := map[string]struct {
		reason           string
		earlier, desired map[string]any
		want             []string
	}{
		"OneBigValue": {"Values aren't recorded.", big, map[string]any{"value": big["value"]}, []string{`data.old`}},
		"ManyKeys":    {"The keys don't fit, so that data is owned whole.", many, fewer, []string{`data.key-18999`, `data.key-7`}},
		"NoKeys":      {"Also if nothing is left.", many, map[string]any{}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := Comparison{Schema: schemaOf(t, k8s.ConfigMap)}
			live := map[string]any{"metadata": map[string]any{"name": "x", "labels": map[string]any{"theirs": "x"}}, "data": tc.earlier}
			var differences []Difference
			var merged map[string]any
			requireCheap(t, func() {
				mark := newFieldSet(map[string]any{"data": tc.earlier}, c.Schema).Encode(16 << 10)
				former, err := ParseFieldSet(mark)
				require.NoError(t, err)
				desired := map[string]any{"data": tc.desired}
				differences = c.Compare(live, desired, former)
				merged = c.Merge(live, desired, former)
			})

			require.Equal(t, tc.desired, merged["data"])
			require.Equal(t, live["metadata"], merged["metadata"])
			for _, d := range differences {
				require.True(t, d.Removed)
			}
			if tc.want == nil {
				require.Len(t, differences, len(tc.earlier))
				return
			}
			require.Len(t, differences, len(tc.want))
			for i, d := range differences {
				require.Equal(t, tc.want[i], d.Path)
			}
		})
	}
}

// TestComparisonAllocatesNothing shows that comparing a settled child allocates
// nothing, and little if somebody has put containers in front of its own.
func TestComparisonAllocatesNothing(t *testing.T) {
	c := Comparison{Schema: schemaOf(t, k8s.Deployment)}
	desired := sample.YAML(t, desiredDeployment)
	injected := sample.YAML(t, liveDeployment)
	live := sample.YAML(t, changeDeployment(t, liveDeployment, "      - {name: proxy-init, image: proxy:7}\n", "",
		"      - name: proxy\n        image: proxy:7\n        ports: [{containerPort: 15090, protocol: TCP, name: proxy}]\n", ""))
	require.Zero(t, testing.AllocsPerRun(100, func() { c.Compare(live, desired, nil) }))
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { c.Compare(injected, desired, nil) }), 6.0)
}
