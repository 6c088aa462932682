package builtin

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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
		setDefaults((*corev1.Container)(of)) // it has the same fields
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
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			inherit(&containers[i].Resources.Requests, containers[i].Resources.Limits)
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

// inherit adds to a list of resources those of another one that it lacks.
func inherit(to *corev1.ResourceList, from corev1.ResourceList) {
	for name, quantity := range from {
		if *to == nil {
			*to = corev1.ResourceList{}
		}
		if _, ok := (*to)[name]; !ok {
			(*to)[name] = quantity.DeepCopy()
		}
	}
}

func defaultLimits(item *corev1.LimitRangeItem) {
	if item.Type != corev1.LimitTypeContainer {
		return
	}
	inherit(&item.Default, item.Max)
	inherit(&item.DefaultRequest, item.Default)
	inherit(&item.DefaultRequest, item.Min)
}
