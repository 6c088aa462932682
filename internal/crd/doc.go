// Package crd reads CustomResourceDefinitions as their authors write them, and says what
// is wrong with one, and what would become of an installed one that another one
// replaces:
//
//	definitions, err := crd.Parse(text)
//	change := crd.Compare(installed, definitions[0], stored)
//	// change.Narrowed: version v1: spec.size: removed; its values would be dropped
//
// The package is pure: it makes no request, keeps no state and starts no goroutine. It
// imports the standard library, apimachinery's validation of names, sigs.k8s.io/yaml and
// internal/jsonvalue. It does without the Go types of k8s.io/apiextensions-apiserver: an
// operator needn't link them, and a field that they don't know yet isn't lost.
package crd
