package guard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"
)

// A pointerError needs its pointer.
type pointerError struct{ text string }

func (e *pointerError) Error() string { return e.text }

// A wrappingError needs its pointer in each method, and the error in it for its text.
type wrappingError struct{ err error }

func (e *wrappingError) Error() string   { return "wraps " + e.err.Error() }
func (e *wrappingError) Unwrap() error   { return e.err }
func (e *wrappingError) Permanent() bool { return e.err == nil }

// A listError is a list of errors, which may be nil.
type listError []error

func (e listError) Error() string { return errors.Join(e...).Error() }

// A countError is one that has a text when it is nil, too.
type countError map[string]int

func (e countError) Error() string { return fmt.Sprint(len(e), " errors") }

// A hostileError panics in each method, with itself.
type hostileError struct{ _ []int } // isn't comparable

func (e hostileError) Error() string        { panic(e) }
func (e hostileError) Unwrap() error        { panic(e) }
func (e hostileError) Is(error) bool        { panic(e) }
func (e hostileError) As(any) bool          { panic(e) }
func (e hostileError) Permanent() bool      { panic(e) }
func (e hostileError) DeleteChildren() bool { panic(e) }

// An endlessError wraps another one each time.
type endlessError struct{ n int }

func (e endlessError) Error() string   { return "endless" }
func (e endlessError) Unwrap() []error { return []error{endlessError{e.n + 1}, endlessError{e.n + 2}} }

// A marked error is asked for what the engine asks.
type markedError struct{ permanent, deletes bool }

func (e markedError) Error() string        { return "marked" }
func (e markedError) Permanent() bool      { return e.permanent }
func (e markedError) DeleteChildren() bool { return e.deletes }
func (e markedError) Is(target error) bool { return target == fs.ErrNotExist }
func (e markedError) As(target any) bool {
	to, ok := target.(*countError)
	if ok {
		*to = countError{"as": 1}
	}
	return ok
}

