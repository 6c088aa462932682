package testkit

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/recording"
)

// Record returns h, of which every call is written to w: a line of JSON with
// the request and what was returned. [Replay] makes a regression test of them.
// The values of Secrets, and kubectl's last-applied annotations, are replaced
// by texts from which nobody can find them out, equal ones by equal texts.
//
// Calls may be concurrent; w isn't written to concurrently, and not buffered.
// If it can't be written to, that is logged once, and h goes on unrecorded.
func Record(w io.Writer, h handler.Handler) handler.Handler {
	out := recording.NewWriter(w)
	return recording.Watch(h, nil, func(ctx context.Context, c recording.Call) {
		if err := out.Call(c); err != nil && !errors.Is(err, recording.ErrFailed) {
			slog.Default().WarnContext(ctx, "handler call not recorded", "call", string(c.Kind), "error", err)
		}
	})
}
