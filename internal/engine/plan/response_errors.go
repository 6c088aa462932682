package plan

import (
	"fmt"

	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// An InvalidResponseError says that the engine refuses a handler's response. It joins
// everything that is wrong with the response.
type InvalidResponseError struct{ err error }

// Error returns the mistakes, after the words "invalid response".
func (e *InvalidResponseError) Error() string { return "invalid response: " + e.err.Error() }

// Unwrap returns the joined mistakes.
func (e *InvalidResponseError) Unwrap() error { return e.err }

// InvalidStatus returns the InvalidResponseError about the status that a handler has returned
// for a parent.
func InvalidStatus(parent *resource.Resource, err error) error {
	return &InvalidResponseError{fmt.Errorf("%s: status: %w", object.RefOf(parent), err)}
}
