package testkit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/roperator/roperator/internal/engine/reconcile"
	"github.com/roperator/roperator/resource"
)

// quietPeriod is for how long nothing may happen before an operator counts as
// settled: longer than it takes from a watch event to the pass that follows.
const quietPeriod = 500 * time.Millisecond

// quietLooks is how often nothing must be found meanwhile. On a machine that has other things
// to do, a process may stand still for longer than the quietPeriod, and the operator with it:
// then it is seldom looked at.
const quietLooks = 10

// A quietness is how long nothing has happened. The zero value: something has just happened.
type quietness struct {
	since time.Time
	looks int // since then
}

// lasts notes a look at which nothing was found, and says whether it has been quiet for long
// enough.
func (q *quietness) lasts(now time.Time) bool {
	q.looks++
	return q.looks >= quietLooks && now.Sub(q.since) >= quietPeriod
}

// Settle returns nil when the operator has come to rest: it has observed
// whatever had been written before, by the Kit or by anyone else, and then for
// half a second no pass was running or due, and it wrote nothing, not even an
// Event. Passes that are due later (a Resync, an error's
// backoff) don't keep it from returning if there is that much time between
// them.
//
// When the timeout expires first it returns a *HotLoopError, which says what
// the operator doesn't get done with. It does so at once if the engine has
// found a conflict loop since the last Settle: the engine slows such a parent
// down, which must not be mistaken for rest. Any other error is about the
// operator itself: that it isn't running, or observes nothing.
func (k *Kit) Settle(limit time.Duration) error {
	engine, err := k.engine()
	if err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	ctx, cancel := timeout(limit)
	defer cancel()
	begin, start := k.activity(engine), time.Now()
	last, missing := begin, ""
	var quiet quietness
	err = wait.PollUntilContextCancel(ctx, pollInterval/2, true, func(ctx context.Context) (bool, error) {
		if ended := k.op.ended(); ended != nil {
			return false, fmt.Errorf("the operator has %w", ended)
		}
		now := k.activity(engine)
		if now.loops > k.op.loopsTold {
			return true, nil
		}
		var err error
		if missing, err = k.unobserved(ctx); err != nil {
			return false, err
		}
		switch {
		case missing != "" || now != last || now.Running > 0 || now.Due > 0 || now.Events > 0:
			last, quiet = now, quietness{}
			return false, nil
		case quiet.since.IsZero():
			// On a machine that has other things to do, watch events come late,
			// so that an operator at rest may not have heard what it is to do.
			if missing, err = k.lag(engine); missing == "" && err == nil {
				quiet.since = time.Now()
			}
			return false, err
		}
		return quiet.lasts(time.Now()), nil
	})
	found := k.untoldLoops(engine)
	switch {
	case len(found) > 0:
		return k.conflictLoop(engine, found[len(found)-1], begin, time.Since(start))
	case err == nil:
		k.comparePlans(true)
		return nil
	case !wait.Interrupted(err):
		return fmt.Errorf("settle: %w", err)
	case missing != "":
		return errors.Join(fmt.Errorf("settle: after %v the operator hasn't observed %s", limit, missing), k.op.manager.Ready())
	}
	return k.hotLoop(engine, begin, limit)
}

// untoldLoops returns the conflict loops that no Settle has told of yet.
func (k *Kit) untoldLoops(engine *reconcile.Engine) []reconcile.Loop {
	loops := engine.Loops()
	found := loops[min(k.op.loopsTold, len(loops)):]
	k.op.loopsTold = len(loops)
	return found
}

// Passes returns how many passes the operator has made over all its parents
// since it was started: those that called no handler, too, because a parent was
// paused, say.
func (k *Kit) Passes() int {
	k.t.Helper()
	engine, err := k.engine()
	if err != nil {
		k.t.Fatalf("testkit: passes: %v", err)
	}
	return int(engine.Activity().Passes)
}

// An activity is what Settle watches.
type activity struct {
	reconcile.Activity
	writes, loops int
}

