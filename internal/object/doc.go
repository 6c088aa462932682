// Package object has what the engine says about objects in general: the reference
// to an object (type, namespace and name), the order of children, and an object's
// controller:
//
//	ref := object.RefOf(child)
//	log.Info("deleted", "child", ref.String()) // Pod default/web
//	if object.Controls(parent, child) { … }
//
// The package is pure and keeps no state. It starts no goroutine, and goroutines
// may call it concurrently. It imports resource and apimachinery's types only.
package object
