package apierror

import (
	"errors"
	"fmt"
)

// maxListed is how many errors, or children, one text lists at most.
const MaxListed = 20

// Join is errors.Join with a bounded text: a parent may have thousands of
// children that all fail the same way. errors.Is and errors.As see all errors.
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
