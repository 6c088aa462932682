// Package app is the custom resource of the benchmark, and what every operator
// in it makes of one: two ConfigMaps, a headless Service and a Deployment. They are
// written as people write them: by their Go types, with quantities that the API server
// writes in another way, and without the fields that have defaults.
package app

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Namespace is where all of it lives.
const Namespace = "bench"

// Finalizer is that of the operators which don't choose one themselves.
const Finalizer = "bench.roperator.com/finalizer"

// Children is how many children an App has.
const Children = 4

// Suffixes are those of the names of the ConfigMaps.
func Suffixes() []string { return []string{"-a", "-b"} }

// GroupVersion is that of App.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "bench.roperator.com", Version: "v1"}
}

// An App is a parent.
type App struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status,omitzero"`
}

// Spec is an App's specification.
type Spec struct {
	Value string `json:"value"`
}

// Status is an App's status.
type Status struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	Children           int   `json:"children,omitempty"`
}

// DeepCopyObject makes an App a runtime.Object.
func (a *App) DeepCopyObject() runtime.Object {
	out := *a
	out.ObjectMeta = *a.ObjectMeta.DeepCopy()
	return &out
}

// List is a list of Apps.
type List struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []App `json:"items"`
}

// DeepCopyObject makes an List a runtime.Object.
func (l *List) DeepCopyObject() runtime.Object {
	out := *l
	out.ListMeta = *l.ListMeta.DeepCopy()
	out.Items = make([]App, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*App)
	}
	return &out
}

// AddToScheme registers both.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypeWithName(GroupVersion().WithKind("App"), &App{})
	scheme.AddKnownTypeWithName(GroupVersion().WithKind("AppList"), &List{})
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}

// ChildLabels are those that an App's children carry.
func (a *App) ChildLabels() map[string]string { return map[string]string{"app": a.Name} }

// Data is that of a ConfigMap with the suffix.
func (a *App) Data(suffix string) map[string]string {
	return map[string]string{
		"value":   a.Spec.Value,
		"which":   suffix,
		"comment": "Some lines of configuration, as operators write them: neither empty nor large. They are the same for every App and never change.",
	}
}

// Ports are those of the Service.
func (a *App) Ports() []corev1.ServicePort {
	return []corev1.ServicePort{{Name: "http", Port: 80}}
}

// ConfigMap returns the child with the suffix.
func (a *App) ConfigMap(suffix string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name + suffix, Labels: a.ChildLabels()},
		Data:       a.Data(suffix),
	}
}

// Service returns the headless Service.
func (a *App) Service() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name, Labels: a.ChildLabels()},
		Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: a.ChildLabels(), Ports: a.Ports()},
	}
}

// Image is that of the Deployment's container.
const Image = "registry.example.com/app:1.2.3"

// Deployment returns the Deployment.
func (a *App) Deployment() *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name, Labels: a.ChildLabels()},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: a.ChildLabels()},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: a.ChildLabels()},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{
						Name: "app", Image: Image,
						Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
						Env:   []corev1.EnvVar{{Name: "APP", Value: a.Name}},
						Resources: corev1.ResourceRequirements{
							Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000m"), corev1.ResourceMemory: resource.MustParse("1024Mi")},
						},
						ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromString("http")}}},
						VolumeMounts:   []corev1.VolumeMount{{Name: "config", MountPath: "/etc/app"}},
					}},
					Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
						ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: a.Name + Suffixes()[0]}},
					}}},
				},
			},
		},
	}
}
