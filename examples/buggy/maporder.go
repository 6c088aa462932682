package buggy

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
)

// An app is a Deployment whose container gets the settings as arguments.
type app struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Image    string            `json:"image"`
		Settings map[string]string `json:"settings"`
	} `json:"spec"`
}

var appOperator = config.Operator{
	Name:     "apps",
	Parent:   kind("App"),
	Children: []config.Child{{Type: k8s.Deployment, Strategy: config.Replace}},
}

// apps makes the Deployment.
//
// The bug: Go goes through a map in another order each time, so each pass makes other arguments,
// and the Deployment replaces its Pods for them. Sort the keys: slices.Sorted(maps.Keys(settings)).
var apps = handler.Typed(func(_ context.Context, a *app, _ handler.Children) (*handler.SyncResponse, error) {
	var args []string
	for name, value := range a.Spec.Settings {
		args = append(args, "--"+name+"="+value)
	}
	return &handler.SyncResponse{Children: []any{a.deployment(args)}}, nil
})

func (a *app) deployment(args []string) *appsv1.Deployment {
	labels := map[string]string{"app": a.Name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: a.Name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: a.Spec.Image, Args: args}}},
			},
		},
	}
}
