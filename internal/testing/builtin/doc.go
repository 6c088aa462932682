// Package builtin makes of objects of built-in types what an API server makes of them: it knows their
// fields, writes what is set in one way, and fills in defaults. internal/testing/fakeapi has it for the kinds that
// say so, and its tests compare it with a real API server.
//
// An API server's defaults aren't published: its OpenAPI document has a few of them, and the rest are
// functions in k8s.io/kubernetes, which no module can import. defaults.go says the same for the types that
// operators create. What depends on the cluster, such as the IP of a Service, isn't set.
package builtin
