package client

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/resource"
)

const (
	// maxWarnings bounds how many distinct warnings about one type are logged within
	// warningPeriod, and remembered.
	maxWarnings = 100
	// warningPeriod is how long no more warnings about a type are logged after there
	// were too many.
	warningPeriod = time.Hour
	// maxWarning is how much of a warning's text is logged, in bytes.
	maxWarning = 1 << 10
)

// The warnings are those of the API server that were logged. Webhooks write them, so
// that their texts, and how many of them differ, may be anything. The zero value has
// none. It is safe for concurrent use.
type warnings struct {
	mu struct {
		sync.Mutex
		byType map[resource.Type]*typeWarnings
	}
}

// typeWarnings are the warnings about one type.
type typeWarnings struct {
	logged map[string]struct{} // their texts
	// resume is when the first of them are forgotten; zero while there weren't too many.
	resume  time.Time
	skipped int // how many weren't logged for that
}

// A verdict says what to do about a warning.
type verdict struct {
	log     bool // log it
	pause   bool // log that no more are logged for warningPeriod
	skipped int  // log that so many weren't logged before
}

// judge says what to do about a warning, which counts as logged then if it is to be.
func (w *warnings) judge(t resource.Type, text string, now time.Time) verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.byType == nil {
		w.mu.byType = map[resource.Type]*typeWarnings{}
	}
	of := w.mu.byType[t]
	if of == nil {
		of = &typeWarnings{logged: map[string]struct{}{}}
		w.mu.byType[t] = of
	}
	v := verdict{}
	if !of.resume.IsZero() && !now.Before(of.resume) {
		v.skipped = of.skipped
		*of = typeWarnings{logged: map[string]struct{}{}}
	}
	_, known := of.logged[text]
	switch {
	case known:
	case len(of.logged) < maxWarnings:
		of.logged[text] = struct{}{}
		v.log = true
	default:
		v.pause = of.resume.IsZero()
		if v.pause {
			of.resume = now.Add(warningPeriod)
		}
		of.skipped++
	}
	return v
}

// warn logs the warnings that came with an answer: each text once per type, shortened,
// and no text about a Secret. Of too many distinct ones about a type it logs no more
// than maxWarnings within warningPeriod.
func (c *Client) warn(ctx context.Context, k *catalog.Kind, res rest.Result) {
	for _, w := range res.Warnings() {
		text := observe.Shorten(w.Text, maxWarning)
		if k.Secret() {
			text = "(hidden, since it may quote a Secret)"
		}
		v := c.warnings.judge(k.Type, text, time.Now())
		about := slog.String("type", k.Type.String())
		if v.skipped > 0 {
			c.log.WarnContext(ctx, "API server warned about requests too often, and not all of it was logged", about, slog.Int("unlogged", v.skipped))
		}
		if v.log {
			c.log.WarnContext(ctx, "API server warned about a request", about, slog.String("warning", text))
		}
		if v.pause {
			c.log.WarnContext(ctx, "API server warns about requests too often: new warnings aren't logged for a while", about, slog.Duration("for", warningPeriod), slog.Int("distinct", maxWarnings))
		}
	}
}