func TestError(t *testing.T) {
	var pointer *pointerError
	var wrapping *wrappingError
	cases := map[string]struct {
		reason                   string
		err                      error
		text                     string
		stack, permanent, delete bool
		is                       []error
	}{
		"Plain":            {reason: "an ordinary error keeps its text", err: context.Canceled, text: "context canceled", is: []error{context.Canceled}},
		"Wrapped":          {reason: "what an ordinary error wraps is found", err: fmt.Errorf("read: %w", fs.ErrClosed), text: "read: file already closed", is: []error{fs.ErrClosed}},
		"Joined":           {reason: "in every branch", err: errors.Join(context.Canceled, fmt.Errorf("x: %w", fs.ErrClosed)), text: "context canceled\nx: file already closed", is: []error{context.Canceled, fs.ErrClosed}},
		"NilPointer":       {reason: "the commonest slip of Go", err: pointer, text: "returned a nil *guard.pointerError as an error: return a plain nil instead", is: []error{pointer}},
		"NilUnwrap":        {reason: "its Unwrap panics too", err: wrapping, text: "returned a nil *guard.wrappingError as an error: return a plain nil instead"},
		"NilList":          {reason: "a list without errors is one as well", err: listError(nil), text: "returned a nil guard.listError as an error: return a plain nil instead"},
		"NilWithText":      {reason: "an author who finds the text looks for it", err: countError(nil), text: `returned a nil guard.countError as an error, with the text "0 errors": return a plain nil instead`},
		"NilInside":        {reason: "the type that panics isn't the one at fault", err: &wrappingError{err: pointer}, text: "returned a *guard.wrappingError that wraps a nil *guard.pointerError as an error: return a plain nil instead"},
		"NilPrinted":       {reason: "package fmt prints it as <nil>", err: fmt.Errorf("size: %w", error(pointer)), text: "size: <nil> (it wraps a nil *guard.pointerError as an error: return a plain nil instead)"},
		"Inner":            {reason: "the error in it is a plain nil", err: &wrappingError{}, text: "returned a *guard.wrappingError whose method Error panics: runtime error: invalid memory address or nil pointer dereference", stack: true, permanent: true},
		"InnerOfAnother":   {reason: "the innermost type is named, in which the mistake is", err: errors.Join(&wrappingError{}), text: "returned a *errors.joinError that wraps a *guard.wrappingError whose method Error panics: runtime error: invalid memory address or nil pointer dereference", stack: true, permanent: true},
		"Hostile":          {reason: "even the value of the panic panics", err: hostileError{}, text: "returned a guard.hostileError whose method Error panics: a guard.hostileError that panics when it is printed", stack: true},
		"HostileInside":    {reason: "what comes after it is still found", err: errors.Join(listError{hostileError{}}, fs.ErrClosed), text: "returned a *errors.joinError that wraps a guard.listError whose method Error panics: a guard.hostileError that panics when it is printed", stack: true, is: []error{fs.ErrClosed}},
		"Endless":          {reason: "errors.Is would never return", err: endlessError{}, text: "endless", is: []error{endlessError{}}},
		"Permanent":        {reason: "the first error that has the method says it", err: fmt.Errorf("x: %w, %w", markedError{permanent: true}, markedError{}), text: "x: marked, marked", permanent: true, is: []error{fs.ErrNotExist}},
		"NotPermanent":     {reason: "and no other", err: fmt.Errorf("x: %w, %w", markedError{}, markedError{permanent: true, deletes: true}), text: "x: marked, marked", is: []error{fs.ErrNotExist}},
		"DeletesChildren":  {reason: "each question is a question of its own", err: markedError{deletes: true}, text: "marked", delete: true, is: []error{fs.ErrNotExist}},
		"GuardedInAnother": {reason: "an error of ours that comes back keeps what it is", err: fmt.Errorf("again: %w", Error(markedError{permanent: true})), text: "again: marked", permanent: true, is: []error{fs.ErrNotExist}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := Error(tc.err)
			if tc.text != "" {
				require.EqualError(t, err, tc.text, tc.reason)
			}
			require.Equal(t, tc.stack, Stack(err) != "", tc.reason)
			var permanent interface{ Permanent() bool }
			require.ErrorAs(t, err, &permanent)
			require.Equal(t, tc.permanent, permanent.Permanent(), tc.reason)
			var deletes interface{ DeleteChildren() bool }
			require.ErrorAs(t, err, &deletes)
			require.Equal(t, tc.delete, deletes.DeleteChildren(), tc.reason)
			for _, target := range tc.is {
				require.ErrorIs(t, err, target, tc.reason)
			}
			require.NotErrorIs(t, err, errors.ErrUnsupported, tc.reason)
			require.NotErrorAs(t, err, new(*fs.PathError), tc.reason)
			require.Equal(t, err, Error(err), "it is its own guard")
		})
	}
	require.NoError(t, Error(nil))
	require.Empty(t, Stack(errors.New("another")))
}

func TestErrorAs(t *testing.T) {
	broken := &pointerError{"broken"}
	err := Error(errors.Join(hostileError{}, markedError{}, broken))
	found, ok := errors.AsType[*pointerError](err)
	require.True(t, ok)
	require.Same(t, broken, found)
	counts, ok := errors.AsType[countError](err)
	require.True(t, ok, "an error's own As is asked")
	require.Equal(t, countError{"as": 1}, counts)
}

func TestRecovered(t *testing.T) {
	cases := map[string]struct {
		reason string
		value  any
		text   string
	}{
		"Text":    {"as fmt prints it", "it is broken", "panic: it is broken"},
		"Error":   {"an error by its text", context.Canceled, "panic: context canceled"},
		"Nil":     {"fmt prints a nil pointer", (*pointerError)(nil), "panic: <nil>"},
		"Hostile": {"fmt recovers one panic, and not the next", hostileError{}, "panic: a guard.hostileError that panics when it is printed"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var found *PanicError
			func() {
				defer func() { found = Recovered(recover()) }()
				panic(tc.value)
			}()
			require.EqualError(t, found, tc.text, tc.reason)
			require.Contains(t, found.Stack, "guard.TestRecovered")
		})
	}
}
