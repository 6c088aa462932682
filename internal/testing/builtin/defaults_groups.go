package builtin

import (
	"math"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// setOtherDefaults are those of other groups than the core.
func setOtherDefaults(of any) {
	switch of := of.(type) {
	case *appsv1.DeploymentSpec:
		give(&of.Replicas, 1)
		give(&of.RevisionHistoryLimit, 10)
		give(&of.ProgressDeadlineSeconds, 600)
		set(&of.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
		if of.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
			give(&of.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
			give(&of.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
			give(&of.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
		}
	case *appsv1.ReplicaSetSpec:
		give(&of.Replicas, 1)
	case *appsv1.DaemonSetSpec:
		give(&of.RevisionHistoryLimit, 10)
		set(&of.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
		if of.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
			give(&of.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
			give(&of.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
			give(&of.UpdateStrategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
		}
	case *appsv1.StatefulSetSpec:
		defaultStatefulSet(of)
	case *batchv1.Job:
		defaultJob(&of.Spec)
	case *batchv1.PodFailurePolicyOnPodConditionsPattern:
		set(&of.Status, corev1.ConditionTrue)
	case *batchv1.CronJobSpec:
		set(&of.ConcurrencyPolicy, batchv1.AllowConcurrent)
		give(&of.Suspend, false)
		give(&of.SuccessfulJobsHistoryLimit, 3)
		give(&of.FailedJobsHistoryLimit, 1)
	case *networkingv1.NetworkPolicySpec:
		if len(of.PolicyTypes) == 0 {
			of.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
			if len(of.Egress) > 0 {
				of.PolicyTypes = append(of.PolicyTypes, networkingv1.PolicyTypeEgress)
			}
		}
	case *networkingv1.NetworkPolicyPort:
		give(&of.Protocol, corev1.ProtocolTCP)
	case *autoscalingv2.HorizontalPodAutoscalerSpec:
		defaultAutoscaler(of)
	case *rbacv1.RoleRef:
		set(&of.APIGroup, rbacv1.GroupName)
	case *rbacv1.Subject:
		if of.Kind == rbacv1.UserKind || of.Kind == rbacv1.GroupKind {
			set(&of.APIGroup, rbacv1.GroupName)
		}
	case *discoveryv1.EndpointPort:
		give(&of.Name, "")
		give(&of.Protocol, corev1.ProtocolTCP)
	case *schedulingv1.PriorityClass:
		give(&of.PreemptionPolicy, corev1.PreemptLowerPriority)
	case *storagev1.StorageClass:
		give(&of.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
		give(&of.VolumeBindingMode, storagev1.VolumeBindingImmediate)
	default:
		setWebhookDefaults(of)
	}
}

func defaultStatefulSet(spec *appsv1.StatefulSetSpec) {
	give(&spec.Replicas, 1)
	give(&spec.RevisionHistoryLimit, 10)
	set(&spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	set(&spec.UpdateStrategy.Type, appsv1.RollingUpdateStatefulSetStrategyType)
	if spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		give(&spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
		give(&spec.UpdateStrategy.RollingUpdate.Partition, 0)
	}
	give(&spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	set(&spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	set(&spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	for i := range spec.VolumeClaimTemplates {
		claim := &spec.VolumeClaimTemplates[i]
		set(&claim.APIVersion, "v1")
		set(&claim.Kind, "PersistentVolumeClaim")
	}
}

func defaultJob(spec *batchv1.JobSpec) {
	if spec.Completions == nil && spec.Parallelism == nil {
		give(&spec.Completions, 1)
	}
	give(&spec.Parallelism, 1)
	if spec.BackoffLimitPerIndex != nil {
		give(&spec.BackoffLimit, math.MaxInt32)
	}
	give(&spec.BackoffLimit, 6)
	give(&spec.CompletionMode, batchv1.NonIndexedCompletion)
	give(&spec.Suspend, false)
	give(&spec.ManualSelector, false)
	replacement := batchv1.TerminatingOrFailed
	if spec.PodFailurePolicy != nil {
		replacement = batchv1.Failed
	}
	give(&spec.PodReplacementPolicy, replacement)
}

func defaultAutoscaler(spec *autoscalingv2.HorizontalPodAutoscalerSpec) {
	give(&spec.MinReplicas, 1)
	if len(spec.Metrics) == 0 {
		utilization := int32(80)
		spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
			Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &utilization},
		}}}
	}
	if spec.Behavior == nil {
		return
	}
	maxPolicy := autoscalingv2.MaxChangePolicySelect
	percent := func(seconds int32) autoscalingv2.HPAScalingPolicy {
		return autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: seconds}
	}
	rules := func(of **autoscalingv2.HPAScalingRules, otherwise autoscalingv2.HPAScalingRules) {
		give(of, autoscalingv2.HPAScalingRules{})
		give(&(*of).SelectPolicy, maxPolicy)
		if (*of).StabilizationWindowSeconds == nil {
			(*of).StabilizationWindowSeconds = otherwise.StabilizationWindowSeconds
		}
		if (*of).Policies == nil {
			(*of).Policies = otherwise.Policies
		}
	}
	up := int32(0)
	rules(&spec.Behavior.ScaleUp, autoscalingv2.HPAScalingRules{
		StabilizationWindowSeconds: &up,
		Policies:                   []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15}, percent(15)},
	})
	rules(&spec.Behavior.ScaleDown, autoscalingv2.HPAScalingRules{Policies: []autoscalingv2.HPAScalingPolicy{percent(15)}})
}

func setWebhookDefaults(of any) {
	scope := admissionregistrationv1.AllScopes
	switch of := of.(type) {
	case *admissionregistrationv1.ValidatingWebhook:
		give(&of.FailurePolicy, admissionregistrationv1.Fail)
		give(&of.MatchPolicy, admissionregistrationv1.Equivalent)
		give(&of.NamespaceSelector, metav1.LabelSelector{})
		give(&of.ObjectSelector, metav1.LabelSelector{})
		give(&of.TimeoutSeconds, 10)
	case *admissionregistrationv1.MutatingWebhook:
		give(&of.FailurePolicy, admissionregistrationv1.Fail)
		give(&of.MatchPolicy, admissionregistrationv1.Equivalent)
		give(&of.NamespaceSelector, metav1.LabelSelector{})
		give(&of.ObjectSelector, metav1.LabelSelector{})
		give(&of.TimeoutSeconds, 10)
		give(&of.ReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)
	case *admissionregistrationv1.Rule:
		give(&of.Scope, scope)
	case *admissionregistrationv1.ServiceReference:
		give(&of.Port, 443)
	}
}
