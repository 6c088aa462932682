// Package sample makes the objects, operators and random values that tests of
// several rooms have in common:
//
//	parent := sample.Object(t, sample.ParentType(), "p", "parent-uid", 1, "")
//	child := sample.Object(t, k8s.Pod, "web", "child-uid", 1, "parent-uid")
//	desired := sample.YAML(t, `spec: {replicas: 2}`)
//
// A ByteSource draws values from the input of a fuzzer, so that a failure can be
// replayed from the same input.
//
// Only tests import the package. It keeps no state and starts no goroutine. It
// imports config and resource, and no room of the engine.
package sample
