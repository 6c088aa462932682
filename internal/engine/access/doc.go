// Package access protects what an operator serves: by TLS, and by asking the API
// server who sends a request and whether they may.
//
//	certificates, err := access.Open(security, log) // from files, or self-signed
//	guard, err := access.NewGuard(link.Config, link.As(operator, nil), security, "metrics", log)
//	server := &http.Server{Handler: guard.Protect(mux), TLSConfig: certificates.Config(), …}
//	go certificates.Keep(ctx) // reads files again as they change
//
// A request must carry a bearer token. A TokenReview says whose it is, and a
// SubjectAccessReview whether that user may get the path, which is a nonResourceURL of
// RBAC. The answers are kept for a short time (remember.go), by hashes of what was asked.
// Where the API server can't be asked, nobody is let in.
//
// # Goroutines and ownership
//
// The package starts no goroutine. Certificates.Keep runs on its caller's, until its
// context ends; all other methods may be called concurrently. The current certificate is
// replaced as a whole, by Keep alone.
//
// It may import client, which keeps tokens out of client-go's log, and the shared vocabulary. It
// knows no metrics: what is protected is any http.Handler.
package access
