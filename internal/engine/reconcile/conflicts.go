package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/dryrun"
	"github.com/roperator/roperator/internal/engine/apply"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/conflict"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/fieldpath"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

const (
	// maxShown bounds a value in a log line or an Event, in bytes.
	maxShown = 100
	// pathName is the field that stands for a child that comes and goes.
	pathName = "metadata.name"
	// pathFollowUps stands for what follow-ups do that no client has asked for.
	pathFollowUps = "(reconciliations)"
)

// A tally counts what the handler desires.
type tally struct {
	all      []*plan.Desired
	of       map[resource.Type]int
	names    map[object.Ref]struct{}          // nil before has
	vanished map[resource.Type][]conflict.Key // whose places no created child has taken; nil before inherits
}

func tallyOf(desired []*plan.Desired) *tally {
	t := &tally{all: desired, of: map[resource.Type]int{}}
	for ref := range plan.Refs(desired) {
		t.of[ref.Type]++
	}
	return t
}

// has reports whether a child is desired.
func (t *tally) has(ref object.Ref) bool {
	if t.names == nil {
		t.names = make(map[object.Ref]struct{}, len(t.all))
		for ref := range plan.Refs(t.all) {
			t.names[ref] = struct{}{}
		}
	}
	_, ok := t.names[ref]
	return ok
}

// asked reports whether the handler has asked for the reconciliation, by Resync.
func (p *pass) asked() bool { return p.due.Cause == 0 && p.due.Trigger == schedule.TriggerResync }

// caused reports whether another client has set the reconciliation off, or the handler has asked for it.
func (p *pass) caused() bool { return p.due.Cause != 0 || p.asked() }

func (p *pass) keyOf(ref object.Ref) conflict.Key {
	return conflict.Key{Parent: p.parent.UID(), Type: ref.Type, Object: ref.Key}
}

// countWrite counts the write of a child. All writes of a reconciliation have the same time.
func (p *pass) countWrite(r *apply.Result, now time.Time) {
	a := r.Action
	w := conflict.Write{
		Key: p.keyOf(a.Ref), State: stateOf(r), Fields: p.fieldsOf(r), Desired: p.desired.of[a.Ref.Type],
		Foreign: p.due.Cause != 0, Excused: p.asked(), Restores: a.Restores && a.Want != nil,
	}
	switch a.Verb {
	case plan.VerbRecreate:
		p.progress(p.loops.Began(now, w))
		return
	case plan.VerbDelete:
		w.Kind, w.Intruder = conflict.Delete, !p.memory.Made(a.Live) && !plan.Gave(p.Settings, a.Live)
	case plan.VerbCreate:
		w.Kind = conflict.Create
		if p.memory.Recreating(a.Ref) {
			w.Fields = nil // those of its delete were noted
		}
		w.Replaces = !r.Claimed && p.inherits(now, w.Key)
	}
	p.progress(p.countLoop(now, w).Repeats)
}

// inherits reports whether a created child takes the place of one that has vanished. The vanished ones are the same for all
// creates of a reconciliation: what it has written before is desired, or deleted.
func (p *pass) inherits(now time.Time, key conflict.Key) bool {
	if p.desired.vanished == nil {
		p.desired.vanished = p.loops.Vanished(now, p.parent.UID(), func(key conflict.Key) bool {
			_, there := p.req.Children.OfType(key.Type).Get(key.Object.Namespace, key.Object.Name)
			return there || p.desired.has(object.Ref{Type: key.Type, Key: key.Object})
		})
	}
	of := p.desired.vanished[key.Type]
	if len(of) == 0 {
		return false
	}
	p.desired.vanished[key.Type] = of[1:]
	p.loops.Inherit(key, of[0])
	return true
}

// progress notes that a child was given a state, perhaps one that it had lately.
func (p *pass) progress(repeats bool) {
	p.progressed = p.progressed || !repeats
	if !repeats || p.caused() {
		p.memory.Progress()
	}
}

// stateOf returns a digest of the state that a write gives a child.
func stateOf(r *apply.Result) jsonvalue.Digest {
	switch a := r.Action; {
	case r.Claimed:
		return jsonvalue.Sum("claimed")
	case a.Verb == plan.VerbDelete || a.Want == nil:
		return conflict.Gone
	default:
		return a.Want.Hash()
	}
}

