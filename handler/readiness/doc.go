// Package readiness says how far an object has come: whether a Deployment has rolled
// out, a PersistentVolumeClaim is bound, or a custom resource's controller is done with it.
//
//	db, ok := req.Children.OfType(k8s.StatefulSet).Get(req.Parent.Namespace(), "db")
//	if ok && readiness.Of(db).State == readiness.Current { … }
//
// The rules are those of kstatus, of the Kubernetes project cli-utils, by which Flux
// and others wait, too. There is one for each built-in kind that has
// something to wait for. Every other object, custom resources among them, goes by its
// status: observedGeneration other than metadata.generation means InProgress, the conditions
// Reconciling and Stalled mean InProgress and Failed, and so does a condition Ready that isn't
// True mean InProgress. An object that has none of these is Current. So a custom resource
// whose controller hasn't looked at it for the first time is Current, unless its status
// has an observedGeneration from the start.
//
// Two of the rules are often taken for something else. A Job is Current as soon as it has
// started, and Failed if it has failed: its condition Complete says that it is done. A
// Pod that has ended is Current, whether it has succeeded or not.
//
// One rule reads the clock: a Pod that no node can take is InProgress for 15 seconds, and
// Failed from then on. All else is a function of the object alone.
package readiness
