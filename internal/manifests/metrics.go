package manifests

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// metricsService returns the Service that monitor finds the replicas by.
func (in *installation) metricsService() *corev1.Service {
	return &corev1.Service{
		TypeMeta: typeMeta("v1", "Service"), ObjectMeta: in.meta(dnsLabel(in.Name, "-metrics")),
		Spec: corev1.ServiceSpec{
			Selector: in.labels,
			Ports: []corev1.ServicePort{{
				Name: "metrics", Port: in.MetricsPort, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("metrics"),
			}},
		},
	}
}

// monitor returns a ServiceMonitor, which asks the Prometheus Operator to scrape
// every replica.
func (in *installation) monitor() map[string]any {
	return map[string]any{
		"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor",
		"metadata": in.meta(in.Name),
		"spec": map[string]any{
			"selector":  map[string]any{"matchLabels": in.labels},
			"endpoints": endpoints(in.MetricsSecure),
		},
	}
}

// endpoints returns those of a ServiceMonitor. Where the metrics are protected, Prometheus
// shows the token of its own ServiceAccount. It can't verify a certificate that the operator
// has signed itself.
func endpoints(secure bool) []any {
	endpoint := map[string]any{"port": "metrics"}
	if secure {
		endpoint["scheme"], endpoint["tlsConfig"] = "https", map[string]any{"insecureSkipVerify": true}
		endpoint["bearerTokenFile"] = "/var/run/secrets/kubernetes.io/serviceaccount/token"
	}
	return []any{endpoint}
}

// networkPolicy returns a policy by which nothing but the metrics, the window and the probes
// can be reached: the metrics and the window from the Pods of the cluster, the probes from
// everywhere, since the kubelet isn't a Pod. What the operator itself reaches isn't
// restricted.
func (in *installation) networkPolicy() *networkingv1.NetworkPolicy {
	tcp := corev1.ProtocolTCP
	rule := func(port string, from ...networkingv1.NetworkPolicyPeer) networkingv1.NetworkPolicyIngressRule {
		return networkingv1.NetworkPolicyIngressRule{Ports: []networkingv1.NetworkPolicyPort{{Protocol: &tcp, Port: new(intstr.FromString(port))}}, From: from}
	}
	var ingress []networkingv1.NetworkPolicyIngressRule
	if in.MetricsPort != 0 {
		ingress = append(ingress, rule("metrics", networkingv1.NetworkPolicyPeer{NamespaceSelector: anyNamespace()}))
	}
	if in.HealthPort != 0 {
		ingress = append(ingress, rule("health"))
	}
	if in.WindowPort != 0 {
		ingress = append(ingress, rule("window", networkingv1.NetworkPolicyPeer{NamespaceSelector: anyNamespace()}))
	}
	return &networkingv1.NetworkPolicy{
		TypeMeta: typeMeta("networking.k8s.io/v1", "NetworkPolicy"), ObjectMeta: in.meta(in.Name),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: in.labels},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, Ingress: ingress,
		},
	}
}

// anyNamespace returns a selector of all namespaces. An empty one would be no part of the
// YAML.
func anyNamespace() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpExists}}}
}
