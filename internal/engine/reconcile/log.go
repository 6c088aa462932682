package reconcile

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/object"
)

// A passID tells the log lines of one pass from those of the others. It is made
// when the first line is written.
type passID struct {
	once sync.Once
	text string
}

// id returns the identifier of the pass in its log lines and its span. It is
// safe for concurrent use.
func (p *pass) id() string {
	p.syncID.once.Do(func() {
		p.syncID.text = hex.EncodeToString(binary.BigEndian.AppendUint32(nil, rand.Uint32()))
	})
	return p.syncID.text
}

// Logger returns the logger of the pass, which names the pass and its parent in
// each line. It is safe for concurrent use.
func (p *pass) Logger() *slog.Logger { return p.log.With(p.identity(0)...) }

// identity returns the arguments that every line of the pass has, with room for
// more of them.
func (p *pass) identity(room int) []any {
	return append(make([]any, 0, 6+room), "syncID", p.id(), "namespace", p.req.Parent.Namespace(), "name", p.req.Parent.Name())
}

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
// text changes. Refusals may last: the log, too, has them once until their text changes. What
// such a pass has written is logged each time.
func (p *pass) logPass(ctx context.Context, d schedule.Due, err error, took time.Duration) {
	if err == nil {
		p.memory.Failed("")
	}
	switch {
	case err != nil:
		p.history.add(p.parent.Key(), err)
		level, args := slog.LevelError, append(p.summary(d, took), "error", err)
		if p.memory.Failed(err.Error()) {
			p.event(p.parent, observe.Warning, reasonOf(err, p.parent.IsDeleting()), err.Error())
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
