package conformance

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// workloadTypes are the types of the objects of everyKind.
func workloadTypes() []resource.Type {
	return []resource.Type{
		k8s.ServiceAccount, k8s.ConfigMap, k8s.Secret, k8s.PersistentVolumeClaim, k8s.ResourceQuota, k8s.LimitRange, k8s.PodTemplate,
		k8s.Role, k8s.RoleBinding, k8s.NetworkPolicy, k8s.PodDisruptionBudget, k8s.HorizontalPodAutoscaler, k8s.Service, k8s.Ingress,
		k8s.EndpointSlice, k8s.Lease, k8s.Pod, k8s.Deployment, k8s.StatefulSet, k8s.DaemonSet, k8s.ReplicaSet, k8s.ReplicationController, k8s.Job, k8s.CronJob,
	}
}

// everyKind returns an object of every built-in kind that is at home in a
// namespace, typed as most handlers return them, with as little as it takes.
// What is changed in each is the version.
func everyKind(version int32) []any {
	text := fmt.Sprint(version)
	name := metav1.ObjectMeta{Name: "one"}
	labels := map[string]string{"app": "one"}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/app:" + text, Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{"cpu": quantity.MustParse("1000m"), "memory": quantity.MustParse("1024Mi")},
	}}}}
	pods := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}
	once := *pods.DeepCopy()
	once.Spec.RestartPolicy, once.Spec.Containers[0].Image = corev1.RestartPolicyNever, "example.com/job" // can't be changed
	once.Labels = nil
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "one", Port: networkingv1.ServiceBackendPort{Number: 80 + version}}}
	versioned := name
	versioned.Annotations = map[string]string{"example.com/version": text}
	return []any{
		&corev1.ServiceAccount{ObjectMeta: versioned},
		&corev1.ConfigMap{ObjectMeta: name, Data: map[string]string{"version": text, "empty": ""}, BinaryData: map[string][]byte{"raw": {0, 255, byte(version)}}},
		&corev1.Secret{ObjectMeta: name, StringData: map[string]string{"password": text}, Data: map[string][]byte{"raw": {0, 255, byte(version)}}},
		&corev1.PersistentVolumeClaim{ObjectMeta: versioned, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": quantity.MustParse("1024Mi")}},
		}},
		// Of what nobody here creates: admission refuses what a quota is about
		// until a controller has counted what there is.
		&corev1.ResourceQuota{ObjectMeta: name, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/absents.example.com": quantity.MustParse("10" + text + "000m")}}},
		&corev1.LimitRange{ObjectMeta: name, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{"cpu": quantity.MustParse("1" + text + "000m")},
		}}}},
		&corev1.PodTemplate{ObjectMeta: name, Template: pods},
		&rbacv1.Role{ObjectMeta: name, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}[:1+version]}}},
		&rbacv1.RoleBinding{
			ObjectMeta: name, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "one"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "one"}, {Kind: "User", Name: "user" + text}},
		},
		&networkingv1.NetworkPolicy{ObjectMeta: name, Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{
			{Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(80 + version))}}},
			{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}},
		}}},
		&policyv1.PodDisruptionBudget{ObjectMeta: name, Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector, MinAvailable: new(intstr.FromString(text + "0%"))}},
		&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: name, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "absent", APIVersion: "apps/v1"}, MaxReplicas: 2 + version,
			Metrics: []autoscalingv2.MetricSpec{
				{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{
					Metric: autoscalingv2.MetricIdentifier{Name: "queue"},
					Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: new(quantity.MustParse("1000m"))},
				}},
				{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
					Name: "cpu", Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(50 + version)},
				}},
			},
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(60 + version)}},
		}},
		&corev1.Service{ObjectMeta: name, Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{
			{Name: "http", Port: 80, TargetPort: intstr.FromString("http" + text)}, {Name: "typed", Port: 81}, {Name: "udp", Port: 81, Protocol: "UDP"},
		}}},
		&networkingv1.Ingress{ObjectMeta: name, Spec: networkingv1.IngressSpec{
			DefaultBackend: &backend,
			Rules: []networkingv1.IngressRule{{Host: "example.com", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{{Path: "/" + text, PathType: new(networkingv1.PathTypePrefix), Backend: backend}},
			}}}},
		}},
		&discoveryv1.EndpointSlice{ObjectMeta: name, AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2." + text}}}},
		&coordinationv1.Lease{ObjectMeta: name, Spec: coordinationv1.LeaseSpec{HolderIdentity: new(text), LeaseDurationSeconds: new(int32(15))}},
		&corev1.Pod{ObjectMeta: name, Spec: spec},
		&appsv1.Deployment{ObjectMeta: name, Spec: appsv1.DeploymentSpec{Selector: selector, Template: pods}},
		&appsv1.StatefulSet{ObjectMeta: name, Spec: appsv1.StatefulSetSpec{
			Selector: selector, Template: pods, VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": quantity.MustParse("1024Mi")}},
				},
			}},
		}},
		&appsv1.DaemonSet{ObjectMeta: name, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: pods}},
		&appsv1.ReplicaSet{ObjectMeta: name, Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: pods}},
		&corev1.ReplicationController{ObjectMeta: name, Spec: corev1.ReplicationControllerSpec{Template: &pods}},
		&batchv1.Job{ObjectMeta: name, Spec: batchv1.JobSpec{Suspend: new(true), Parallelism: new(1 + version), Completions: new(int32(5)), Template: once}},
		&batchv1.CronJob{ObjectMeta: name, Spec: batchv1.CronJobSpec{Schedule: text + " 0 1 1 *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: once}}}},
	}
}

