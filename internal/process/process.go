// Package process knows what an operator's process is told by its surroundings:
// the machine, and the Pod if it runs in one.
package process

import (
	"os"
	"strings"
)

// namespaceFile is where the kubelet writes the namespace of a Pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Hostname returns the host's name, which in a Pod is the Pod's; "" if there is
// none.
func Hostname() string {
	host, err := os.Hostname()
	if err != nil {
		return ""
	}
	return host
}

// PodNamespace returns the namespace of the Pod that this process runs in, ""
// outside of one.
func PodNamespace() string {
	namespace, err := os.ReadFile(namespaceFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(namespace))
}
