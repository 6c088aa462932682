package reconcile

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// maxError bounds the text of a failure in a line of the log and in what is remembered of a parent, in
// bytes.
const maxError = 8 << 10

// bounded returns err, or an error with the first part of its text if that is longer than maxError.
func bounded(err error) error {
	if text := err.Error(); len(text) > maxError {
		return errors.New(observe.Shorten(text, maxError))
	}
	return err
}

// A countedError stands for several writes that are rejected for one reason.
type countedError struct {
	kind, verb string
	count      int
	err        error // of one of them
}

func (e *countedError) Error() string {
	return fmt.Sprintf("%s: %d not %s, since each that is tried is rejected: %v", e.kind, e.count, e.verb, e.err)
}

func (e *countedError) Unwrap() error { return e.err }

// uncounted returns the text of err without the counts of countedErrors, which change as children are written.
func uncounted(err error) string {
	text := err.Error()
	apierror.Each(err, func(err error) {
		if counted, ok := errors.AsType[*countedError](err); ok {
			same := *counted
			same.count = 0
			text = strings.Replace(text, counted.Error(), same.Error(), 1)
		}
	})
	return text
}

// A passID tells the log lines and the span of one reconciliation from those of the others. It is
// made when it is first asked for. Its methods are safe for concurrent use.
type passID struct {
	text atomic.Pointer[string] // is stored once
}

// String returns the identifier, and makes it if there is none yet.
func (id *passID) String() string {
	if id.text.Load() == nil {
		made := hex.EncodeToString(binary.BigEndian.AppendUint32(nil, rand.Uint32()))
		id.text.CompareAndSwap(nil, &made)
	}
	return *id.text.Load()
}

// told returns the identifier, "" if no line and no span has it.
func (id *passID) told() string {
	if text := id.text.Load(); text != nil {
		return *text
	}
	return ""
}

// identityOf returns the arguments that every line of a reconciliation has, with room for more of
// them. parent is the parent as the reconciliation has found it.
func identityOf(id *passID, parent *resource.Resource, room int) []any {
	return append(make([]any, 0, 6+room), "syncID", id.String(), "namespace", parent.Namespace(), "name", parent.Name())
}

// Logger returns the logger of the pass, which names the pass and its parent in
// each line. It is safe for concurrent use.
func (p *pass) Logger() *slog.Logger { return p.log.With(p.identity(0)...) }

// identity is identityOf for this reconciliation. It is safe for concurrent use.
func (p *pass) identity(room int) []any { return identityOf(&p.syncID, p.found, room) }

// summary returns the arguments of the line that ends a pass.
func (p *pass) summary(d schedule.Due, took time.Duration) []any {
	args := append(p.identity(10), "trigger", string(d.Trigger), "duration", took)
	if d.More > 0 {
		args = append(args, "moreTriggers", d.More)
	}
	if n := len(p.did); n > apierror.MaxListed {
		args = append(args, "did", p.did[:apierror.MaxListed], "didMore", n-apierror.MaxListed)
	} else if n > 0 {
		args = append(args, "did", p.did)
	}
	return args
}

// logPass logs how a pass ended. An error becomes an Event too, once until its
// text changes, of which the first maxError bytes count. Refusals may last: the log, too, has them once until their text changes. What
// such a pass has written is logged each time.
func (p *pass) logPass(ctx context.Context, d schedule.Due, err error, took time.Duration) {
	if err == nil {
		p.memory.Failed("", "")
	}
	switch {
	case err != nil:
		p.history.add(p.parent.Key(), err)
		said := bounded(err)
		level, args := slog.LevelError, append(p.summary(d, took), "error", said)
		if p.memory.Failed(said.Error(), observe.Shorten(uncounted(err), maxError)) {
			p.event(p.parent, observe.Warning, reasonOf(err, p.parent.IsDeleting()), said.Error())
		} else if apierror.OnlyRefusals(err) {
			if len(p.did) > 0 {
				p.log.InfoContext(ctx, "synced, but for what was refused before", args...)
				return
			}
			level = slog.LevelDebug
		}
		p.log.Log(ctx, level, "sync failed", args...)
	case len(p.did) > 0:
		if p.log.Enabled(ctx, slog.LevelInfo) {
			p.log.InfoContext(ctx, "synced", p.summary(d, took)...)
		}
	case p.log.Enabled(ctx, slog.LevelDebug):
		p.log.DebugContext(ctx, "nothing to do", p.summary(d, took)...)
	}
}

// logForeseen logs the changes that a dry run has foreseen: at level info if they
// differ from those of the parent's last pass, else at level debug.
func (p *pass) logForeseen(ctx context.Context) {
	if !p.Config.DryRun {
		return
	}
	level := slog.LevelDebug
	if p.memory.Foretell(jsonvalue.Sum(p.foreseen)) {
		level = slog.LevelInfo
	}
	for _, c := range p.foreseen {
		args := []any{"would", c.Verb, "child", object.Ref{Type: c.Type, Key: c.Object}.String(), "fields", fieldTexts(p.Types.Of(c.Type), c)}
		if c.Waits != "" {
			args = append(args, "first", c.Waits)
		}
		p.Logger().Log(ctx, level, "dry run", args...)
	}
}

// fieldTexts prints the fields of a change for a log line, each as
// "path: live -> desired", and at most MaxListed of them.
func fieldTexts(k *catalog.Kind, c plan.Change) []string {
	var out []string
	for _, f := range c.Fields {
		switch {
		case f.Path == "":
			continue
		case len(out) == apierror.MaxListed:
			return append(out, fmt.Sprintf("and %d more", len(c.Fields)-apierror.MaxListed))
		}
		out = append(out, fmt.Sprintf("%s: %s -> %s", f.Path, show(k, f.Live), show(k, f.Desired)))
	}
	return out
}
