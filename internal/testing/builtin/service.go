package builtin

import (
	"reflect"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Update changes an object, as Read returns it, as an update of what it was does: of a Service whose type changes, the
// fields of the old type go, and its address stays.
func (r *Reader) Update(was, is map[string]any) {
	if r.gvk.Kind != "Service" {
		return
	}
	before, _ := was["spec"].(map[string]any)
	after, _ := is["spec"].(map[string]any)
	if before == nil || after == nil {
		return
	}
	drop := func(needed func(spec map[string]any) bool, fields ...string) {
		if !needed(before) || needed(after) {
			return
		}
		for _, name := range fields {
			if reflect.DeepEqual(before[name], after[name]) {
				delete(after, name)
			}
		}
	}
	drop(hasAddress, "clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")
	drop(isBalanced, "allocateLoadBalancerNodePorts", "loadBalancerClass")
	drop(isOutside, "externalTrafficPolicy")
	if isOutside(before) && !isOutside(after) {
		dropNodePorts(before, after)
	}
	if address := before["clusterIP"]; address != nil && after["clusterIP"] == nil && hasAddress(after) {
		after["clusterIP"] = address
	}
}

func hasAddress(spec map[string]any) bool { return spec["type"] != "ExternalName" }

func isBalanced(spec map[string]any) bool { return spec["type"] == "LoadBalancer" }

// isOutside says whether a Service is reached from outside of the cluster.
func isOutside(spec map[string]any) bool {
	outer, _ := spec["externalIPs"].([]any)
	return spec["type"] == "NodePort" || isBalanced(spec) || spec["type"] == "ClusterIP" && len(outer) > 0
}

// dropNodePorts drops the ports of the nodes if they are as they were.
func dropNodePorts(before, after map[string]any) {
	old, _ := before["ports"].([]any)
	ports, _ := after["ports"].([]any)
	for i, port := range ports {
		port, _ := port.(map[string]any)
		if i >= len(old) || port == nil {
			return
		}
		if was, _ := old[i].(map[string]any); was["nodePort"] != port["nodePort"] {
			return
		}
	}
	for _, port := range ports {
		if port, ok := port.(map[string]any); ok {
			delete(port, "nodePort")
		}
	}
}

// frozenAddress refuses another address for a Service that has one. Which one is for a cluster to say, but that it has
// one isn't.
func frozenAddress(was, is map[string]any) (out field.ErrorList) {
	before, _ := was["spec"].(map[string]any)
	after, _ := is["spec"].(map[string]any)
	if hasAddress(before) && hasAddress(after) && after["clusterIP"] != nil && before["clusterIP"] != after["clusterIP"] {
		out = append(out, field.Invalid(field.NewPath("spec", "clusterIPs").Index(0), after["clusterIP"], "may not change once set"))
	}
	return out
}
