package apierror

import (
	"errors"
	"fmt"
)

// MaxListed is the number of errors, children or fields that one text lists at most.
const MaxListed = 20

// Join joins errors as errors.Join does, but its text lists MaxListed of them and the
// number of the others: a parent may have thousands of children that all fail in the
// same way. errors.Is and errors.As see all errors. Join returns nil for no errors.
func Join(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	if len(errs) <= MaxListed {
		return errors.Join(errs...)
	}
	return &longListError{errs}
}

// A longListError joins more errors than its text lists.
type longListError struct{ errs []error }

func (e *longListError) Error() string {
	return fmt.Sprintf("%v\nand %d more", errors.Join(e.errs[:MaxListed]...), len(e.errs)-MaxListed)
}

func (e *longListError) Unwrap() []error { return e.errs }
