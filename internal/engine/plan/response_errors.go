package plan

// An InvalidResponseError says that Desire refuses a handler's response. It joins
// everything that is wrong with the response.
type InvalidResponseError struct{ err error }

// Error returns the mistakes, after the words "invalid response".
func (e *InvalidResponseError) Error() string { return "invalid response: " + e.err.Error() }

// Unwrap returns the joined mistakes.
func (e *InvalidResponseError) Unwrap() error { return e.err }
