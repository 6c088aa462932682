// Package guard makes errors and panics of a user's code safe to look at. Every method of such a
// value may panic: that of a nil pointer that was returned as an error does so as a rule.
//
//	resp, err := h.Sync(ctx, req)
//	err = guard.Error(err) // at once, where a panic is still recovered and the goroutine is the handler's
//
// What Error returns has the text of the error, and what the engine asks of it. It still finds by
// [errors.Is] and [errors.As] what the user's error is or wraps, whose methods it calls with a recover.
//
// Two things no guard can keep from ending the process: a method that recurses without end, and one
// that accesses a map concurrently.
//
// The package imports nothing of this module.
package guard
