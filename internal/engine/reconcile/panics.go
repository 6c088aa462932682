package reconcile

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/roperator/roperator/internal/guard"
)

// What a handler made may panic wherever its methods are called: an error, a status, a child. The error of a call is made
// safe right after the call (see guard.Error), and all else that touches such values has a recover: the call
// itself, the reconciliation, what follows it, a plan, an explanation, and each goroutine of theirs.

// recovered turns a panic into an error, and logs its stack. It is deferred. args are those of the line.
func (e *Engine) recovered(ctx context.Context, err *error, msg string, args ...any) {
	if v := recover(); v != nil {
		panicked := guard.Recovered(v)
		*err = panicked
		logPanic(ctx, e.log, msg, panicked, args...)
	}
}

// encodeStatus returns a status of the handler as JSON. A panic is an error, with its stack in the log.
func (p *pass) encodeStatus(status any) (raw []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			panicked := guard.Recovered(v)
			raw, err = nil, panicked
			p.logPanic(context.Background(), "the handler's status panicked", panicked)
		}
	}()
	raw, err = json.Marshal(status)
	return raw, guard.Error(err)
}

// logPanic logs a panic of this reconciliation.
func (p *pass) logPanic(ctx context.Context, msg string, panicked *guard.PanicError) {
	logPanic(ctx, p.log, msg, panicked, p.identity(4)...)
}

// logPanic logs a panic that was recovered. It never panics, whatever the logger does.
func logPanic(ctx context.Context, log *slog.Logger, msg string, panicked *guard.PanicError, args ...any) {
	defer func() { _ = recover() }()
	log.ErrorContext(ctx, msg, append(args, "panic", panicked.Text, "stack", panicked.Stack)...) //nolint:sloglint // it is a constant of the caller
}
