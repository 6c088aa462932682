package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
)

const (
	// maxWritesPerPass and maxWrites bound how many writes run at once, of
	// one pass and of all.
	maxWritesPerPass = 16
	maxWrites        = 64
)

// A result is what became of an action.
type result struct {
	action *action
	live   *resource.Resource // the object as the server answered, nil if gone or unknown
	wrote  bool               // something was persisted
	// redundant: a write was answered, and nothing persisted.
	redundant bool
	// claimed: it was there, and was given our labels and owner reference.
	claimed bool
	// skipped: a dry run, nothing was written; fields are what would change.
	skipped bool
	fields  []FieldChange
	// await: someone else was faster; the newer state is on its way.
	await bool
	// parked: the change that ends the wait wakes this parent.
	parked bool
	// accepted: live is what the server makes of the desired state, with rest
	// being the fields in which they still differ.
	accepted bool
	rest     []difference
	err      error
}

// An executor turns actions into requests for one pass.
type executor struct {
	*settings
	client  *client
	store   *resourceMap
	parent  *resource.Resource
	slots   chan struct{} // shared by all passes
	tracing *tracing
	pass    *pass // whose log it is
	mu      struct {
		sync.Mutex
		terminating []string // namespaces in which nothing can be created
	}
	// doubtful are those in which the last pass found that: there, one create
	// at a time is tried. Read only.
	doubtful map[string]chan struct{}
	// expected are namespaces that would be there by now if this weren't a dry
	// run.
	expected sync.Map
	// first is when the first write was answered, in ns since 1970.
	first atomic.Int64
}

// expectTerminating says in which namespaces nothing could be created a pass
// ago. The parent's own doesn't come back while the parent is there.
func (x *executor) expectTerminating(namespaces []string) {
	for _, namespace := range namespaces {
		if namespace == x.parent.Namespace() {
			x.foundTerminating(namespace)
			continue
		}
		if x.doubtful == nil {
			x.doubtful = map[string]chan struct{}{}
		}
		x.doubtful[namespace] = make(chan struct{}, 1)
	}
}

func (x *executor) foundTerminating(namespace string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !slices.Contains(x.mu.terminating, namespace) {
		x.mu.terminating = append(x.mu.terminating, namespace)
	}
}

// terminating returns the namespaces in which nothing can be created.
func (x *executor) terminating() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.mu.terminating)
}

// run carries out a plan: the types in their order, the children of a type
// concurrently, the deletes last and only if all else succeeded.
func (x *executor) run(ctx context.Context, p *plan) []result {
	var results []result
	failed := len(p.refused) > 0
	do := func(actions []action) {
		done := x.runAll(ctx, actions)
		for _, r := range done {
			failed = failed || r.err != nil
		}
		results = append(results, done...)
	}
	early, late := splitDeletes(p.deletes)
	for i := 0; i < len(p.writes) || len(early) > 0; {
		// The next type: of what is to be deleted first or to be written.
		order := nextOrder(p.writes[i:], early)
		var first []action
		first, early = takeOrder(early, order)
		if !failed {
			do(first)
		}
		end := i
		for end < len(p.writes) && p.writes[end].kind.order == order {
			end++
		}
		do(p.writes[i:end])
		i = end
	}
	if !failed && ctx.Err() == nil {
		do(late)
	}
	return results
}

func splitDeletes(deletes []action) (early, late []action) {
	for _, a := range deletes {
		if a.kind.child.DeleteFirst {
			early = append(early, a)
		} else {
			late = append(late, a)
		}
	}
	return early, late
}

func nextOrder(writes, early []action) int {
	order := -1
	if len(writes) > 0 {
		order = writes[0].kind.order
	}
	for _, a := range early {
		if order < 0 || a.kind.order < order {
			order = a.kind.order
		}
	}
	return order
}

func takeOrder(actions []action, order int) (taken, rest []action) {
	for _, a := range actions {
		if a.kind.order == order {
			taken = append(taken, a)
		} else {
			rest = append(rest, a)
		}
	}
	return taken, rest
}

// runAll carries out actions concurrently, each with a result of its own, and
// returns when all are done.
func (x *executor) runAll(ctx context.Context, actions []action) []result {
	if len(actions) == 0 {
		return nil
	}
	results := make([]result, len(actions))
	var wg sync.WaitGroup
	own := make(chan struct{}, maxWritesPerPass)
	last := len(actions) - 1
	for i := range last {
		own <- struct{}{}
		wg.Go(func() {
			defer func() { <-own }()
			results[i] = x.runOne(ctx, &actions[i])
		})
	}
	own <- struct{}{}
	results[last] = x.runOne(ctx, &actions[last]) // this goroutine has nothing else to do
	wg.Wait()
	return results
}

