package testkit

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
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
}

// planChecks are the plans of a Kit's edits: see ClusterOptions.CheckPlans. All but its mu
// belongs to the test's goroutine.
type planChecks struct {
	handler handler.Handler // the one that runs, without the Kit's own around it
	left    int             // how many more edits are planned
	pending []*planCheck

	mu struct {
		sync.Mutex
		begun []begunSync // in their order
	}
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

// window returns where the writes of the first pass after an edit end. seen says that this
// pass has begun, and over that another one has begun after it.
func (p *planChecks) window(c *planCheck) (end int, seen, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.mu.begun {
		if b.uid != c.uid || !seen && b.writes < c.writes {
			continue
		}
		if seen {
			return b.writes, true, true
		}
		seen = !olderVersion(b.version, c.version)
	}
	return 0, seen, false
}

// checksPlans says whether the next edit of a parent is to be planned.
func (k *Kit) checksPlans(ref reference) bool {
	if k.plans.left <= 0 || ref.typ != k.config.Parent || k.plans.handler == nil || k.config.DryRun || k.op == nil {
		return false
	}
	engine, err := k.engine()
	if err != nil || k.op.ended() != nil {
		return false
	}
	now := engine.Activity()
	return now.Running == 0 && now.Due == 0
}

// foresee plans an edit of a parent, u as it will be sent. It returns nil if that isn't to be
// checked, or can't be.
func (k *Kit) foresee(ref reference, u *unstructured.Unstructured) *planCheck {
	k.comparePlans(false)
	if !k.checksPlans(ref) {
		return nil
	}
	k.plans.left--
	opts := runner.Options{RESTConfig: k.cluster.RESTConfig(), Logger: discardLogger()}
	opts.RESTConfig.UserAgent = "roperator-testkit-plan"
	opts.RESTConfig.Wrap(validateFields(k.fieldValidation()))
	ctx, cancel := timeout(requestTimeout)
	defer cancel()
	changes, err := runner.PlanFor(ctx, k.config, k.plans.handler, opts, u)
	if err != nil {
		return nil // the edit is refused, or the pass fails
	}
	return &planCheck{key: ref.key, planned: changes, writes: k.writes.count()}
}

// edited notes an edit that was planned.
func (k *Kit) edited(c *planCheck, made *unstructured.Unstructured) {
	if c != nil && k.writes.count() == c.writes {
		c.uid, c.version = made.GetUID(), made.GetResourceVersion()
		k.plans.pending = append(k.plans.pending, c)
	}
}

// comparePlans compares the writes of those passes that are over with their plans.
// settled says that all are. A plan whose pass isn't over is forgotten unless the Kit looks
// on: what follows from what the test does next can't be told from what was planned.
func (k *Kit) comparePlans(settled bool) {
	k.t.Helper()
	if len(k.plans.pending) == 0 {
		return
	}
	engine, err := k.engine()
	if err != nil {
		k.plans.pending = nil
		return
	}
	resting := settled || engine.Activity().Running == 0
	for _, c := range k.plans.pending {
		end, seen, over := k.plans.window(c)
		if all := k.writes.all(); over || resting && (seen || settled) {
			if !over {
				end = len(all)
			}
			k.comparePlan(c, all[:c.writes], all[c.writes:end])
		}
	}
	k.plans.pending = nil
}

// comparePlan fails the test if the writes of the first pass aren't those that were planned.
func (k *Kit) comparePlan(c *planCheck, before, writes []Write) {
	k.t.Helper()
	planned, done := map[string]bool{}, map[string]bool{}
	ignored := map[object.Ref]bool{} // what waits may come at any time
	children := false
	for _, change := range c.planned {
		ref := object.Ref{Type: change.Type, Key: change.Object}
		switch {
		case change.Waits != "":
			ignored[ref] = true
		case unrecorded(change.Type):
		case change.Type == k.config.Parent && change.Object == c.key:
			for _, f := range change.Fields {
				field, _, _ := strings.Cut(f.Path, ".")
				planned[field+" of "+ref.String()] = true
			}
		default:
			children = true
			planned[doneBy(change.Verb)+" "+ref.String()] = true
		}
	}
	for i, w := range writes {
		ref := object.Ref{Type: w.Type, Key: w.Key}
		switch was := lastOf(append(slices.Clone(before), writes[:i]...), ref); {
		case ref.Type == k.config.Parent && ref.Key == c.key:
			if field := "metadata"; w.Verb == WriteUpdateStatus {
				if field = "status"; children {
					continue // it follows from the children
				}
				done[field+" of "+ref.String()] = true
			} else {
				done[field+" of "+ref.String()] = true
			}
		case ignored[ref], !k.isChildOf(c, w, was), w.Verb != WriteDelete && w.Verb != WriteCreate && marksOnly(&k.config, was, w.Object):
		default:
			done[doneBy(w.Verb)+" "+ref.String()] = true
		}
	}
	if children {
		delete(planned, "status of "+object.Ref{Type: k.config.Parent, Key: c.key}.String())
	}
	want, got := sorted(planned), sorted(done)
	if !slices.Equal(want, got) {
		raw, _ := json.Marshal(c.planned)
		k.t.Errorf("testkit: the plan for %s isn't what was done:\nplanned: %s\ndone:    %s\nplan: %s\nwrites: %v", c.key, strings.Join(want, "; "), strings.Join(got, "; "), raw, writes)
	}
}

// unrecorded says whether the Kit doesn't record writes of objects of a type.
func unrecorded(t resource.Type) bool {
	gvk := t.GroupVersionKind()
	return uninteresting(schema.GroupVersionResource{Group: gvk.Group, Resource: strings.ToLower(gvk.Kind) + "s"})
}

// isChildOf says whether an object that was written is a child of the parent.
func (k *Kit) isChildOf(c *planCheck, w Write, was *resource.Resource) bool {
	for _, res := range []*resource.Resource{w.Object, was} {
		if res != nil {
			controller := object.ControllerOf(res)
			return controller != nil && controller.UID == c.uid
		}
	}
	return slices.ContainsFunc(c.planned, func(p runner.Change) bool { return p.Type == w.Type && p.Object == w.Key })
}

// lastOf returns an object as the last of these writes has left it, nil if none has.
func lastOf(writes []Write, ref object.Ref) *resource.Resource {
	for _, w := range slices.Backward(writes) {
		if w.Type == ref.Type && w.Key == ref.Key {
			return w.Object
		}
	}
	return nil
}

// marksOnly says whether a write has changed nothing but the engine's mark, or nobody knows
// what it has changed.
func marksOnly(cfg *config.Operator, was, is *resource.Resource) bool {
	if was == nil || is == nil {
		return true
	}
	strip := func(res *resource.Resource) string {
		object := res.Unstructured()
		object.SetResourceVersion("")
		object.SetGeneration(0)
		delete(object.Object, "status") // controllers write it in between
		annotations := object.GetAnnotations()
		delete(annotations, cfg.AppliedAnnotation())
		object.SetAnnotations(annotations)
		raw, _ := json.Marshal(object.Object)
		return string(raw)
	}
	return strip(was) == strip(is)
}

// doneBy returns in one word what a verb, of a plan or of a write, does first.
func doneBy(verb string) string {
	switch verb {
	case runner.VerbRecreate:
		return WriteDelete
	case WritePatch, WriteApply:
		return WriteUpdate
	}
	return verb
}

func sorted(set map[string]bool) []string {
	var out []string
	for line := range set {
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}
