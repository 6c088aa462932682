// Package apischema tells without an API server what one would refuse an object of a built-in
// kind for by the object's schema: unknown fields, values of the wrong type, what is missing,
// and values outside an enum.
//
//	checker, err := apischema.New()
//	problems := checker.Check(object, true)
//	// spec.replica: unknown field (spec.replicas?)
//
// An object is decoded as an API server decodes it, by the decoder that both have from
// apimachinery, into the Go types that the program is built with. What else is demanded of a
// field is in a table that hack/gen-k8s writes: which of the required fields and the enums of
// OpenAPI an API server was seen to enforce. So what an API server of these versions accepts
// has no problem. The other way about this doesn't hold: validation is code, of which a schema
// knows little.
//
// Only testkit links this package: an operator has an API server to ask.
package apischema
