package client

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

const (
	// maxWarnings bounds how many distinct warnings about one type are told of within
	// warningPeriod, and how many more times they are, of other objects.
	maxWarnings = 100
	// warningPeriod is how long no more warnings about a type are told of after there
	// were too many.
	warningPeriod = time.Hour
	// maxWarning is how much of a warning's text is told, in bytes.
	maxWarning = 1 << 10
)

// A Listener is told of the warnings about an object that it has written. Its methods
// are called concurrently.
type Listener interface {
	// Logger returns the log in which the warnings are to be.
	Logger() *slog.Logger
	// Warned is called with the text of a warning that the log has, too.
	Warned(about object.Ref, text string)
}

// A listening is who is told of warnings, and which object requests are about.
type listening struct {
	listener Listener
	about    object.Ref
}

// listeningKey is the key of a *listening in a context.
type listeningKey struct{}

// WarningsTo returns a context for requests about an object, perhaps under another name in
// a dry run. Warnings that come with their answers are told to listener; nil: they are
// logged alone.
func WarningsTo(ctx context.Context, listener Listener, about object.Ref) context.Context {
	return context.WithValue(ctx, listeningKey{}, &listening{listener, about})
}

// The warnings are those of the API server that were told of. Webhooks write them, so
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
	texts map[string]struct{} // maxWarnings at most
	// told has what was logged, 2*maxWarnings at most, and whether the listener was told.
	told map[objectWarning]bool
	// resume is when all of them are forgotten; zero while there weren't too many.
	resume  time.Time
	skipped int // how many weren't told of for that
}

func newTypeWarnings() *typeWarnings {
	return &typeWarnings{texts: map[string]struct{}{}, told: map[objectWarning]bool{}}
}

// An objectWarning is a warning about an object.
type objectWarning struct {
	about types.NamespacedName
	text  string
}

// A verdict says what to do about a warning.
type verdict struct {
	log     bool // log it
	tell    bool // tell the listener
	pause   bool // log that no more are told of for warningPeriod
	skipped int  // log that so many weren't told of before
}

// judge says what to do about a warning, which counts as told of then if it is to be. Each
// text is logged once for each object, and told to the listener once if the object may have
// been changed (persisted). A new text is told of, however many objects another one is about.
func (w *warnings) judge(t resource.Type, of objectWarning, persisted bool, now time.Time) verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.byType == nil {
		w.mu.byType = map[resource.Type]*typeWarnings{}
	}
	all := w.mu.byType[t]
	if all == nil {
		all = newTypeWarnings()
		w.mu.byType[t] = all
	}
	v := verdict{}
	if !all.resume.IsZero() && !now.Before(all.resume) {
		v.skipped = all.skipped
		*all = *newTypeWarnings()
	}
	_, known := all.texts[of.text]
	heard, told := all.told[of]
	room := len(all.texts) < maxWarnings
	if known {
		room = len(all.told)-len(all.texts) < maxWarnings
	}
	switch {
	case told && persisted && !heard:
		all.told[of] = true
		v.tell = true
	case told:
	case room:
		of.text = strings.Clone(of.text)
		of.about = types.NamespacedName{Namespace: strings.Clone(of.about.Namespace), Name: strings.Clone(of.about.Name)}
		all.texts[of.text], all.told[of] = struct{}{}, persisted
		v.log, v.tell = true, persisted
	default:
		v.pause = all.resume.IsZero()
		if v.pause {
			all.resume = now.Add(warningPeriod)
		}
		all.skipped++
	}
	return v
}

// warn tells of the warnings that came with the answer to a request, which asked for what:
// it logs each text once per object, shortened, and tells the listener, unless the request
// changes nothing: an operator that has settled tells of nothing. Of a Secret only
// texts of a fixed vocabulary are told. Of too many warnings about a type it tells no more
// than 2*maxWarnings within warningPeriod.
func (c *Client) warn(ctx context.Context, k *catalog.Kind, what apierror.Request, res rest.Result, persists bool) {
	answered := res.Warnings()
	if len(answered) == 0 {
		return
	}
	to, _ := ctx.Value(listeningKey{}).(*listening)
	if to == nil {
		to = &listening{about: object.Ref{Type: k.Type, Key: types.NamespacedName{Name: what.Name}}}
	}
	log := c.log
	if to.listener != nil {
		log = to.listener.Logger()
	}
	for _, w := range answered {
		text := observe.Shorten(w.Text, maxWarning)
		if k.Secret() {
			text = apierror.RedactedWarning(w.Text, what)
		}
		v := c.warnings.judge(k.Type, objectWarning{to.about.Key, text}, persists, time.Now())
		about := slog.String("type", k.Type.String())
		if v.skipped > 0 {
			c.log.WarnContext(ctx, "API server warned about requests too often, and not all of it was logged", about, slog.Int("unlogged", v.skipped))
		}
		if v.log {
			log.WarnContext(ctx, "API server warned about a request", about, slog.String("object", object.KeyText(to.about.Key)), slog.String("warning", text))
		}
		if v.tell && to.listener != nil {
			to.listener.Warned(to.about, text)
		}
		if v.pause {
			c.log.WarnContext(ctx, "API server warns about requests too often: not all of its warnings are logged for a while", about, slog.Duration("for", warningPeriod), slog.Int("limit", maxWarnings))
		}
	}
}