func TestC22_EveryKind(t *testing.T) {
	scenario(t, "C22", "every built-in workload kind, with each strategy: silent, converges after a change, silent again, nothing to do after a restart")
	require.Len(t, everyKind(0), len(workloadTypes()))
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Recreate, config.OnDelete, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c22-"+lower(strategy), childrenBy(strategy, workloadTypes()...)...)
			s.want(everyKind(0)...)
			require.Len(t, s.creates(), len(workloadTypes())-1, "nothing was created twice; a Kit leaves out leases")
			s.undisturbed()
			s.silent()
			s.restart()
			s.silent()

			before := s.identities()
			s.want(everyKind(1)...)
			if strategy == config.OnDelete {
				s.undisturbed()
				require.Equal(t, before, s.identities(), "untouched")
				for _, child := range s.children() {
					s.Delete(child)
				}
				s.want(everyKind(1)...)
			}
			s.undisturbed()
			for key, uid := range s.identities() {
				if strategy == config.Replace || strategy == config.Apply {
					require.Equal(t, before[key], uid, "%s: changed in place", key)
				} else {
					require.NotEqual(t, before[key], uid, "%s: made anew", key)
				}
			}
			require.Len(t, s.identities(), len(workloadTypes()))
			s.changedTo(1)
			s.silent()
			s.restart()
			s.silent()
		})
	}
}

// identities returns the UID of every child.
func (s *stage) identities() map[string]string {
	s.t.Helper()
	uids := map[string]string{}
	for _, child := range s.children() {
		uids[child.Type().Kind] = string(child.UID())
	}
	return uids
}

// changedTo asks the API server whether each child is what a fresh object of
// everyKind would be: by a create under another name that isn't stored.
func (s *stage) changedTo(version int32) {
	s.t.Helper()
	_, untyped := clients(s.t, "somebody")
	for i, want := range everyKind(version) {
		t := workloadTypes()[i]
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
		require.NoError(s.t, err)
		fresh := s.dryCreate(untyped, t, content)
		child := s.Get(map[string]any{"apiVersion": t.APIVersion, "kind": t.Kind, "metadata": map[string]any{"name": "one"}})
		require.NotNil(s.t, child, "%s", t)
		require.Equal(s.t, alike(fresh.Object), alike(child.Unstructured().Object), "%s", t)
	}
}
