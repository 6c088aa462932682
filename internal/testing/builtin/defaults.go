package builtin

import (
	"math"
	"reflect"
	"strings"

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
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// fill fills in the defaults of a value and of all that is in it, what is outside first.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fill(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Struct:
		if v.CanAddr() {
			setDefaults(v.Addr().Interface())
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	case reflect.Map:
		fillMap(v)
	}
}

// fillMap rounds the quantities of a list of resources, of which an API server keeps thousandths.
func fillMap(v reflect.Value) {
	list, ok := reflect.TypeAssert[corev1.ResourceList](v)
	if !ok {
		return
	}
	for name, quantity := range list {
		quantity.RoundUp(resource.Milli)
		list[name] = quantity
	}
}

// set sets what isn't set.
func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// give gives a pointer that is nil a value.
func give[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func setDefaults(of any) {
	switch of := of.(type) {
	case *corev1.Pod:
		defaultPod(of)
	case *corev1.PodSpec:
		defaultPodSpec(of)
	case *corev1.Container:
		set(&of.ImagePullPolicy, pullPolicy(of.Image))
		set(&of.TerminationMessagePath, corev1.TerminationMessagePathDefault)
		set(&of.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	case *corev1.EphemeralContainerCommon:
		set(&of.ImagePullPolicy, pullPolicy(of.Image))
		set(&of.TerminationMessagePath, corev1.TerminationMessagePathDefault)
		set(&of.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	case *corev1.ContainerPort:
		set(&of.Protocol, corev1.ProtocolTCP)
	case *corev1.Probe:
		set(&of.TimeoutSeconds, 1)
		set(&of.PeriodSeconds, 10)
		set(&of.SuccessThreshold, 1)
		set(&of.FailureThreshold, 3)
	case *corev1.HTTPGetAction:
		set(&of.Path, "/")
		set(&of.Scheme, corev1.URISchemeHTTP)
	case *corev1.GRPCAction:
		give(&of.Service, "")
	case *corev1.ObjectFieldSelector:
		set(&of.APIVersion, "v1")
	case *corev1.VolumeSource:
		if *of == (corev1.VolumeSource{}) {
			of.EmptyDir = &corev1.EmptyDirVolumeSource{}
		}
	case *corev1.PersistentVolumeClaimSpec:
		give(&of.VolumeMode, corev1.PersistentVolumeFilesystem)
	case *corev1.PersistentVolumeClaim:
		set(&of.Status.Phase, corev1.ClaimPending)
	case *corev1.PersistentVolume:
		set(&of.Status.Phase, corev1.VolumePending)
		set(&of.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
		give(&of.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	case *corev1.ServiceSpec:
		defaultService(of)
	case *corev1.EndpointPort:
		set(&of.Protocol, corev1.ProtocolTCP)
	case *corev1.Secret:
		defaultSecret(of)
	case *corev1.NamespaceStatus:
		set(&of.Phase, corev1.NamespaceActive)
	case *corev1.LimitRangeItem:
		defaultLimits(of)
	default:
		setVolumeDefaults(of)
		setOtherDefaults(of)
	}
}

func setVolumeDefaults(of any) {
	switch of := of.(type) {
	case *corev1.SecretVolumeSource:
		give(&of.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	case *corev1.ConfigMapVolumeSource:
		give(&of.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	case *corev1.DownwardAPIVolumeSource:
		give(&of.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
	case *corev1.ProjectedVolumeSource:
		give(&of.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
	case *corev1.ServiceAccountTokenProjection:
		give(&of.ExpirationSeconds, 60*60)
	case *corev1.HostPathVolumeSource:
		give(&of.Type, corev1.HostPathUnset)
	case *corev1.ISCSIVolumeSource:
		set(&of.ISCSIInterface, "default")
	}
}

// pullPolicy is that of a container of an image.
func pullPolicy(image string) corev1.PullPolicy {
	name := image[strings.LastIndexByte(image, '/')+1:]
	if strings.Contains(image, "@") {
		return corev1.PullIfNotPresent
	}
	if _, tag, tagged := strings.Cut(name, ":"); tagged && tag != "latest" {
		return corev1.PullIfNotPresent
	}
	return corev1.PullAlways
}

// defaultSecret moves texts into the data, which nobody reads back as such.
func defaultSecret(secret *corev1.Secret) {
	set(&secret.Type, corev1.SecretTypeOpaque)
	for name, text := range secret.StringData {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[name] = []byte(text)
	}
	secret.StringData = nil
}

func defaultPod(pod *corev1.Pod) {
	give(&pod.Spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	set(&pod.Status.Phase, corev1.PodPending)
	requestLimits := func(r *corev1.ResourceRequirements) {
		for name, quantity := range r.Limits {
			if r.Requests == nil {
				r.Requests = corev1.ResourceList{}
			}
			if _, ok := r.Requests[name]; !ok {
				r.Requests[name] = quantity.DeepCopy()
			}
		}
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			requestLimits(&containers[i].Resources)
			for j := range containers[i].Ports {
				if pod.Spec.HostNetwork {
					set(&containers[i].Ports[j].HostPort, containers[i].Ports[j].ContainerPort)
				}
			}
		}
	}
}

func defaultPodSpec(spec *corev1.PodSpec) {
	set(&spec.ServiceAccountName, spec.DeprecatedServiceAccount)
	spec.DeprecatedServiceAccount = spec.ServiceAccountName
	set(&spec.DNSPolicy, corev1.DNSClusterFirst)
	set(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	set(&spec.SchedulerName, corev1.DefaultSchedulerName)
	give(&spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	give(&spec.SecurityContext, corev1.PodSecurityContext{})
}

func defaultService(spec *corev1.ServiceSpec) {
	set(&spec.SessionAffinity, corev1.ServiceAffinityNone)
	set(&spec.Type, corev1.ServiceTypeClusterIP)
	if spec.SessionAffinity == corev1.ServiceAffinityNone {
		spec.SessionAffinityConfig = nil
	} else {
		give(&spec.SessionAffinityConfig, corev1.SessionAffinityConfig{})
		give(&spec.SessionAffinityConfig.ClientIP, corev1.ClientIPConfig{})
		give(&spec.SessionAffinityConfig.ClientIP.TimeoutSeconds, corev1.DefaultClientIPServiceAffinitySeconds)
	}
	for i := range spec.Ports {
		port := &spec.Ports[i]
		set(&port.Protocol, corev1.ProtocolTCP)
		if port.TargetPort == intstr.FromInt32(0) || port.TargetPort == intstr.FromString("") {
			port.TargetPort = intstr.FromInt32(port.Port)
		}
	}
	outside := spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeLoadBalancer
	if outside || spec.Type == corev1.ServiceTypeClusterIP && len(spec.ExternalIPs) > 0 {
		set(&spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if outside || spec.Type == corev1.ServiceTypeClusterIP {
		give(&spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if spec.Type == corev1.ServiceTypeLoadBalancer {
		give(&spec.AllocateLoadBalancerNodePorts, true)
	}
}

func defaultLimits(item *corev1.LimitRangeItem) {
	if item.Type != corev1.LimitTypeContainer {
		return
	}
	inherit := func(to *corev1.ResourceList, from corev1.ResourceList) {
		for name, quantity := range from {
			if *to == nil {
				*to = corev1.ResourceList{}
			}
			if _, ok := (*to)[name]; !ok {
				(*to)[name] = quantity.DeepCopy()
			}
		}
	}
	inherit(&item.Default, item.Max)
	inherit(&item.DefaultRequest, item.Default)
	inherit(&item.DefaultRequest, item.Min)
}

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