// fieldsOf returns the fields of a write of a child.
func (p *pass) fieldsOf(r *apply.Result) []conflict.Field {
	a := r.Action
	switch {
	case r.Claimed:
		return []conflict.Field{{Path: "metadata.labels and metadata.ownerReferences"}}
	case a.Verb == plan.VerbCreate:
		return []conflict.Field{{Path: pathName, To: a.Ref.Key.Name}}
	case a.Verb == plan.VerbDelete:
		return []conflict.Field{{Path: pathName, From: a.Ref.Key.Name}}
	case len(a.Diffs) == 0 && a.Restores: // another client removes the applied annotation, or puts an old one back
		path := fieldpath.Path{fieldpath.Field("metadata"), fieldpath.Field("annotations"), fieldpath.Field(p.Mark)}
		return []conflict.Field{{Path: path.String()}}
	case len(a.Diffs) == 0 && a.Want != nil:
		return []conflict.Field{{Path: "the desired state", To: show(a.Kind, a.Want.Hash().String())}}
	}
	fields := make([]conflict.Field, 0, len(a.Diffs))
	for _, d := range a.Diffs {
		fields = append(fields, conflict.Field{Path: d.Path, From: show(a.Kind, d.Live), To: show(a.Kind, d.Desired)})
	}
	return fields
}

// countStatus counts a write of the status. caused is as in childrenState. restores says that another client has overwritten
// the status, which excuses nothing.
func (p *pass) countStatus(want, live any, caused, restores bool) {
	caused = p.memory.TakeProgress() || caused
	w := conflict.Write{
		Key: p.keyOf(object.RefOf(p.parent)), Kind: conflict.Status, State: plan.StatusState(want), Desired: len(p.children),
		Excused: caused && !restores, Restores: restores,
	}
	if p.desired != nil {
		w.Desired = max(w.Desired, len(p.desired.all))
	}
	for _, f := range plan.StatusEffects(live, want) {
		w.Fields = append(w.Fields, conflict.Field{Path: f.Path, From: show(p.Types.Parent, f.Live), To: show(p.Types.Parent, f.Desired)})
	}
	p.countLoop(time.Now(), w)
}

// countGhost counts a delete of a child that is still there, though the API server has confirmed its deletion.
func (p *pass) countGhost(ref object.Ref, now time.Time) {
	p.countLoop(now, conflict.Write{
		Key: p.keyOf(ref), Kind: conflict.Delete, State: conflict.Gone, Fields: []conflict.Field{{Path: pathName, From: ref.Key.Name}}, Desired: p.desired.of[ref.Type],
	})
}

// countRepeat counts a follow-up that no client has asked for, after too many others, and that is to be followed by yet
// another one. They are a loop, for a cause that no other rule has found, unless a child was given a new state: then this is
// one of the steps of a rollout or of a chain of dependencies.
func (p *pass) countRepeat() {
	if p.progressed {
		return
	}
	now, key := time.Now(), conflict.Key{Parent: p.parent.UID(), Type: p.parent.Type(), Object: types.NamespacedName{Namespace: p.parent.Namespace()}}
	if p.due.Trigger == schedule.TriggerThrottled && !p.loops.Loops(now, key) {
		return // of another loop
	}
	var did []conflict.Field
	if len(p.did) > 0 {
		did = append(did, conflict.Field{Path: pathFollowUps, To: observe.Shorten(p.did[0], maxShown)})
	}
	if found := p.loops.Repeated(now, key, did); found != nil {
		p.tellLoop(found)
	}
}

// countLoop counts a write, and reports what it completes.
func (p *pass) countLoop(now time.Time, w conflict.Write) conflict.Verdict {
	v := p.loops.Wrote(now, w)
	switch {
	case v.Loop != nil:
		p.tellLoop(v.Loop)
	case v.Fight != nil:
		p.tellFight(v.Fight)
	}
	return v
}

