package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

const (
	// longPass is how long a pass may be under way without being told of.
	longPass = time.Minute
	// overduePass is how long a pass may be under way before the operator isn't ready:
	// its worker may be lost for good.
	overduePass = 10 * time.Minute
	// tellEvery is the shortest time between two looks at what the log has to tell, for which the stacks of
	// all goroutines are taken.
	tellEvery = time.Second
)

// A passUnderWay is what other goroutines than its worker know of a reconciliation that has begun and
// not ended: values that never change, copies, and what is safe for concurrent use. It has no way to
// the pass, which belongs to its worker alone.
type passUnderWay struct {
	parent *resource.Resource // as it was when the pass began
	id     *passID            // nil: the parent is released
	began  time.Time
	call   string    // the handler's method that is being called; empty: none is
	worker string    // the worker that makes the reconciliation: see asWorker
	tellAt time.Time // when the log is to tell of it; zero: longPass after it began
}

// text says which pass it is, how long it has been under way, and where.
func (u passUnderWay) text(now time.Time) string {
	where := ""
	if u.call != "" {
		where = ", and the handler's " + u.call + " hasn't returned"
	}
	return fmt.Sprintf("%s: its pass has been under way for %v%s", object.RefOf(u.parent), now.Sub(u.began).Round(time.Second), where)
}

// identity returns the arguments that name the pass in a line of the log.
func (u passUnderWay) identity() []any {
	if u.id == nil {
		return []any{"namespace", u.parent.Namespace(), "name", u.parent.Name()}
	}
	return identityOf(u.id, u.parent, 0)
}

// passesUnderWay are the passes of all workers that have begun and not ended. It is
// safe for concurrent use.
type passesUnderWay struct {
	mu struct {
		sync.Mutex
		byParent map[types.UID]passUnderWay // a parent has one pass at a time
	}
}

// begin notes that a worker begins a reconciliation of a parent. id is nil if the parent is only
// released. The caller must call end.
func (u *passesUnderWay) begin(parent *resource.Resource, id *passID, worker string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.mu.byParent == nil {
		u.mu.byParent = map[types.UID]passUnderWay{}
	}
	u.mu.byParent[parent.UID()] = passUnderWay{parent: parent, id: id, worker: worker, began: time.Now()}
}

// calls notes which method of the handler the pass over a parent calls; empty: the call
// has ended. It does nothing for a pass that hasn't begun by begin, as those of a plan.
func (u *passesUnderWay) calls(parent types.UID, method string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if each, ok := u.mu.byParent[parent]; ok {
		each.call = method
		u.mu.byParent[parent] = each
	}
}

// end notes that the pass over a parent has ended.
func (u *passesUnderWay) end(parent types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.mu.byParent, parent)
}

// of returns the pass over a parent that is under way, false if none is.
func (u *passesUnderWay) of(parent types.UID) (passUnderWay, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	each, ok := u.mu.byParent[parent]
	return each, ok
}

// since returns the passes that began at this time or before, the oldest first.
func (u *passesUnderWay) since(latest time.Time) []passUnderWay {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []passUnderWay
	for _, each := range u.mu.byParent {
		if !each.began.After(latest) {
			out = append(out, each)
		}
	}
	slices.SortFunc(out, func(a, b passUnderWay) int {
		return cmp.Or(a.began.Compare(b.began), object.Compare(a.parent, b.parent))
	})
	return out
}

// tell returns the passes that the log is to tell of now, the oldest first. It is to tell
// of each again when it has taken twice the time.
func (u *passesUnderWay) tell(now time.Time) []passUnderWay {
	due := slices.DeleteFunc(u.since(now.Add(-longPass)), func(each passUnderWay) bool { return each.tellAt.After(now) })
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, told := range due {
		if each, ok := u.mu.byParent[told.parent.UID()]; ok && each.began.Equal(told.began) {
			each.tellAt = each.began.Add(2 * now.Sub(each.began))
			u.mu.byParent[told.parent.UID()] = each
		}
	}
	return due
}

// next returns how long to wait until tell may return something: longPass at most, since
// no pass that begins later is due before.
func (u *passesUnderWay) next(now time.Time) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	wait := longPass
	for _, each := range u.mu.byParent {
		at := each.tellAt
		if at.IsZero() {
			at = each.began.Add(longPass)
		}
		wait = min(wait, max(0, at.Sub(now)))
	}
	return wait
}

// longest returns how long the oldest pass has been under way, zero if there is none, and
// how many have been for longPass or longer.
func (u *passesUnderWay) longest(now time.Time) (oldest time.Duration, long int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, each := range u.mu.byParent {
		taken := now.Sub(each.began)
		oldest = max(oldest, taken)
		if taken >= longPass {
			long++
		}
	}
	return oldest, long
}

// tellLongPasses logs which passes take long, until done is closed: after longPass, and
// again whenever the time has doubled. It also logs when passes that take long have come
// to keep every worker.
func (e *Engine) tellLongPasses(ctx context.Context, done <-chan struct{}) {
	timer := time.NewTimer(longPass)
	defer timer.Stop()
	blocked := false // no worker was left the last time
	for {
		select {
		case <-done:
			return
		case <-timer.C:
		}
		now := time.Now()
		e.tellLongPassesOf(ctx, e.passes.tell(now), now)
		_, long := e.passes.longest(now)
		if all := long >= e.Config.MaxConcurrentSyncs; all != blocked {
			blocked = all
			if all {
				e.log.ErrorContext(ctx, "every worker makes a pass that takes long: no other parent is served", "workers", long)
			}
		}
		timer.Reset(max(e.passes.next(time.Now()), tellEvery))
	}
}

// tellLongPassesOf logs of passes how long they have been under way, and where the handler
// is.
func (e *Engine) tellLongPassesOf(ctx context.Context, passes []passUnderWay, now time.Time) {
	var stacks map[string]string
	if slices.ContainsFunc(passes, func(u passUnderWay) bool { return u.call != "" }) {
		stacks = handlerStacks(goroutines())
	}
	for _, each := range passes {
		e.tellLongPass(ctx, each, now, stacks[each.worker])
	}
}

// tellLongPass logs how long a pass has been under way. stack is where the handler is.
func (e *Engine) tellLongPass(ctx context.Context, u passUnderWay, now time.Time, stack string) {
	taken := now.Sub(u.began)
	args := append(u.identity(), "duration", taken.Round(time.Second))
	if u.call != "" {
		args = append(args, "calls", u.call, "stack", stack)
	}
	level := slog.LevelWarn
	if taken >= overduePass {
		level = slog.LevelError
	}
	e.log.Log(ctx, level, "pass takes long", args...)
}

// Overdue returns an error that names the parents whose passes have been under way for ten
// minutes or longer, MaxListed of them at most; nil if there are none.
func (e *Engine) Overdue() error {
	now := time.Now()
	var errs []error
	for _, each := range e.passes.since(now.Add(-overduePass)) {
		errs = append(errs, errors.New(each.text(now)))
	}
	return apierror.Join(errs)
}