func (k *Kit) activity(engine *reconcile.Engine) activity {
	return activity{Activity: engine.Activity(), writes: k.writes.count(), loops: len(engine.Loops())}
}

// An ownWrite is a write of the Kit that the operator has yet to observe.
type ownWrite struct {
	ref     reference
	uid     types.UID
	version string
	labels  labels.Set
	deleted bool
}

// ownWrites are what the Kit itself has written.
type ownWrites struct {
	mu struct {
		sync.Mutex
		pending []ownWrite  // oldest first
		parents []ownParent // all that it has created
	}
}

// An ownParent is a parent that the Kit has created.
type ownParent struct {
	uid types.UID
	key types.NamespacedName
}

func (o *ownWrites) addParent(uid types.UID, key types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.parents = append(o.mu.parents, ownParent{uid, key})
}

func (o *ownWrites) parents() []ownParent {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.mu.parents)
}

// wrote notes a write that the operator should hear of.
func (k *Kit) wrote(ref reference, u *unstructured.Unstructured, deleted bool) {
	k.noteKinds(u)
	o := k.own
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.pending = append(o.mu.pending, ownWrite{
		ref: ref, uid: u.GetUID(), version: u.GetResourceVersion(), labels: u.GetLabels(), deleted: deleted,
	})
}

// unobserved describes the first of the Kit's writes that the operator's store
// doesn't reflect yet, and forgets those that it does. "" means all do.
func (k *Kit) unobserved(ctx context.Context) (string, error) {
	engine, err := k.engine()
	if err != nil {
		return "", err
	}
	o := k.own
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.mu.pending) > 0 {
		w := o.mu.pending[0]
		seen, err := k.observed(ctx, engine, w)
		if err != nil {
			return "", fmt.Errorf("%s: %w", w.ref, err)
		}
		if !seen && w.deleted {
			return "the deletion of " + w.ref.String(), nil
		}
		if !seen {
			return fmt.Sprintf("%s at resourceVersion %s", w.ref, w.version), nil
		}
		o.mu.pending = o.mu.pending[1:]
	}
	return "", nil
}

// observed says whether the store is at least as new as the write.
func (k *Kit) observed(ctx context.Context, engine *reconcile.Engine, w ownWrite) (bool, error) {
	watched, selected, err := k.selects(w.ref, w.labels)
	if err != nil || !watched {
		return err == nil, err
	}
	held, ok := engine.Observed(w.ref.typ, w.ref.key)
	if w.deleted {
		return !ok || held.UID() != w.uid || held.IsDeleting(), nil
	}
	if ok {
		return !older(held, w.version), nil
	}
	if !selected {
		return true, nil
	}
	// Not there: not yet, or no longer?
	live, err := w.ref.client.Get(ctx, w.ref.key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	_, selected, err = k.selects(w.ref, live.GetLabels())
	return live.GetUID() != w.uid || !selected, err
}

// older says whether r is of before the version. Versions that can't be
// compared are taken for newer: there is nothing to wait for.
func older(r *resource.Resource, version string) bool {
	return olderVersion(r.ResourceVersion(), version)
}

// olderVersion is older for the version of an object.
func olderVersion(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}

// selects says whether the operator watches where the object is, and whether
// the object's labels are such that its store holds it.
func (k *Kit) selects(ref reference, set labels.Set) (watched, selected bool, err error) {
	if ref.key.Namespace != "" && !k.clusterScoped && ref.key.Namespace != k.Namespace {
		return false, false, nil
	}
	if ref.typ == k.config.Parent {
		selector, err := labels.Parse(k.config.ParentSelector)
		return true, err == nil && selector.Matches(set), err
	}
	for _, child := range k.config.Children {
		if child.Type == ref.typ {
			return true, set.Has(k.config.TrackingLabel) && set[k.config.OwnershipLabel] == k.config.Name, nil
		}
	}
	return false, false, nil
}
