package manifests

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/roperator/roperator/internal/defaults"
)

// What a program serves unless --arg says otherwise.
const (
	MetricsPort = 8080
	HealthPort  = 8081
)

// defaultContainer is the annotation by which kubectl knows whose log to show.
const defaultContainer = "kubectl.kubernetes.io/default-container"

// terminationGracePeriod, in seconds, leaves the operator time to hand over the
// lease after its shutdown timeout.
const terminationGracePeriod = int64(defaults.ShutdownTimeout/time.Second) + 15

// deployment returns the Deployment that runs the operator.
func (in *installation) deployment() *appsv1.Deployment {
	replicas := int32(in.Replicas)
	return &appsv1.Deployment{
		TypeMeta: typeMeta("apps/v1", "Deployment"), ObjectMeta: in.meta(in.Name),
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: in.labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels:      in.labels,
					Annotations: map[string]string{defaultContainer: "operator"},
				},
				Spec: in.pod(),
			},
		},
	}
}

// pod returns the spec of the Deployment's Pods.
func (in *installation) pod() corev1.PodSpec {
	spec := corev1.PodSpec{
		ServiceAccountName:            in.Name,
		NodeSelector:                  map[string]string{corev1.LabelOSStable: "linux"},
		TerminationGracePeriodSeconds: new(terminationGracePeriod),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   new(true),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{in.container()},
	}
	if in.Replicas > 1 {
		spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: in.labels},
		}}
	}
	return spec
}

// container returns the only container of a Pod.
func (in *installation) container() corev1.Container {
	out := corev1.Container{
		Name:      "operator",
		Image:     in.Image,
		Args:      in.arguments(),
		Env:       in.Env,
		Resources: in.Resources,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem:   new(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		// kubectl describe shows the last lines of the log of an operator that has
		// failed.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("health")}}}
	}
	if in.MetricsPort != 0 {
		out.Ports = append(out.Ports, corev1.ContainerPort{Name: "metrics", ContainerPort: in.MetricsPort, Protocol: corev1.ProtocolTCP})
	}
	if in.HealthPort != 0 {
		out.Ports = append(out.Ports, corev1.ContainerPort{Name: "health", ContainerPort: in.HealthPort, Protocol: corev1.ProtocolTCP})
		out.LivenessProbe, out.ReadinessProbe = probe("/healthz"), probe("/readyz")
	}
	if in.WindowPort != 0 {
		out.Ports = append(out.Ports, corev1.ContainerPort{Name: "window", ContainerPort: in.WindowPort, Protocol: corev1.ProtocolTCP})
	}
	return out
}

// arguments returns those of the container.
func (in *installation) arguments() []string {
	out := []string{"--leader-elect"}
	if in.WatchNamespace != "" {
		out = append(out, "--namespace="+in.WatchNamespace)
	}
	out = append(out, in.FixedArgs...)
	if in.MetricsSecure != in.SecuresMetrics {
		out = append(out, fmt.Sprintf("--metrics-secure=%v", in.MetricsSecure))
	}
	if in.InstallCRDs != in.InstallsCRDs {
		out = append(out, fmt.Sprintf("--install-crds=%v", in.InstallCRDs))
	}
	return append(out, in.Args...)
}

// disruptionBudget returns a budget that lets nodes be drained, one replica at a
// time.
func (in *installation) disruptionBudget() *policyv1.PodDisruptionBudget {
	one := intstr.FromInt32(1)
	return &policyv1.PodDisruptionBudget{
		TypeMeta: typeMeta("policy/v1", "PodDisruptionBudget"), ObjectMeta: in.meta(in.Name),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &one,
			Selector:       &metav1.LabelSelector{MatchLabels: in.labels},
		},
	}
}