// prove calls the handler twice more for the same snapshot, if an object got new states though no client has changed
// anything. Different responses prove that the handler is not deterministic. An error proves nothing, and KeepChildren nothing of
// the children. It is called before anything is written, so the snapshot is not older than any own write.
func (p *pass) prove(ctx context.Context) {
	unclear := p.loops.Unclear(p.parent.UID())
	if len(unclear) == 0 || p.Config.DryRun {
		return
	}
	one, ok := p.callAgain(ctx)
	if !ok {
		return
	}
	other, ok := p.callAgain(ctx)
	if !ok {
		return
	}
	for key := range unclear {
		if kept := key.Type != p.parent.Type() && (one.kept || other.kept); kept || one.states[key] == other.states[key] {
			continue
		}
		if found := p.loops.Proved(time.Now(), key); found != nil {
			p.tellLoop(found)
		}
	}
}

// A proof is what the handler desires for a snapshot.
type proof struct {
	states map[conflict.Key]jsonvalue.Digest
	kept   bool // the children stay as they are
}

// callAgain returns what the handler desires for the snapshot of the reconciliation.
func (p *pass) callAgain(ctx context.Context) (again proof, ok bool) {
	resp, err := call(dryrun.Mark(ctx), p, observe.MethodSync, "Sync", p.handler.Sync)
	if err != nil {
		return proof{}, false
	}
	desired, err := plan.Desire(p.Settings, p.req.Parent, resp.Children, &plan.ParentMemory{})
	if err != nil {
		return proof{}, false
	}
	again = proof{map[conflict.Key]jsonvalue.Digest{}, resp.KeepChildren}
	for _, d := range desired {
		again.states[p.keyOf(d.Ref())] = d.Hash()
	}
	if status, err := p.desireStatus(resp.Status); err == nil && status != nil {
		again.states[p.keyOf(object.RefOf(p.parent))] = plan.StatusState(status.value)
	}
	return again, true
}

// throttle returns how the next reconciliation is delayed for a conflict loop. A reconciliation without writes in the middle of a
// loop doesn't end it. A parent that is being deleted is not delayed but for its rate.
func (p *pass) throttle() conflict.Throttle {
	now, uid := time.Now(), p.parent.UID()
	t := p.loops.Throttle(now, uid)
	switch {
	case t == conflict.Pace:
	case p.parent.IsDeleting():
		return conflict.None
	case t == conflict.None && len(p.did) > 0 && p.due.Trigger == schedule.TriggerThrottled && p.loops.Lasts(now, uid):
		return conflict.Backoff
	}
	return t
}

// tellLoop logs a conflict loop, counts it and records it as an Event.
func (p *pass) tellLoop(found *conflict.Loop) {
	key := found.Key
	if key.Object.Name == "" && found.Path != pathFollowUps { // of all children of a type
		key.Object = p.parent.Key()
	}
	about := object.Ref{Type: key.Type, Key: key.Object}
	text := fmt.Sprintf("%s: %s is written again and again: %q", about, found.Path, found.Values)
	switch found.Path {
	case pathName:
		text = fmt.Sprintf("%s: created or deleted again and again: %s %q", about, found.Path, found.Values)
	case pathFollowUps, "":
		text = fmt.Sprintf("%s: reconciled again and again without an external change: %q", object.RefOf(p.parent), found.Values)
	}
	args := []any{"type", key.Type.String(), "object", key.Object.String(), "field", found.Path, "values", found.Values}
	if rival := p.rivalIn(found); rival != "" {
		text += "; " + rival
		args = append(args, "suspect", rival)
	}
	p.Logger().Warn("conflict loop, slowing down", args...)
	p.metrics.Loop(key.Type)
	p.event(p.parent, observe.Warning, observe.ReasonConflictLoop, text)
	p.history.addLoop(p.parent.Key(), found)
}

// tellFight reports a field that was restored often, perhaps over a long time.
func (p *pass) tellFight(found *conflict.Loop) {
	about := object.Ref{Type: found.Key.Type, Key: found.Key.Object}
	text := fmt.Sprintf("%s: %s was restored %d times: %q", about, found.Path, found.Writes, found.Values)
	p.Logger().Warn("another client keeps changing a field", "type", about.Type.String(), "object", about.Key.String(), "field", found.Path, "values", found.Values, "restores", found.Writes)
	p.metrics.Loop(about.Type)
	p.event(p.parent, observe.Warning, observe.ReasonConflictLoop, text)
}

// show prints a value of an object of kind k for a log line or an Event. It hides
// the values of Secrets.
func show(k *catalog.Kind, v any) string {
	if k.Secret() {
		return plan.Hidden
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return observe.Shorten(string(raw), maxShown)
}
