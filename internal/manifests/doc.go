// Package manifests makes the objects that run a program's operators in a cluster, of
// the operators' configurations and of what the command line says:
//
//	made, err := manifests.Make(configs, manifests.Options{Name: "hello", Namespace: "hello-system", Image: image, Replicas: 2})
//	…
//	text, err := made.YAML()
//
// The same input always gives the same output. The package is pure: it asks no API
// server, reads and writes no file, and has no state and no goroutine. It imports package
// catalog for the names of resources and for the rights that an operator needs.
package manifests
