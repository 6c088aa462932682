// Package stages is what kwok plays. It is apart from package kubelet for the demo's sake, which
// would be compiled with all of testkit otherwise.
package stages

import (
	_ "embed"

	corev1 "k8s.io/api/core/v1"
)

//go:embed stages.yaml
var stages []byte

// YAML returns what kwok plays, as its configuration file.
func YAML() []byte { return append([]byte(nil), stages...) }

// NodeLabels returns the labels that a kubelet gives its node, as far as Pods ask for them.
func NodeLabels(node string) map[string]string {
	return map[string]string{corev1.LabelHostname: node, corev1.LabelOSStable: "linux"}
}
