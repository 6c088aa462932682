package recording

import (
	"encoding/json"
	"fmt"

	"github.com/roperator/roperator/handler"
)

// Format is what the first line of a recording says, with the version of the format.
const Format = "roperator-recording/v1"

// A Kind is which method of a handler was called.
type Kind string

// The methods of a handler whose calls are recorded.
const (
	KindSync     Kind = "sync"
	KindFinalize Kind = "finalize"
)

// check returns an error for a Kind that this version doesn't know.
func (k Kind) check() error {
	if k != KindSync && k != KindFinalize {
		return fmt.Errorf("a recording of this version has no call %q", string(k))
	}
	return nil
}

// A header is the first line of a recording.
type header struct {
	Format string `json:"format"`
	Salt   string `json:"salt,omitempty"` // of recordings of earlier builds
}

// headerLine returns the first line of a recording.
func headerLine() ([]byte, error) {
	line, err := json.Marshal(header{Format: Format})
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	return append(line, '\n'), nil
}

// A line is any other line: one call of a handler, which may have returned a response, an
// error, or both.
type line struct {
	Call     Kind            `json:"call"`
	Request  json.RawMessage `json:"request"`
	Response *Answer         `json:"response,omitempty"`
	Error    string          `json:"error,omitempty"`
}

// An Answer is what a handler returned, of either call, as it is in a recording. Status and
// Children are of the types that unstructured.Unstructured uses, and of Go's slices of
// strings.
type Answer struct {
	Status       any              `json:"status,omitempty"`
	Children     []map[string]any `json:"children,omitempty"`
	KeepChildren bool             `json:"keepChildren,omitempty"`
	Finalized    bool             `json:"finalized,omitempty"`
	After        string           `json:"after,omitempty"` // Resync or Retry
	Events       []handler.Event  `json:"events,omitempty"`
}
