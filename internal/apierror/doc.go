// Package apierror says what an error of the API server means for an operator:
// whether the same request could succeed later, which fields can't be changed, and
// which RBAC rule is missing. It also shortens and redacts errors for logs:
//
//	switch {
//	case apierror.IsNamespaceTerminating(err):
//		return nil // nothing can be created there any more
//	case apierror.IsRefusal(err):
//		return &apierror.RefusedError{Err: err} // until something changes
//	}
//	return apierror.WithRule(err, apierror.Request{Verb: "create", Resource: "secrets"})
//
// Errors of this package wrap the API server's answer, so that errors.Is, errors.As
// and the functions of k8s.io/apimachinery/pkg/api/errors see it. Redacted is the
// exception, since it exists to drop parts of the answer. The functions of this package
// decide by the whole answer nevertheless.
//
// The package is pure and keeps no state. It starts no goroutine, and goroutines
// may call it concurrently. It imports apimachinery and k8s.io/api, and nothing of
// this module.
package apierror
