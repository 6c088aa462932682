package main

import (
	"cmp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	appContainer    = "app" // in the Pods of the app and in those of its migration
	addressVariable = "DATABASE_ADDRESS"
	databasePort    = 5432
	appPort         = 8080
)

// An AppStack is what crd.yaml describes, as far as the operator reads it.
type AppStack struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Image    string `json:"image"`
		Version  string `json:"version"`
		Replicas int32  `json:"replicas"`
		DBImage  string `json:"dbImage"`
	} `json:"spec"`
}

// image returns what both the migration and the app run.
func (a *AppStack) image() string { return a.Spec.Image + ":" + a.Spec.Version }

// service returns the Service of the database. It finds the database in the
// cluster by its name, and from outside by an address that the cluster gives it.
func (a *AppStack) service() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: a.Name + "-db", Labels: a.labels("database")},
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeLoadBalancer,
			Selector: a.labels("database"),
			Ports:    []corev1.ServicePort{{Port: databasePort, TargetPort: intstr.FromInt32(databasePort)}},
		},
	}
}

// database returns the StatefulSet of the database. Its volume isn't a child:
// the StatefulSet's controller makes it, and leaves it when the database goes.
func (a *AppStack) database() *appsv1.StatefulSet {
	container := container("database", a.Spec.DBImage, databasePort)
	container.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/var/lib/data"}}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: a.Name + "-db", Labels: a.labels("database")},
		Spec: appsv1.StatefulSetSpec{
			ServiceName: a.Name + "-db",
			Replicas:    new(int32(1)),
			Selector:    &metav1.LabelSelector{MatchLabels: a.labels("database")},
			Template:    a.pod("database", container),
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				},
			}},
		},
	}
}

// migration returns the Job that brings the schema to a version. Its name has
// the version, so each version has a Job of its own.
func (a *AppStack) migration() *batchv1.Job {
	pod := a.pod("migration", corev1.Container{
		Name:  appContainer,
		Image: a.image(),
		Args:  []string{"migrate"},
		Env:   []corev1.EnvVar{{Name: "DATABASE_HOST", Value: a.Name + "-db"}},
	})
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:   a.Name + "-migrate-" + strings.ReplaceAll(a.Spec.Version, ".", "-"),
			Labels: a.labels("migration"),
		},
		Spec: batchv1.JobSpec{Template: pod},
	}
}

// app returns the Deployment as it shall be by now. One that is there keeps its
// image until the schema has been migrated for the new one, and the address that
// it knows while the Service has none.
func (a *AppStack) app(seen observed) *appsv1.Deployment {
	image := a.image()
	if !seen.migrated {
		image = cmp.Or(seen.image, image)
	}
	return a.deployment(image, cmp.Or(seen.address, seen.toldAddress))
}

// deployment returns the Deployment of the app, which tells its users at which
// address they reach the database.
func (a *AppStack) deployment(image, address string) *appsv1.Deployment {
	container := container(appContainer, image, appPort)
	container.Env = []corev1.EnvVar{
		{Name: "DATABASE_HOST", Value: a.Name + "-db"},
		{Name: addressVariable, Value: address},
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: a.Name, Labels: a.labels("app")},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(a.Spec.Replicas),
			Selector: &metav1.LabelSelector{MatchLabels: a.labels("app")},
			Template: a.pod("app", container),
		},
	}
}

func (a *AppStack) pod(component string, container corev1.Container) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: a.labels(component)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{container}},
	}
}

func (a *AppStack) labels(component string) map[string]string {
	return map[string]string{"app.kubernetes.io/instance": a.Name, "app.kubernetes.io/component": component}
}

// container returns one that is ready as soon as it listens at a port.
func container(name, image string, port int32) corev1.Container {
	return corev1.Container{
		Name:  name,
		Image: image,
		Ports: []corev1.ContainerPort{{ContainerPort: port}},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
			TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(port)},
		}},
	}
}
