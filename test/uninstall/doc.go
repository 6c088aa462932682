// Package uninstall takes operators out of a real API server by the subcommand uninstall,
// while they run as processes of their own, and while they don't. A kube-controller-manager
// collects garbage.
package uninstall