// runOne carries out an action. A panic is an error of this child alone; of a
// Secret's, nothing is said.
func (x *executor) runOne(ctx context.Context, a *action) (out result) {
	ctx, span := x.tracing.write(ctx, string(a.verb), a.ref)
	defer func() { span.end(out.err) }()
	defer func() {
		if v := recover(); v != nil {
			if a.kind.secret() {
				v = "(hidden)"
			}
			x.pass.logger().ErrorContext(ctx, "write panicked", "child", a.ref.String(), "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			out = result{action: a, err: describe(a, fmt.Errorf("panic: %v", v))}
		}
	}()
	if one := x.doubtful[a.ref.Key.Namespace]; one != nil && a.verb == verbCreate {
		select {
		case one <- struct{}{}:
			defer func() { <-one }()
		case <-ctx.Done():
			return result{action: a, err: describe(a, ctx.Err())}
		}
	}
	select {
	case x.slots <- struct{}{}:
		defer func() { <-x.slots }()
	case <-ctx.Done():
		return result{action: a, err: describe(a, ctx.Err())}
	}
	if a.verb == verbCreate && slices.Contains(x.terminating(), a.ref.Key.Namespace) {
		return result{action: a} // one answer was enough
	}
	try := x.request
	if x.cfg.DryRun {
		try = x.rehearse
	}
	r := try(ctx, a)
	r.action = a
	if r.wrote {
		x.first.CompareAndSwap(0, time.Now().UnixNano())
	}
	if r.err != nil {
		r = x.judge(a, r)
	}
	if r.live != nil && r.err == nil && r.accepted && !covers(r.live, a.want.object) {
		r.rest = a.kind.comparison.compare(r.live.Unstructured().Object, a.want.object, nil)
	}
	return r
}

// request makes the requests of one action.
func (x *executor) request(ctx context.Context, a *action) result {
	switch a.verb {
	case verbCreate:
		return x.create(ctx, a)
	case verbUpdate:
		return x.unlessCreatedSo(ctx, a, x.update)
	case verbApply:
		return x.unlessCreatedSo(ctx, a, x.apply)
	case verbMark:
		body, err := x.markPatch(a)
		if err != nil {
			return result{err: err}
		}
		live, err := x.client.patch(ctx, a.kind, a.ref.Key, types.MergePatchType, body)
		return x.written(a, live, err)
	case verbRecreate:
		return x.recreate(ctx, a)
	case verbDelete:
		return x.delete(ctx, a)
	case verbVerify:
		return x.verify(ctx, a)
	}
	return result{err: fmt.Errorf("unknown verb %q", a.verb)}
}

// written takes the answer to a write of a child. If it has the resourceVersion
// from before, the server saw no difference and has persisted nothing.
func (x *executor) written(a *action, live *resource.Resource, err error) result {
	if err != nil {
		return result{err: err}
	}
	x.store.wrote(live)
	changed := a.live == nil || a.live.ResourceVersion() != live.ResourceVersion()
	return result{live: live, wrote: changed, redundant: !changed, accepted: true}
}

func (x *executor) create(ctx context.Context, a *action) result {
	live, err := x.client.create(ctx, a.kind, a.ref.Key.Namespace, x.createBody(a.want, x.parent))
	if apierrors.IsAlreadyExists(err) {
		return x.claim(ctx, a)
	}
	return x.written(a, live, err)
}

func (x *executor) update(ctx context.Context, a *action) result {
	live, err := x.client.update(ctx, a.kind, a.ref.Key, "", x.updateBody(a, x.parent), false)
	return x.written(a, live, err)
}

func (x *executor) delete(ctx context.Context, a *action) result {
	left, err := x.client.delete(ctx, a.kind, a.ref.Key, a.live.UID())
	if err != nil {
		return result{err: err}
	}
	x.store.wroteDelete(a.live, left)
	return result{wrote: true, live: left}
}

// apply sends a server-side apply. It can't take away what nobody owns, such
// as the default source of a volume that is given another one, and can't say
// all that an update can: it is refused then, and an update takes its place.
func (x *executor) apply(ctx context.Context, a *action) result {
	merged := x.updateBody(a, x.parent)
	if lacks(merged, a.liveObject()) {
		owned, err := x.takeFields(ctx, a, merged)
		if err != nil {
			return result{err: err}
		}
		if !owned {
			return x.update(ctx, a)
		}
	}
	body, err := bodyOf(x.applyBody(a, x.parent))
	if err != nil {
		return result{err: err}
	}
	live, err := x.client.patch(ctx, a.kind, a.ref.Key, types.ApplyYAMLPatchType, body)
	if apierrors.IsInvalid(err) || isNoApply(err) {
		if r := x.update(ctx, a); r.err == nil {
			return r
		}
	}
	return x.written(a, live, err)
}

// judge decides what an API error means for the pass.
func (x *executor) judge(a *action, r result) result {
	err := r.err
	var taken *nameTakenError
	switch {
	case errors.As(err, &taken):
		return r
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		if a.verb == verbCreate && apierrors.IsNotFound(err) {
			break // the namespace isn't there
		}
		return result{action: a, await: true}
	case isNamespaceTerminating(err):
		x.foundTerminating(a.ref.Key.Namespace)
		return result{action: a}
	}
	if rule := x.ownerRule(a.kind, err); rule != "" {
		err = &forbiddenError{err, rule}
	}
	r.err = describe(a, err)
	if isRefusal(err) {
		r.err = &refusedError{r.err}
	}
	return r
}
