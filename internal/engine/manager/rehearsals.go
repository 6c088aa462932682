package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/dryrun"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/reconcile"
	"github.com/roperator/roperator/internal/guard"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/internal/recording"
)

const (
	// maxRehearsals is how many rehearsals may be under way at once. One whose handler never returns
	// keeps its place.
	maxRehearsals = 4
	// explainTimeout bounds one look at one parent, planTimeout a plan of all.
	explainTimeout = 20 * time.Second
	planTimeout    = 30 * time.Minute
)

// The rehearsals are what the window has the operators' handlers and the API server tell: explanations, plans,
// and calls that are recorded. Nothing is written by them. A handler may not heed the end of its context: nobody
// waits for it then, but it keeps its place, so that only so many calls can be left behind.
type rehearsals struct {
	places chan struct{}
	log    *slog.Logger
}

func newRehearsals(log *slog.Logger) rehearsals {
	return rehearsals{make(chan struct{}, maxRehearsals), log}
}

// errBusy says that there is no place for another rehearsal.
var errBusy = fmt.Errorf("%d looks at parents are under way, or their handlers don't return; try again later", maxRehearsals)

// errOverdue is the cause of the end of a rehearsal that took too long.
var errOverdue = errors.New("took too long")

// run calls do in a goroutine of its own, and returns what it returns, or an error if it doesn't within the
// timeout or ctx ends before. A panic is an error. The goroutine ends with the call of do.
func (r rehearsals) run(ctx context.Context, timeout time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errOverdue)
	defer cancel()
	select {
	case r.places <- struct{}{}:
	default:
		return errBusy
	}
	done := make(chan error, 1) // with room for the answer that nobody awaits any more
	go func() {
		defer func() { <-r.places }()
		defer func() {
			if v := recover(); v != nil {
				panicked := guard.Recovered(v)
				done <- fmt.Errorf("%w; the log has its stack", panicked)
				r.log.ErrorContext(ctx, "a look through the window panicked", "panic", panicked.Text, "stack", panicked.Stack)
			}
		}()
		done <- do(ctx)
	}()
	select {
	case err := <-done:
		if ctx.Err() != nil && errors.Is(context.Cause(ctx), errOverdue) {
			return fmt.Errorf("no answer within %v: %w", timeout, errors.Join(errOverdue, err))
		}
		return err
	case <-ctx.Done():
		return fmt.Errorf("no answer within %v: %w", timeout, context.Cause(ctx))
	}
}

// twin returns an operator that is the same and writes nothing, logs nothing, and counts for itself.
func (o *operator) twin() *operator {
	cfg := o.cfg
	cfg.DryRun = true
	return &operator{
		cfg: cfg, handler: o.handler, departedWithin: o.departedWithin, log: slog.New(slog.DiscardHandler),
		opts: &Options{Metrics: observe.NewRegistry(nil), RESTConfig: o.opts.RESTConfig},
	}
}

// recordNow calls the handler for a parent as e, the engine, has it (nil: none runs), and returns the call in the form of a
// recording. The call's context is that of a plan.
func (o *operator) recordNow(ctx context.Context, e *reconcile.Engine, parent types.NamespacedName) ([][]byte, error) {
	if e == nil {
		return nil, errNotRunning
	}
	ref := object.Ref{Type: o.cfg.Parent, Key: parent}
	req, ok := e.Snapshot(parent)
	switch {
	case !ok:
		return nil, fmt.Errorf("%s: not found", ref)
	case req.Parent.IsDeleting():
		return nil, fmt.Errorf("%s: is being deleted, and no call of Finalize has been seen yet: it can't be made for a recording alone", ref)
	}
	call, err := recording.Make(dryrun.Mark(ctx), o.handler, recording.KindSync, req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ref, err)
	}
	line, err := o.tap.Encode(call.Kind, call.Request, call.Response, call.Err)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ref, err)
	}
	return [][]byte{line}, nil
}
