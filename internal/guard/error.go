package guard

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// maxWrapped bounds how many errors one error may wrap, itself included. An error with more is taken for
// one that wraps others without end.
const maxWrapped = 4096

// Error returns an error in the place of one that a user's code has returned; nil for nil. Its text is that
// of err. If err is a nil pointer, map, slice or function, or if its method Error panics, the text says so
// and names the type. No method of the returned error panics.
func Error(err error) error {
	if err == nil {
		return nil
	}
	if own, ok := err.(*guarded); ok { //nolint:errorlint // an error that wraps one is the user's
		return own
	}
	g := &guarded{wrapped: wrappedBy(err)}
	g.text, g.stack = describe(err, g.wrapped)
	g.permanent = asks(g.wrapped, func(e interface{ Permanent() bool }) bool { return e.Permanent() })
	g.deletesChildren = asks(g.wrapped, func(e interface{ DeleteChildren() bool }) bool { return e.DeleteChildren() })
	return g
}

// Stack returns where the method Error of a user's error has panicked, as the runtime prints it; "" if it hasn't.
func Stack(err error) string {
	if g, ok := errors.AsType[*guarded](err); ok {
		return g.stack
	}
	return ""
}

// A guarded error has the text of a user's error, and what the engine asks of it. It is immutable.
type guarded struct {
	text, stack     string
	permanent       bool
	deletesChildren bool
	wrapped         []error // the user's error and all that it wraps, in the order of errors.Is
}

// Error returns the text.
func (g *guarded) Error() string { return g.text }

// Permanent returns what the first of the errors that has this method has returned.
func (g *guarded) Permanent() bool { return g.permanent }

// DeleteChildren returns what the first of the errors that has this method has returned.
func (g *guarded) DeleteChildren() bool { return g.deletesChildren }

// Is implements the interface of errors.Is for the user's error and all that it wraps. There is no Unwrap:
// errors.Is would call their methods without a recover.
func (g *guarded) Is(target error) bool {
	equals := reflect.TypeOf(target).Comparable()
	return g.has(func(err error) bool {
		if equals && err == target {
			return true
		}
		is, ok := err.(interface{ Is(target error) bool })
		return ok && is.Is(target)
	})
}

// As implements the interface of errors.As in the same way.
func (g *guarded) As(target any) bool {
	to := reflect.ValueOf(target).Elem()
	return g.has(func(err error) bool {
		if reflect.TypeOf(err).AssignableTo(to.Type()) {
			to.Set(reflect.ValueOf(err))
			return true
		}
		as, ok := err.(interface{ As(target any) bool })
		return ok && as.As(target)
	})
}

// has calls what for each of the errors until it returns true. A panic counts as false.
func (g *guarded) has(what func(error) bool) bool {
	for _, err := range g.wrapped {
		if attempt(func() bool { return what(err) }) {
			return true
		}
	}
	return false
}

// attempt returns what ask returns, false if it panics.
func attempt(ask func() bool) (yes bool) {
	defer func() { yes = recover() == nil && yes }()
	return ask()
}

// asks returns what the first of the errors that is an I says. A panic counts as false.
func asks[I any](wrapped []error, question func(I) bool) bool {
	for _, err := range wrapped {
		if e, ok := err.(I); ok {
			return attempt(func() bool { return question(e) })
		}
	}
	return false
}

// wrappedBy returns an error and all that it wraps, in the order of errors.Is: the error alone if that doesn't end.
// What an Unwrap that panics wraps is left out.
func wrappedBy(err error) []error {
	all := []error{err}
	var walk func(err error)
	walk = func(err error) {
		for _, inner := range unwrap(err) {
			if inner != nil && len(all) <= maxWrapped {
				all = append(all, inner)
				walk(inner)
			}
		}
	}
	walk(err)
	if len(all) > maxWrapped {
		return []error{err}
	}
	return all
}

// unwrap returns what an error wraps directly.
func unwrap(err error) (inner []error) {
	defer func() {
		if recover() != nil {
			inner = nil
		}
	}()
	switch e := err.(type) { //nolint:errorlint // this error alone is asked
	case interface{ Unwrap() error }:
		return []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		return e.Unwrap()
	}
	return nil
}

// describe returns the text of a user's error, and the stack if a method Error has panicked that isn't of a nil.
func describe(err error, wrapped []error) (text, stack string) {
	text, panicked := textOf(err)
	nothing := lastOf(wrapped[1:], isNil)
	switch {
	case isNil(err) && text != "":
		return fmt.Sprintf("returned a nil %T as an error, with the text %q: return a plain nil instead", err, text), ""
	case isNil(err):
		return fmt.Sprintf("returned a nil %T as an error: return a plain nil instead", err), ""
	case nothing != nil && panicked == nil:
		return fmt.Sprintf("%s (it wraps a nil %T as an error: return a plain nil instead)", text, nothing), ""
	case nothing != nil:
		return fmt.Sprintf("returned a %T that wraps a nil %T as an error: return a plain nil instead", err, nothing), ""
	case panicked == nil:
		return text, ""
	}
	subject := fmt.Sprintf("a %T", err)
	culprit := lastOf(wrapped[1:], func(err error) bool {
		_, p := textOf(err)
		return p != nil
	})
	if culprit != nil {
		subject += fmt.Sprintf(" that wraps a %T", culprit)
	}
	return fmt.Sprintf("returned %s whose method Error panics: %s", subject, panicked.Text), panicked.Stack
}

// lastOf returns the last error that is so, nil if none is.
func lastOf(errs []error, is func(error) bool) error {
	for _, err := range slices.Backward(errs) {
		if is(err) {
			return err
		}
	}
	return nil
}

// textOf returns the text of an error, or the panic of its method Error.
func textOf(err error) (text string, panicked *PanicError) {
	defer func() {
		if v := recover(); v != nil {
			text, panicked = "", Recovered(v)
		}
	}()
	return err.Error(), nil
}

// isNil says whether an error is nothing of its type: a nil pointer as a rule.
func isNil(err error) bool {
	switch v := reflect.ValueOf(err); v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return v.IsNil()
	}
	return false
}
