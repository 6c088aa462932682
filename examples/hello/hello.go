package main

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/roperator/roperator/examples/hello/api/v1"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

const (
	maxReplicas   = 20
	containerPort = 3000
)

// validate finds what the schema lets through: how many servers are too many is
// this operator's business, and may change from build to build.
func validate(hello *v1.Hello) error {
	if hello.Spec.Replicas > maxReplicas {
		return fmt.Errorf("spec.replicas: %d is too many: at most %d", hello.Spec.Replicas, maxReplicas)
	}
	return nil
}

// deployment returns the Deployment of the servers: what is said of it is what
// server-side apply owns, all else is left to others.
func deployment(hello *v1.Hello) *applyappsv1.DeploymentApplyConfiguration {
	labels := map[string]string{"app.kubernetes.io/name": "hello", "app.kubernetes.io/instance": hello.Name}
	return applyappsv1.Deployment(hello.Name, hello.Namespace).
		WithLabels(labels).
		WithSpec(applyappsv1.DeploymentSpec().
			WithReplicas(hello.Spec.Replicas).
			WithSelector(applymetav1.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(applycorev1.PodTemplateSpec().
				WithLabels(labels).
				WithSpec(applycorev1.PodSpec().
					WithContainers(applycorev1.Container().
						WithName("hello").
						WithImage("hashicorp/http-echo:1.0").
						WithArgs(fmt.Sprintf("-listen=:%d", containerPort), "-text=hello, "+hello.Name).
						WithPorts(applycorev1.ContainerPort().WithContainerPort(containerPort)).
						WithReadinessProbe(applycorev1.Probe().
							WithHTTPGet(applycorev1.HTTPGetAction().WithPort(intstr.FromInt32(containerPort))))))))
}

// status says what has been observed of the Deployment.
func status(children handler.Children) (v1.HelloStatus, error) {
	observed, found := children.OfType(k8s.Deployment).First()
	if !found {
		return v1.HelloStatus{Message: "waiting for the Deployment to be created"}, nil
	}
	live, err := resource.As[appsv1.Deployment](observed)
	if err != nil {
		return v1.HelloStatus{}, err
	}
	return v1.HelloStatus{
		Replicas: live.Status.Replicas,
		Message:  fmt.Sprintf("%d of %d ready", live.Status.ReadyReplicas, ptr.Deref(live.Spec.Replicas, 1)),
	}, nil
}
