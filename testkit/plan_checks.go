package testkit

import (
	"context"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/runner"
)

// maxPlanChecks bounds how many edits of a Kit are planned.
const maxPlanChecks = 12

// A planCheck is an edit of a parent that was planned, and whose writes are still to be
// compared with the plan.
type planCheck struct {
	key     types.NamespacedName
	uid     types.UID
	version string          // the parent's after the edit
	planned []runner.Change // what the first pass that sees the edit is to do
	writes  int             // how many writes there were before the edit
	edit    int             // its number among the test's
	// live are the children in the Kit's namespace as they were before the edit: others
	// write them, too.
	live map[object.Ref]*resource.Resource
}

// planChecks are the plans of a Kit's edits: see ClusterOptions.CheckPlans.
type planChecks struct {
	handler  handler.Handler // the one that runs, without the Kit's own around it
	compared atomic.Int64    // how many plans were

	mu struct {
		sync.Mutex
		left    int // how many more edits are planned
		edits   int // how many the test has begun
		pending []*planCheck
		begun   []begunSync // in their order
	}
}

// begin notes an edit of any object, which spoils the plans of those that aren't over. It
// returns its number.
func (p *planChecks) begin() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.edits++
	return p.mu.edits
}

// take says whether one more edit may be planned.
func (p *planChecks) take() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.left <= 0 {
		return false
	}
	p.mu.left--
	return true
}

// put notes a plan unless another edit has begun since.
func (p *planChecks) put(c *planCheck) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.edits == c.edit {
		p.mu.pending = append(p.mu.pending, c)
	}
}

// pending returns the plans that are to be compared, and forgets them.
func (p *planChecks) pending() []*planCheck {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.mu.pending
	p.mu.pending = nil
	return out
}

// A begunSync is a call of Sync.
type begunSync struct {
	uid     types.UID
	version string // the parent's
	writes  int    // how many writes there were when it began
}

// began notes a call of Sync.
func (p *planChecks) began(req *handler.SyncRequest, writes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.begun = append(p.mu.begun, begunSync{req.Parent.UID(), req.Parent.ResourceVersion(), writes})
}

// A window is what the writes of the first pass after an edit are among.
type window struct {
	begin, end int
	seen       bool // the pass has begun
	over       bool // another one has begun after it; else end isn't known
}

// windowOf returns that of a planned edit.
func (p *planChecks) windowOf(c *planCheck) window {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := window{begin: c.writes}
	for _, b := range p.mu.begun {
		switch {
		case b.uid != c.uid || !w.seen && b.writes < c.writes:
		case w.seen:
			w.end, w.over = b.writes, true
			return w
		case !olderVersion(b.version, c.version):
			w.begin, w.seen = b.writes, true
		}
	}
	return w
}

// checksPlans says whether the next edit of a parent is to be planned.
func (k *Kit) checksPlans(ref reference) bool {
	if ref.typ != k.config.Parent || k.plans.handler == nil || k.config.DryRun || k.op == nil {
		return false
	}
	engine, err := k.engine()
	if err != nil || k.op.ended() != nil {
		return false
	}
	now := engine.Activity()
	return now.Running == 0 && now.Due == 0
}

// edits notes that the test is about to edit an object, and returns the edit's number.
func (k *Kit) edits() int {
	k.t.Helper()
	k.comparePlans(false)
	return k.plans.begin()
}

// foresee plans an edit of a parent, u as it will be sent. It returns nil if that isn't to be
// checked, or can't be.
func (k *Kit) foresee(ref reference, u *unstructured.Unstructured) *planCheck {
	edit := k.edits()
	if !k.checksPlans(ref) || !k.plans.take() {
		return nil
	}
	opts := runner.Options{RESTConfig: k.cluster.RESTConfig(), Logger: discardLogger()}
	opts.RESTConfig.UserAgent = "roperator-testkit-plan"
	opts.RESTConfig.Wrap(validateFields(k.fieldValidation()))
	ctx, cancel := timeout(requestTimeout)
	defer cancel()
	before := k.writes.count()
	changes, err := runner.PlanFor(ctx, k.config, k.plans.handler, opts, u)
	if err != nil {
		return nil // the edit is refused, or the pass fails
	}
	c := &planCheck{key: ref.key, planned: changes, writes: before, edit: edit, live: k.liveChildren(ctx)}
	if k.writes.count() != before {
		return nil // the operator has done something of it already
	}
	return c
}

// liveChildren returns the children of all parents in the Kit's namespace, as far as they can
// be read.
func (k *Kit) liveChildren(ctx context.Context) map[object.Ref]*resource.Resource {
	out := map[object.Ref]*resource.Resource{}
	for _, child := range k.config.Children {
		m, err := k.mapping(child.Type)
		if err != nil || m.ClusterScoped {
			continue
		}
		list, err := k.client.Resource(m.rest.Resource).Namespace(k.Namespace).List(ctx, metav1.ListOptions{LabelSelector: k.config.TrackingLabel})
		if err != nil {
			continue
		}
		for i := range list.Items {
			if res, err := resource.New(&list.Items[i]); err == nil {
				out[object.Ref{Type: child.Type, Key: res.Key()}] = res
			}
		}
	}
	return out
}

// edited notes an edit that was planned.
func (k *Kit) edited(c *planCheck, made *unstructured.Unstructured) {
	if c != nil {
		c.uid, c.version = made.GetUID(), made.GetResourceVersion()
		k.plans.put(c)
	}
}

// comparePlans compares plans with the writes of the passes that followed. settled says that
// all there is to do is done. A plan whose first pass isn't over is forgotten unless the Kit
// looks on: what follows from what the test does next can't be told from what was planned.
func (k *Kit) comparePlans(settled bool) {
	k.t.Helper()
	pending := k.plans.pending()
	if len(pending) == 0 {
		return
	}
	engine, err := k.engine()
	if err != nil {
		return
	}
	resting := settled || engine.Activity().Running == 0
	for _, c := range pending {
		w, all := k.plans.windowOf(c), k.writes.all()
		if !w.over {
			w.end = len(all)
		}
		spoilt := w.begin != c.writes // an earlier pass has written since the plan
		if !spoilt && (w.over || resting && (w.seen || settled)) {
			k.comparePlan(c, all, w.end, settled)
		}
	}
}
