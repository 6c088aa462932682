package plan

// An InvalidResponseError joins what is wrong with a handler's response.
type InvalidResponseError struct{ err error }

func (e *InvalidResponseError) Error() string { return "invalid response: " + e.err.Error() }

func (e *InvalidResponseError) Unwrap() error { return e.err }
