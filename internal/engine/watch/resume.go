package watch

import (
	"context"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// A watch that is lost is resumed at the last resourceVersion. Objects are listed again only
// if the API server has forgotten that version (410), serves the type no longer (404), or forbids the watch.
// The Reflector by itself would list also after a refused TLS handshake, say, or after
// a watch that was lost at once.

// A patientClock lets no watch that resumes an earlier one seem so short that the Reflector lists anew.
type patientClock struct {
	clock.RealClock
	resumes *atomic.Bool // the present watch does
}

// Since returns how much time has passed since t.
func (c patientClock) Since(t time.Time) time.Duration {
	passed := c.RealClock.Since(t)
	if c.resumes.Load() {
		return max(passed, shortWatch)
	}
	return passed
}

var _ clock.WithTicker = patientClock{}

// asks notes that the Reflector asks for a list, and has it ask for the newest one there is: the one at the
// resourceVersion of the last list may lack an own write.
func (w *Watcher) asks(opts *metav1.ListOptions) {
	if opts.Continue != "" {
		return // a further page
	}
	if w.Listing != nil {
		w.Listing()
	}
	opts.ResourceVersion = ""
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.since = w.known.Newest()
}

// watch serves the Reflector. If the watch resumes an earlier one, it tries until that succeeds,
// objects have to be listed again, or ctx ends.
func (w *Watcher) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.LabelSelector, opts.FieldSelector = w.Selector, w.Fields
	short, streams := w.noteEnd(), opts.SendInitialEvents != nil
	w.resumes.Store(!streams)
	if streams {
		w.asks(&opts)
		return w.begin(ctx, opts)
	}
	if short && !sleep(ctx, w.delay()) {
		return nil, ctx.Err()
	}
	for backoff := retries(); ; {
		events, err := w.begin(ctx, opts)
		if err == nil || needsList(err) || !sleep(ctx, backoff.Step()) {
			return events, err
		}
	}
}

// needsList reports whether a watch can't be resumed because of an error.
func needsList(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsInvalid(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err)
}

// begin begins a watch, and notes that it is back.
func (w *Watcher) begin(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	begin := time.Now()
	events, err := w.Client.Watch(ctx, w.Kind, w.Namespace, opts)
	if err != nil {
		return nil, w.failed(ctx, "watch", err)
	}
	w.mu.Lock()
	w.mu.begun = begin
	if opts.TimeoutSeconds != nil {
		w.mu.until = begin.Add(time.Duration(*opts.TimeoutSeconds) * time.Second)
	}
	if w.mu.broken != nil {
		w.Log.InfoContext(ctx, "watch is back", "type", w.Kind.Type.String())
	}
	w.hear()
	w.mu.established, w.mu.broken, w.mu.lacking = true, nil, false
	w.mu.Unlock()
	if w.Established != nil {
		w.Established()
	}
	return events, nil
}

// noteEnd notes that the last watch is over, if there was one. If the watch had time left, its
// connection was lost, and Interrupted is called. short says that this was at once.
func (w *Watcher) noteEnd() (short bool) {
	w.mu.Lock()
	early := time.Now().Before(w.mu.until)
	short = early && time.Since(w.mu.begun) < shortWatch
	w.mu.until = time.Time{}
	w.mu.Unlock()
	if !early {
		return false
	}
	w.Client.Storage().ConnectionLost()
	if w.Interrupted != nil {
		w.Interrupted(false)
	}
	return short
}

// sleep waits, and returns false if ctx ends meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

var _ cache.ReflectorStore = (*Watcher)(nil)
