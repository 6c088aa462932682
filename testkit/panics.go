package testkit

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"

	"github.com/roperator/roperator/internal/engine/reconcile"
)

// formatWithStack returns the text of an error of a pass, and the stack below it if the
// handler panicked.
func formatWithStack(err error) string {
	failed, ok := errors.AsType[*reconcile.HandlerError](err)
	if !ok || failed.Stack == "" {
		return err.Error()
	}
	return err.Error() + "\n" + indent(ownFrames(failed.Stack))
}

// ownFrames returns those lines of a panic's stack that are about the handler: what is between
// the panic and the call of the handler.
func ownFrames(stack string) string {
	lines := strings.Split(strings.TrimRight(stack, "\n"), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "panic(") && i+2 < len(lines) {
			lines = lines[i+2:] // with the place of the panic
			break
		}
	}
	for i, line := range lines {
		if strings.HasPrefix(line, "github.com/roperator/roperator/internal/engine/reconcile.") || strings.HasPrefix(line, "github.com/roperator/roperator/internal/guard.") || strings.HasPrefix(line, "github.com/roperator/roperator/testkit.replay(") {
			lines = lines[:i]
			break
		}
	}
	return strings.Join(lines, "\n")
}

func indent(text string) string { return "    " + strings.ReplaceAll(text, "\n", "\n    ") }

// A stackHandler writes the stack of a panic below the line about it, where a text handler
// would make one long line of it.
type stackHandler struct {
	slog.Handler
	out io.Writer
}

const stackKey = "stack"

// Handle writes the record as it is unless it has a stack.
func (h stackHandler) Handle(ctx context.Context, r slog.Record) error {
	stack := ""
	kept := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == stackKey && a.Value.Kind() == slog.KindString {
			stack = a.Value.String()
		} else {
			kept.AddAttrs(a)
		}
		return true
	})
	if stack == "" {
		return h.Handler.Handle(ctx, r)
	}
	err := h.Handler.Handle(ctx, kept)
	_, writeErr := io.WriteString(h.out, indent(ownFrames(stack))+"\n")
	return errors.Join(err, writeErr)
}

// WithAttrs keeps the stack readable in what it returns.
func (h stackHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return stackHandler{h.Handler.WithAttrs(attrs), h.out}
}

// WithGroup keeps the stack readable in what it returns.
func (h stackHandler) WithGroup(name string) slog.Handler {
	return stackHandler{h.Handler.WithGroup(name), h.out}
}
