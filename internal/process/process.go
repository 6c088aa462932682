package process

import (
	"cmp"
	"os"
	"strings"
)

// namespaceFile is the file of a container in which the kubelet writes the Pod's
// namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Hostname returns the name of the host, "" if it is unknown. In a Pod it is the
// Pod's name.
func Hostname() string {
	host, err := os.Hostname()
	if err != nil {
		return ""
	}
	return host
}

// User returns the name of the user whose process this is, as the surroundings say it, ""
// if they don't.
func User() string { return cmp.Or(os.Getenv("USER"), os.Getenv("LOGNAME"), os.Getenv("USERNAME")) }

// PodNamespace returns the namespace of the Pod that this process runs in, "" if it
// runs in none.
func PodNamespace() string {
	namespace, err := os.ReadFile(namespaceFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(namespace))
}

// ReadFile returns what a file holds at present. The error names the file.
func ReadFile(path string) ([]byte, error) { return os.ReadFile(path) }
