package main

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
)

const containerPort = 3000

// An EchoServer is what crd.yaml describes, as far as the operator reads it.
type EchoServer struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ServiceName string `json:"serviceName"`
		ServicePort int32  `json:"servicePort"`
	} `json:"spec"`
}

// An EchoServerStatus is all of the status that the operator writes; the
// engine adds observedGeneration.
type EchoServerStatus struct {
	Message string `json:"message"`
}

// validate finds what the schema can't tell: which names a Service may have is
// the business of the API server's version.
func (e *EchoServer) validate() error {
	if problems := validation.IsDNS1035Label(e.Spec.ServiceName); len(problems) > 0 {
		return fmt.Errorf("spec.serviceName: %q can't be a Service's name: %s", e.Spec.ServiceName, strings.Join(problems, "; "))
	}
	return nil
}

// pod returns the Pod that answers. Neither namespace nor owner have to be
// given: the engine fills them in.
func (e *EchoServer) pod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: e.Name, Labels: e.labels()},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name:  "echo-server",
			Image: "hashicorp/http-echo:1.0",
			Args:  []string{fmt.Sprintf("-listen=:%d", containerPort), "-text=" + e.Spec.ServiceName},
			Ports: []corev1.ContainerPort{{ContainerPort: containerPort}},
		}}},
	}
}

// service returns the Service that finds the Pod.
func (e *EchoServer) service() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: e.Spec.ServiceName, Labels: e.labels()},
		Spec: corev1.ServiceSpec{
			Selector: e.labels(),
			Ports:    []corev1.ServicePort{{Port: e.Spec.ServicePort, TargetPort: intstr.FromInt32(containerPort)}},
		},
	}
}

func (e *EchoServer) labels() map[string]string {
	return map[string]string{"app.kubernetes.io/name": e.Spec.ServiceName}
}

// message says what has been observed of the Pod.
func message(children handler.Children) string {
	pod, found := children.OfType(k8s.Pod).First()
	if !found {
		return "Waiting for the Pod to be created"
	}
	if pod.IsDeleting() {
		return fmt.Sprintf("Pod %s is Terminating", pod.Name())
	}
	if text, found := pod.Field("status", "message"); found {
		return fmt.Sprintf("Pod %s: %v", pod.Name(), text)
	}
	phase, _ := pod.Field("status", "phase")
	return fmt.Sprintf("Pod %s is %v", pod.Name(), phase)
}
