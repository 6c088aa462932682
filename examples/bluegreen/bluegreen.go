package main

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	nameLabel   = "app.kubernetes.io/name"
	colourLabel = "example.roperator.com/colour"
	container   = "app"
	port        = 8080
)

// A BlueGreen is what crd.yaml describes, as far as the operator reads it.
type BlueGreen struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Image    string `json:"image"`
		Replicas int32  `json:"replicas"`
	} `json:"spec"`
}

// A BlueGreenStatus is the status of a BlueGreen. The engine completes the
// condition, and adds observedGeneration and the condition Ready.
type BlueGreenStatus struct {
	Active     string             `json:"active,omitempty"` // the colour that the Service points to
	Image      string             `json:"image,omitempty"`  // that it runs
	Conditions []metav1.Condition `json:"conditions"`
}

func (b *BlueGreen) name(c colour) string { return b.Name + "-" + string(c) }

func (b *BlueGreen) labels(c colour) map[string]string {
	return map[string]string{nameLabel: b.Name, colourLabel: string(c)}
}

// deployment returns the Deployment of a colour.
func (b *BlueGreen) deployment(c colour, image string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: b.name(c), Labels: b.labels(c)},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(b.Spec.Replicas),
			Selector: &metav1.LabelSelector{MatchLabels: b.labels(c)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: b.labels(c)},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name:  container,
					Image: image,
					Ports: []corev1.ContainerPort{{ContainerPort: port}},
					ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
						TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(port)},
					}},
				}}},
			},
		},
	}
}

// imageOf returns which image of the app a Deployment runs. A webhook may have
// put other containers beside it.
func imageOf(deployment appsv1.Deployment) string {
	for _, c := range deployment.Spec.Template.Spec.Containers {
		if c.Name == container {
			return c.Image
		}
	}
	return ""
}

// service returns the Service, which points to a colour.
func (b *BlueGreen) service(c colour) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: b.Name, Labels: map[string]string{nameLabel: b.Name}},
		Spec: corev1.ServiceSpec{
			Selector: b.labels(c),
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(port)}},
		},
	}
}

// status says who serves, and how far the wanted image has come.
func (b *BlueGreen) status(live observed) BlueGreenStatus {
	serving := live.sides[live.points]
	switched := metav1.Condition{Type: "Switched", Status: metav1.ConditionTrue, Reason: "Serving"}
	if serving.image != b.Spec.Image {
		switched.Status, switched.Reason = metav1.ConditionFalse, "Preparing"
		for _, c := range colours() {
			if s := live.sides[c]; s.image == b.Spec.Image {
				switched.Message = fmt.Sprintf("%s: %s", c, s.message)
			}
		}
	}
	return BlueGreenStatus{Active: string(live.points), Image: serving.image, Conditions: []metav1.Condition{switched}}
}
