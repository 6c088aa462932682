package manifests

import "strings"

// roleName returns a name for the program's roles that no built-in ClusterRole,
// such as admin, has.
func (in *installation) roleName() string {
	if strings.HasSuffix(in.Name, "-operator") {
		return in.Name
	}
	return in.Name + "-operator"
}

// metricsReader returns the name of the ClusterRole for those who may get the metrics.
func (in *installation) metricsReader() string { return in.roleName() + "-metrics-reader" }

// windowViewer returns the name of the ClusterRole for those who may look at the window.
func (in *installation) windowViewer() string { return in.roleName() + "-window-viewer" }

// dnsLabel returns a DNS label that ends in suffix, made of an operator's name,
// which may have dots.
func dnsLabel(name, suffix string) string {
	name = strings.ReplaceAll(name, ".", "-")
	if name[0] >= '0' && name[0] <= '9' {
		name = "operator-" + name
	}
	return strings.TrimRight(name[:min(len(name), 63-len(suffix))], "-") + suffix
}

// DefaultNamespace returns the namespace that an operator is installed in
// unless --install-namespace names another.
func DefaultNamespace(operator string) string { return dnsLabel(operator, "-system") }
