// Package helm proves that the charts which the subcommand manifests writes are what Helm
// takes, and that they make the same objects as the YAML which it prints. It is a module
// of its own, so that Helm is required by nobody else.
package helm
