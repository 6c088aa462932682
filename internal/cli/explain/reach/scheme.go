package reach

import (
	"errors"
	"fmt"
	"strings"
)

// A schemeError says that a process serves with TLS and was asked without, or the other way round.
type schemeError struct {
	err    error
	secure bool // whether it serves with TLS
}

// Error returns what the answer was.
func (e *schemeError) Error() string { return e.err.Error() }

// Unwrap returns the error that told.
func (e *schemeError) Unwrap() error { return e.err }

// schemed makes a schemeError of an error that tells of one. It knows how Go's servers and Go's
// clients say it; the API server is such a client of Pods.
func schemed(err error) error {
	switch text := err.Error(); {
	case strings.Contains(text, "HTTP request to an HTTPS server"):
		return &schemeError{err, true}
	case strings.Contains(text, "server gave HTTP response to HTTPS client"), strings.Contains(text, "does not look like a TLS handshake"):
		return &schemeError{err, false}
	}
	return err
}

// withAdvice adds to a schemeError which URL it takes.
func withAdvice(err error) error {
	var wrong *schemeError
	switch {
	case !errors.As(err, &wrong):
		return err
	case wrong.secure:
		return fmt.Errorf("%w; use https:// in --process-url", err)
	}
	return fmt.Errorf("%w; use http:// in --process-url", err)
}
