package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "github.com/roperator/roperator/examples/starter/api/v1"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/resource/k8s"
)

const containerPort = 8080

// sync says what shall be for a Site: its status, and its children. It is called with
// the Site and the children as they are, whenever one of them has changed.
func sync(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	site, err := handler.ParentAs[*v1.Site](req)
	if err != nil {
		return nil, err
	}
	return &handler.SyncResponse{
		Status: v1.SiteStatus{
			URL:        fmt.Sprintf("http://%s.%s.svc", site.Name, site.Namespace),
			Conditions: []metav1.Condition{available(req.Children)},
		},
		Children: []any{deployment(site), service(site)},
	}, nil
}

// available says whether the web servers are at work.
func available(children handler.Children) metav1.Condition {
	servers, found := children.OfType(k8s.Deployment).First()
	if !found {
		return metav1.Condition{Type: "Available", Status: metav1.ConditionFalse, Reason: "Starting"}
	}
	is := readiness.Of(servers)
	if is.State != readiness.Current {
		return metav1.Condition{Type: "Available", Status: metav1.ConditionFalse, Reason: string(is.State), Message: is.Message}
	}
	return metav1.Condition{Type: "Available", Status: metav1.ConditionTrue, Reason: "Serving"}
}

func labels(site *v1.Site) map[string]string {
	return map[string]string{"app.kubernetes.io/name": "site", "app.kubernetes.io/instance": site.Name}
}

// deployment returns the web servers.
func deployment(site *v1.Site) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: site.Name, Labels: labels(site)},
		Spec: appsv1.DeploymentSpec{
			Replicas: site.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels(site)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels(site)},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name:  "server",
					Image: site.Spec.Image,
					Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: containerPort}},
				}}},
			},
		},
	}
}

// service returns what the web servers are reached by.
func service(site *v1.Site) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: site.Name, Labels: labels(site)},
		Spec: corev1.ServiceSpec{
			Selector: labels(site),
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(containerPort)}},
		},
	}
}
