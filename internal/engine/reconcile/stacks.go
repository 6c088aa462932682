package reconcile

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/pprof"
	"strings"

	"github.com/roperator/roperator/internal/engine/observe"
)

const (
	// maxStack bounds what is shown of a stack, in bytes.
	maxStack = 4 << 10

	// workerLabel is the pprof label of a worker, and of the goroutines that are started for its reconciliation: the
	// call of the handler, and what that starts. A profile that a user takes has it, too.
	workerLabel = "roperator-worker"

	// calledByAsk is in the name of the function that calls the handler.
	calledByAsk = "/engine/reconcile.(*answer"
)

// asWorker labels the goroutine that calls as the n-th worker of the engine. It returns ctx with the label, and the
// label's value, which no other worker of the process has.
func (e *Engine) asWorker(ctx context.Context, n int) (labelled context.Context, worker string) {
	worker = fmt.Sprintf("%s-%d-%08x", e.Config.Name, n, rand.Uint32())
	labelled = pprof.WithLabels(ctx, pprof.Labels(workerLabel, worker))
	pprof.SetGoroutineLabels(labelled)
	return labelled, worker
}

// goroutines returns the stacks of all goroutines with their labels, in the text format of pprof.
func goroutines() string {
	var text strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&text, 1) // a Builder returns no error
	return text.String()
}

// handlerStacks returns where the calls of the handler are, by the worker that waits for the call. all is what
// goroutines returns. The frames of the engine are left out, and so is what is too long. Stacks show no
// object's content.
func handlerStacks(all string) map[string]string {
	out := map[string]string{}
	for stack := range strings.SplitSeq(all, "\n\n") {
		theirs, _, calls := strings.Cut(stack, calledByAsk)
		_, labels, labelled := strings.Cut(theirs, `"`+workerLabel+`":"`)
		if !calls || !labelled {
			continue
		}
		worker, frames, _ := strings.Cut(labels, `"`)
		frames = frames[strings.Index(frames, "\n")+1 : strings.LastIndex(frames, "\n")+1]
		out[worker] = observe.Shorten(strings.TrimSuffix(frames, "\n"), maxStack)
	}
	return out
}
