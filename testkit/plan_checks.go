package testkit

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// comparePlan fails the test if the first pass, whose writes end at end, has done what wasn't
// planned, or if what was planned isn't done when all is. A pass puts off what has to wait
// until what it knows of the children is certain.
func (k *Kit) comparePlan(c *planCheck, all []Write, end int, settled bool) {
	k.t.Helper()
	foreseen := k.foreseenBy(c)
	first := k.doneFor(c, &foreseen, all[:c.writes], all[c.writes:end])
	var wrong []string
	for _, line := range sorted(first) {
		if !foreseen.lines[line] {
			wrong = append(wrong, "not planned: "+line)
		}
	}
	k.plans.compared.Add(1)
	wrong = append(wrong, k.otherFields(c, all[:c.writes], all[c.writes:end])...)
	if settled {
		done := k.doneFor(c, &foreseen, all[:c.writes], all[c.writes:])
		for _, line := range sorted(foreseen.lines) {
			if !done[line] {
				wrong = append(wrong, "not done: "+line)
			}
		}
	}
	if len(wrong) > 0 {
		raw, _ := json.Marshal(c.planned)
		k.t.Errorf("testkit: the plan for %s isn't what was done:\n%s\nplan: %s\nwrites of the first pass: %v\nwrites after it: %v",
			c.key, strings.Join(wrong, "\n"), raw, all[c.writes:end], all[end:])
	}
}

// otherFields tells of the planned fields of updates that the first pass has written otherwise.
func (k *Kit) otherFields(c *planCheck, before, writes []Write) (wrong []string) {
	engine, err := k.engine()
	if err != nil {
		return nil
	}
	for _, change := range c.planned {
		ref := object.Ref{Type: change.Type, Key: change.Object}
		was, is := c.before(ref, before), lastOf(writes, ref)
		if change.Verb != runner.VerbUpdate || change.Unsure || was == nil || is == nil || ref.Type == k.config.Parent {
			continue
		}
		done := map[string]any{}
		for _, f := range engine.Effects(was, is) {
			done[f.Path] = f.Desired
		}
		for _, f := range change.Fields {
			if value, ok := done[f.Path]; !ok || !isAllocated(f.Path) && !reflect.DeepEqual(comparableValue(value), comparableValue(f.Desired)) {
				wrong = append(wrong, fmt.Sprintf("written otherwise: %s: %s: %v, not %v", ref, f.Path, value, f.Desired))
			}
		}
	}
	return wrong
}

// isAllocated says whether an API server draws the values of the field at a path: it draws
// others in a dry run.
func isAllocated(path string) bool {
	field := path[strings.LastIndexByte(path, '.')+1:]
	return slices.Contains([]string{"nodePort", "healthCheckNodePort", "clusterIP", "clusterIPs"}, field)
}

// comparableValue returns a value without the fields that are allocated.
func comparableValue(value any) any {
	switch value := value.(type) {
	case map[string]any:
		value = maps.Clone(value)
		maps.DeleteFunc(value, func(field string, _ any) bool { return isAllocated(field) })
		return value
	case []any:
		if len(value) == 0 {
			return nil // as good as none
		}
	}
	return value
}

// before returns a child as it was before writes that came after those, nil if nobody knows.
func (c *planCheck) before(ref object.Ref, writes []Write) *resource.Resource {
	was := c.live[ref]
	if last := lastOf(writes, ref); last != nil && (was == nil || olderVersion(was.ResourceVersion(), last.ResourceVersion())) {
		return last
	}
	return was
}

// A foreseen is what a plan says, as comparable lines.
type foreseen struct {
	lines    map[string]bool
	waits    map[object.Ref]bool // these come at any time
	children bool                // whether any is written; the parent's status may follow from it
}

// foreseenBy returns what a plan says.
func (k *Kit) foreseenBy(c *planCheck) foreseen {
	out := foreseen{lines: map[string]bool{}, waits: map[object.Ref]bool{}}
	parent := object.Ref{Type: k.config.Parent, Key: c.key}
	for _, change := range c.planned {
		ref := object.Ref{Type: change.Type, Key: change.Object}
		switch {
		case change.Waits != "":
			out.waits[ref] = true
		case unrecorded(change.Type):
		case ref == parent:
			for _, f := range change.Fields {
				field, _, _ := strings.Cut(f.Path, ".")
				out.lines[field+" of "+ref.String()] = true
			}
		default:
			out.children = true
			out.lines[firstWrite(change)+" "+ref.String()] = true
		}
	}
	if out.children {
		delete(out.lines, "status of "+parent.String())
	}
	return out
}

// doneFor returns what writes after the edit to the parent and its children have done, as
// comparable lines.
func (k *Kit) doneFor(c *planCheck, planned *foreseen, before, writes []Write) map[string]bool {
	done := map[string]bool{}
	parent := object.Ref{Type: k.config.Parent, Key: c.key}
	for i, w := range writes {
		ref := object.Ref{Type: w.Type, Key: w.Key}
		was := c.before(ref, slices.Concat(before, writes[:i]))
		line := doneBy(w.Verb) + " " + ref.String()
		switch {
		case ref == parent && w.Verb == WriteUpdateStatus:
			if !planned.children {
				done["status of "+ref.String()] = true
			}
		case ref == parent:
			done["metadata of "+ref.String()] = true
		case planned.waits[ref], !k.isChildOf(c, w, was):
		case w.Verb == WriteCreate && done[WriteDelete+" "+ref.String()]: // the other half of a recreation
		case w.Verb == WriteDelete, w.Verb == WriteCreate, planned.lines[line], !marksOnly(&k.config, was, w.Object):
			done[line] = true
		}
	}
	return done
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

// firstWrite returns in one word what a change does first. A child that is adopted is given
// its owner before anything else happens to it.
func firstWrite(change runner.Change) string {
	adopts := func(f runner.FieldChange) bool { return f.Path == "metadata.ownerReferences" }
	if change.Verb == runner.VerbRecreate && slices.ContainsFunc(change.Fields, adopts) {
		return WriteUpdate
	}
	return doneBy(change.Verb)
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
