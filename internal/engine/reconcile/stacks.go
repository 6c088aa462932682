package reconcile

import (
	"runtime"
	"strings"

	"github.com/roperator/roperator/internal/engine/observe"
)

const (
	// maxStacks bounds the stacks of all goroutines that are looked through, and maxStack
	// what is shown of the stack of one, in bytes.
	maxStacks = 16 << 20
	maxStack  = 4 << 10

	// startedByAwait is in the last function of a stack that await has started, and
	// calledByAsk begins the line of the function that calls the handler.
	startedByAwait = "/engine/reconcile.await"
	calledByAsk    = "/engine/reconcile.(*answer"
)

// goroutineNumber returns the number of the goroutine that calls, as stacks have it.
func goroutineNumber() string {
	var buf [64]byte
	text := string(buf[:runtime.Stack(buf[:], false)])
	number, _, _ := strings.Cut(strings.TrimPrefix(text, "goroutine "), " ")
	return number
}

// allStacks returns the stacks of all goroutines, or as many as fit into maxStacks. The
// program stands still meanwhile: it is for what happens rarely.
func allStacks() string {
	for size := 256 << 10; ; size *= 4 {
		buf := make([]byte, min(size, maxStacks))
		if n := runtime.Stack(buf, true); n < len(buf) || size >= maxStacks {
			return string(buf[:n])
		}
	}
}

// handlerStacks returns where the calls of the handler are that await has started, by the
// number of the worker that waits for the call. The frames of the engine are left out, and
// so is what is too long. Stacks show addresses, and no object's content.
func handlerStacks(all string) map[string]string {
	out := map[string]string{}
	for stack := range strings.SplitSeq(all, "\n\n") {
		at := strings.LastIndex(stack, "\ncreated by ")
		if at < 0 || !strings.Contains(stack[at:], startedByAwait) {
			continue
		}
		started, _, _ := strings.Cut(stack[at+1:], "\n")
		_, worker, ok := strings.Cut(started, " in goroutine ")
		if !ok {
			continue
		}
		if theirs, _, ok := strings.Cut(stack, calledByAsk); ok {
			at = strings.LastIndex(theirs, "\n")
		}
		out[worker] = observe.Shorten(stack[:max(at, 0)], maxStack)
	}
	return out
}
