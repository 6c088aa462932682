package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// A BlueGreen is what crd.yaml describes.
type BlueGreen struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Image    string `json:"image"`
		Replicas int32  `json:"replicas"`
		Port     int32  `json:"port"`
	} `json:"spec"`
}

// A BlueGreenStatus says who gets the traffic. The engine adds observedGeneration, and the
// conditions Ready, Reconciling and Stalled.
type BlueGreenStatus struct {
	Active string `json:"active,omitempty"` // the colour to which the Service points
	Image  string `json:"image,omitempty"`  // what runs there
}

// The colours.
const (
	blue  = "blue"
	green = "green"
)

// other returns the colour that a colour isn't.
func other(colour string) string {
	if colour == blue {
		return green
	}
	return blue
}

// syncBlueGreen decides by what is there: to which colour the Service points, and what each colour
// runs. So it needs no memory, and a new image in the middle, or the old one again, is nothing
// special.
func syncBlueGreen(_ context.Context, b *BlueGreen, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	active := b.active(req.Children)
	live := map[string]*runs{blue: b.live(req.Children, blue), green: b.live(req.Children, green)}
	status := BlueGreenStatus{Active: active}
	if status.Active != "" && live[active] != nil {
		status.Image = live[active].image
	}
	return &handler.SyncResponse{Status: status, Children: b.children(active, live)}, nil
}

// children returns the two Deployments, as far as they are needed, and the Service.
func (b *BlueGreen) children(active string, live map[string]*runs) []any {
	if active == "" { // there is no Service yet
		first := b.deployment(blue, b.Spec.Image, b.Spec.Replicas)
		return []any{first, handler.After(b.service(blue), first)}
	}
	now, next := live[active], other(active)
	switch {
	case now == nil || now.image == b.Spec.Image: // this is it; the other one rests
		children := []any{b.deployment(active, b.Spec.Image, b.Spec.Replicas), b.service(active)}
		if live[next] != nil {
			children = append(children, b.deployment(next, live[next].image, 0))
		}
		return children
	case live[next].serves(b.Spec.Image, b.Spec.Replicas): // the other one takes over
		return []any{b.deployment(active, now.image, b.Spec.Replicas), b.deployment(next, b.Spec.Image, b.Spec.Replicas), b.service(next)}
	default: // the other one gets ready
		return []any{b.deployment(active, now.image, b.Spec.Replicas), b.deployment(next, b.Spec.Image, b.Spec.Replicas), b.service(active)}
	}
}

// A runs is what a live Deployment runs.
type runs struct {
	image    string
	replicas int32
	ready    bool // all of it is rolled out
}

// serves says whether this image runs in so many replicas, and all are ready.
func (r *runs) serves(image string, replicas int32) bool {
	return r != nil && r.image == image && r.replicas == replicas && r.ready
}

// live returns what a colour runs, nil if there is no Deployment of it.
func (b *BlueGreen) live(children handler.Children, colour string) *runs {
	found, exists := children.OfType(k8s.Deployment).Get(b.Namespace, b.Name+"-"+colour)
	if !exists {
		return nil
	}
	d, err := resource.As[*appsv1.Deployment](found)
	if err != nil || len(d.Spec.Template.Spec.Containers) == 0 || d.Spec.Replicas == nil {
		return nil
	}
	return &runs{image: d.Spec.Template.Spec.Containers[0].Image, replicas: *d.Spec.Replicas, ready: readiness.Of(found).State == readiness.Current}
}

// active returns the colour to which the Service points, "" if there is no Service.
func (b *BlueGreen) active(children handler.Children) string {
	service, exists := children.OfType(k8s.Service).Get(b.Namespace, b.Name)
	if !exists {
		return ""
	}
	if colour, _ := service.Field("spec", "selector", "colour"); colour == green {
		return green
	}
	return blue
}

func (b *BlueGreen) labels(colour string) map[string]string {
	return map[string]string{"bluegreen": b.Name, "colour": colour}
}

func (b *BlueGreen) deployment(colour, image string, replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: b.Name + "-" + colour, Namespace: b.Namespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: b.labels(colour)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: b.labels(colour)},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image, Ports: []corev1.ContainerPort{{ContainerPort: b.Spec.Port}}}}},
			},
		},
	}
}

func (b *BlueGreen) service(colour string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: b.Name, Namespace: b.Namespace},
		Spec: corev1.ServiceSpec{
			Selector: b.labels(colour),
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(b.Spec.Port)}},
		},
	}
}
