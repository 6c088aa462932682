package client

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/testing/sample"
)

// The objects of the store's benchmarks: four children a parent, as the engine
// writes them and the API server sends them.

const (
	storeObjects = 20_000
	storeFamily  = 4 // children a parent
)

func storeUID(kind, i int) string {
	return fmt.Sprintf("%08x-5c1e-4b7a-9d3f-%012x", i*2654435761&0xffffffff, kind<<32+i)
}

func storeMeta(kind, i, version int) metav1.ObjectMeta {
	parent := i / storeFamily
	created := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, i%60, 0, time.UTC))
	return metav1.ObjectMeta{
		Name: fmt.Sprintf("web-%05d-%d", parent, i%storeFamily), Namespace: fmt.Sprintf("team-%02d", parent%50),
		UID: types.UID(storeUID(kind, i)), ResourceVersion: fmt.Sprint(100_000 + version),
		CreationTimestamp: created,
		Labels:            map[string]string{"roperator.com/operator": "web", sample.TrackingLabel: storeUID(0, parent)},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: sample.ParentType().APIVersion, Kind: sample.ParentType().Kind, Name: fmt.Sprintf("web-%05d", parent), UID: types.UID(storeUID(0, parent)),
			Controller: new(true), BlockOwnerDeletion: new(true),
		}},
	}
}

// storeManaged is a managedFields entry of about so many bytes of JSON.
func storeManaged(manager string, at metav1.Time, size int) metav1.ManagedFieldsEntry {
	var fields strings.Builder
	fields.WriteString(`{"f:metadata":{"f:labels":{".":{},"f:roperator.com/operator":{},"f:roperator.com/parent-uid":{}}},"f:spec":{".":{}`)
	for i := 0; fields.Len() < size-150; i++ {
		fmt.Fprintf(&fields, `,"f:field%d":{".":{},"f:name":{},"f:value":{}}`, i)
	}
	fields.WriteString(`}}`)
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &at,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields.String()),
	}
}

// storeConfigMap is a ConfigMap of 2.0 kB, 0.6 kB without managedFields.
func storeConfigMap(i, version int) runtime.Object {
	cm := &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: storeMeta(1, i, version),
		Data: map[string]string{"index.html": fmt.Sprintf("<html><title>%d</title><body>Hello, whoever reads this page</body></html>\n", i)},
	}
	cm.ManagedFields = []metav1.ManagedFieldsEntry{storeManaged("roperator", cm.CreationTimestamp, 1350)}
	return cm
}

// storePod is a Pod of 4.0 kB, 2.5 kB without managedFields.
func storePod(i, version int) runtime.Object {
	meta := storeMeta(2, i, version)
	at := meta.CreationTimestamp
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: meta}
	pod.ManagedFields = []metav1.ManagedFieldsEntry{storeManaged("roperator", at, 700), storeManaged("kubelet", at, 800)}
	pod.Spec = corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: "web", Image: "registry.example.com/web/server:1.27.3", ImagePullPolicy: corev1.PullIfNotPresent,
			Env: []corev1.EnvVar{
				{Name: "LISTEN", Value: ":8080"}, {Name: "PARENT", Value: meta.OwnerReferences[0].Name},
				{Name: "UPSTREAM", Value: "http://backend.example.svc.cluster.local:8080/api/v1/pages"},
				{Name: "CACHE", Value: "size=64Mi,ttl=300s,negative-ttl=10s"},
			},
			Ports:                  []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
			TerminationMessagePath: corev1.TerminationMessagePathDefault, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			VolumeMounts: []corev1.VolumeMount{{Name: "kube-api-access-x7k2p", ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}},
		}},
		RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst, SchedulerName: "default-scheduler",
		ServiceAccountName: "default", DeprecatedServiceAccount: "default", NodeName: fmt.Sprintf("node-%03d", i%200),
		TerminationGracePeriodSeconds: new(int64(30)), EnableServiceLinks: new(true),
		Tolerations: []corev1.Toleration{
			{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
			{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
		},
	}
	ip := fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, HostIP: "192.168.0.7", PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, StartTime: &at, QOSClass: corev1.PodQOSBestEffort,
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "web", Ready: true, Started: new(true), Image: "registry.example.com/web/server:1.27.3",
			ImageID:     "registry.example.com/web/server@sha256:" + strings.Repeat("0a1b2c3d", 8),
			ContainerID: "containerd://" + strings.Repeat("4e5f6071", 8), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}},
		}},
	}
	for _, condition := range []corev1.PodConditionType{corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: at})
	}
	return pod
}

// storeFrame is the event of an object as it comes over the wire.
func storeFrame(t testing.TB, event string, object any) []byte {
	t.Helper()
	raw, err := json.Marshal(object)
	require.NoError(t, err)
	return fmt.Appendf(nil, "{\"type\":%q,\"object\":%s}\n", event, raw)
}
