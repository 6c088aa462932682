package guard

import (
	"fmt"
	"runtime/debug"
)

// A PanicError is a panic that was recovered, as an error.
type PanicError struct {
	Text  string // of the value
	Stack string // as the runtime prints it
}

// Error returns the text of the value, after the word "panic".
func (p *PanicError) Error() string { return "panic: " + p.Text }

// Recovered returns the panic whose value v the calling deferred function has recovered.
func Recovered(v any) *PanicError {
	return &PanicError{Text: Text(v), Stack: string(debug.Stack())}
}

// Text returns a value as package fmt prints it, whatever the methods of the value do.
func Text(v any) (text string) {
	defer func() {
		if recover() != nil { // fmt recovers the first panic, and none while it prints that one
			text = fmt.Sprintf("a %T that panics when it is printed", v)
		}
	}()
	return fmt.Sprint(v)
}
