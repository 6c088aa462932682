package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// An AppStack is what crd.yaml describes.
type AppStack struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Image    string `json:"image"`
		Replicas int32  `json:"replicas"`
		Database struct {
			Image string `json:"image"`
		} `json:"database"`
	} `json:"spec"`
}

// An AppStackStatus is the status of an AppStack. The engine adds observedGeneration, and the
// conditions Ready, Reconciling and Stalled.
type AppStackStatus struct {
	Database string `json:"database,omitempty"` // the address of the database
	Image    string `json:"image,omitempty"`    // what the app runs
}

// addressVariable is where the app finds the address of the database.
const addressVariable = "DATABASE_HOST"

// syncAppStack says what there shall be: the database and its Service, a Job that migrates the
// database for the image of the app, and the app. The Job waits for the database. The app waits for
// the Job and for the address of the database, which the cluster gives to the Service.
func syncAppStack(_ context.Context, s *AppStack, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	running, err := s.running(req.Children)
	if err != nil {
		return nil, err
	}
	address := s.address(req.Children)
	if address == "" && running != nil {
		address = running.address // an address that is missing for a moment is no reason to change the app
	}
	database, service := s.database(), s.service()
	migration := handler.After(s.migration(), database)
	image := s.Spec.Image
	if running != nil && !s.migrated(req.Children) {
		image = running.image // the app stays what it is until the database is ready for another one
	}
	app := handler.After(handler.When(s.app(image, address), address != ""), migration, service)
	return &handler.SyncResponse{
		Status:   s.status(address, running),
		Children: []any{database, service, migration, app},
	}, nil
}

func (s *AppStack) status(address string, running *app) AppStackStatus {
	status := AppStackStatus{Database: address}
	if running != nil {
		status.Image = running.image
	}
	return status
}

// An app is what a live Deployment runs.
type app struct{ image, address string }

// running returns what the app runs, nil if there is no app yet.
func (s *AppStack) running(children handler.Children) (*app, error) {
	live, exists := children.OfType(k8s.Deployment).Get(s.Namespace, s.Name)
	if !exists {
		return nil, nil
	}
	d, err := resource.As[*appsv1.Deployment](live)
	if err != nil {
		return nil, err
	}
	for _, c := range d.Spec.Template.Spec.Containers {
		if c.Name == "app" {
			return &app{image: c.Image, address: variable(c.Env, addressVariable)}, nil
		}
	}
	return nil, nil
}

func variable(env []corev1.EnvVar, name string) string {
	for _, v := range env {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}

// address returns the address that the cluster has given to the database's Service, "" if it
// hasn't yet.
func (s *AppStack) address(children handler.Children) string {
	live, exists := children.OfType(k8s.Service).Get(s.Namespace, s.databaseName())
	if !exists {
		return ""
	}
	service, err := resource.As[*corev1.Service](live)
	if err != nil || len(service.Status.LoadBalancer.Ingress) == 0 {
		return ""
	}
	first := service.Status.LoadBalancer.Ingress[0]
	if first.IP != "" {
		return first.IP
	}
	return first.Hostname
}

// migrated says whether the migration for the image is complete.
func (s *AppStack) migrated(children handler.Children) bool {
	live, exists := children.OfType(k8s.Job).Get(s.Namespace, s.migration().Name)
	if !exists || readiness.Of(live).State != readiness.Current {
		return false
	}
	job, err := resource.As[*batchv1.Job](live)
	return err == nil && job.Status.Succeeded > 0
}

func (s *AppStack) databaseName() string { return s.Name + "-db" }

func (s *AppStack) labels(part string) map[string]string {
	return map[string]string{"appstack": s.Name, "part": part}
}

func (s *AppStack) database() *appsv1.StatefulSet {
	labels := s.labels("database")
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: s.databaseName()},
		Spec: appsv1.StatefulSetSpec{
			Replicas:    new(int32(1)),
			ServiceName: s.databaseName(),
			Selector:    &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "database", Image: s.Spec.Database.Image}}},
			},
		},
	}
}

func (s *AppStack) service() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: s.databaseName()},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: s.labels("database"),
			Ports: []corev1.ServicePort{{Port: 5432}},
		},
	}
}

// migration returns the Job that migrates the database for the image. Each image has a Job of its
// own, by its name, since a Job runs once.
func (s *AppStack) migration() *batchv1.Job {
	sum := sha256.Sum256([]byte(s.Spec.Image))
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name + "-migrate-" + hex.EncodeToString(sum[:4])},
		Spec: batchv1.JobSpec{
			BackoffLimit: new(int32(0)), // one that has failed half-way is for somebody to look at
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers:    []corev1.Container{{Name: "migrate", Image: s.Spec.Image, Args: []string{"migrate"}}},
			}},
		},
	}
}

func (s *AppStack) app(image, address string) *appsv1.Deployment {
	labels := s.labels("app")
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &s.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "app", Image: image, Env: []corev1.EnvVar{{Name: addressVariable, Value: address}},
				}}},
			},
		},
	}
}
