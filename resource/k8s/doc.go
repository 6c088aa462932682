// Package k8s holds a resource.Type for each kind that is built into
// Kubernetes, in the newest stable version that is served by default:
//
//	config.Child{Type: k8s.Deployment, Strategy: config.Replace}
//
// Where two API groups have a kind of the same name, the newer group has the
// plain name and the other one its group's appended: Event is that of
// events.k8s.io, EventCore that of the core group.
//
// Kinds that can only be created, such as TokenReview, are left out.
package k8s

//go:generate go run ../../hack/gen-k8s -root ../..
