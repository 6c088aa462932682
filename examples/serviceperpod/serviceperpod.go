package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
)

// podsOf returns the Pods of a StatefulSet. Its selector may match Pods that
// somebody else has made, so the owner counts.
func podsOf(set *appsv1.StatefulSet, req *handler.SyncRequest) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	for pod, err := range handler.RelatedAs[*corev1.Pod](req, k8s.Pod) {
		if err != nil {
			return nil, err
		}
		if metav1.IsControlledBy(pod, set) {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// servicesFor returns a Service for each Pod, and the names of the Pods that have
// no port which a Service could lead to.
func servicesFor(pods []*corev1.Pod) (services []any, portless []string) {
	for _, pod := range pods {
		ports := ports(pod)
		if len(ports) == 0 {
			portless = append(portless, pod.Name)
			continue
		}
		services = append(services, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name},
			Spec: corev1.ServiceSpec{
				Selector: map[string]string{appsv1.StatefulSetPodNameLabel: pod.Name},
				Ports:    ports,
			},
		})
	}
	return services, portless
}

// ports returns those of a Pod's containers, each once. They are named by what
// they are, since containers may use the same names.
func ports(pod *corev1.Pod) (out []corev1.ServicePort) {
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			protocol := cmp.Or(port.Protocol, corev1.ProtocolTCP)
			name := fmt.Sprintf("%s-%d", strings.ToLower(string(protocol)), port.ContainerPort)
			if slices.ContainsFunc(out, func(other corev1.ServicePort) bool { return other.Name == name }) {
				continue
			}
			out = append(out, corev1.ServicePort{
				Name: name, Protocol: protocol, Port: port.ContainerPort, TargetPort: intstr.FromInt32(port.ContainerPort),
			})
		}
	}
	return out
}

// awaiting returns the Services of Pods that aren't there at the moment, but that
// the StatefulSet will make again: in a rolling update, say. Such a Service stays
// exactly as it is, and so does its address.
func awaiting(set *appsv1.StatefulSet, pods []*corev1.Pod, children handler.Children) (services []any) {
	for service := range children.OfType(k8s.Service).All() {
		exists := slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.Name == service.Name() })
		if !exists && hasPod(set, service.Name()) {
			services = append(services, handler.Keep(service))
		}
	}
	return services
}

// hasPod says whether a StatefulSet wants a Pod of this name: its own name with a
// number, of which there are as many as replicas, from spec.ordinals.start on.
func hasPod(set *appsv1.StatefulSet, name string) bool {
	text, ok := strings.CutPrefix(name, set.Name+"-")
	ordinal, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil {
		return false
	}
	start, replicas := int64(0), int64(1)
	if set.Spec.Ordinals != nil {
		start = int64(set.Spec.Ordinals.Start)
	}
	if set.Spec.Replicas != nil {
		replicas = int64(*set.Spec.Replicas)
	}
	return ordinal >= start && ordinal < start+replicas
}

// warnings returns an Event about Pods without ports, if there are such Pods.
func warnings(portless []string) []handler.Event {
	if len(portless) == 0 {
		return nil
	}
	return []handler.Event{{
		Type: handler.EventWarning, Reason: "NoPorts",
		Message: "no container port, so no Service: Pods " + strings.Join(portless, ", "),
	}}
}
