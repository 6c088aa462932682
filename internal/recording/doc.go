// Package recording is the format of recordings of a handler's calls: what the handler was
// asked and what it answered, a line of JSON each. testkit.Replay makes a regression test
// of one. The package has no test code in it, so that a production binary can write what
// testkit reads:
//
//	tap := recording.NewTap(20, 4<<20)
//	h = tap.Handler(h) // which the engine calls
//
//	release := tap.Open(parent) // somebody looks at the parent
//	defer release()
//	err := tap.Write(file, tap.Calls(parent))
//
// The package owns the format, how requests and answers are encoded, and what isn't told
// of them: see [Hidden]. A [Tap] owns the lines that it keeps, a [Writer] the order of its
// lines; nothing else has state.
//
// A handler's own words are told as they are: its errors, its Events and its status. So
// are the values of what isn't a Secret.
//
// The package starts no goroutine, and goroutines may call it concurrently. It makes no
// request and writes no log.
package recording
