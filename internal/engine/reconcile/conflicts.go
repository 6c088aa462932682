package reconcile

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/apply"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/fieldpath"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

const (
	// maxShown bounds a value in a log line or an Event, in bytes.
	maxShown = 100
	// pathName is the field that stands for a child that comes and goes.
	pathName = "metadata.name"
	// pathPass stands for what passes do that nobody has asked for.
	pathPass = "(passes)"
)

// findPrompt finds out what has set off the pass, and which children somebody else
// has deleted since the last pass. It is called once a pass, since the memory
// counts.
func (p *pass) findPrompt() {
	now, uid := time.Now(), p.parent.UID()
	p.inputs = p.inputsShown()
	if p.lineages != nil {
		p.memory.SawRelated(p.relatedView())
		defer func() { p.writing = p.lineages.Begin(uid, p.memory.Lineage(uid)) }()
	}
	if p.memory.Left(p.inputs) {
		p.prompt = p.memory.Prompted(now, p.inputs, nil, false)
		return
	}
	p.prompt = p.memory.Prompted(now, p.inputs, p.children, p.loops.Lasts(now, uid))
	p.memory.Lost(now, p.children, func(ref object.Ref, since time.Duration) {
		p.loops.Lost(now, schedule.LoopKey{Parent: uid, Type: ref.Type, Object: ref.Key}, since)
	})
}

// inputsShown returns the inputs that the handler was shown.
func (p *pass) inputsShown() plan.Inputs {
	in := p.memory.InputsOf(p.parent, p.children)
	for res := range p.req.Related.All() {
		if !p.isOwn(res) {
			in = in.WithRelated(res)
		}
	}
	return in
}

// relatedView returns what the handler was shown of related objects.
func (p *pass) relatedView() *plan.RelatedView {
	view := plan.NewRelatedView(p.lineages, p.found)
	for _, q := range p.queries {
		view.Refers(q.String())
	}
	for res := range p.req.Related.All() {
		if !p.isOwn(res) {
			view.Add(res)
		}
	}
	return view
}

// endWriting says what the pass has written.
func (p *pass) endWriting() {
	if p.writing == nil {
		return
	}
	var wrote []plan.Trace
	note := func(res *resource.Resource, before, after string) {
		if p.lineages.Of(res.Type()) {
			wrote = append(wrote, plan.Trace{UID: res.UID(), Before: before, After: after})
		}
	}
	if p.wroteParent {
		note(p.parent, p.found.ResourceVersion(), p.parent.ResourceVersion())
	}
	for i := range p.results {
		r := &p.results[i]
		was, before := r.Action.Live, ""
		if !r.Wrote {
			continue
		}
		if was != nil {
			before = was.ResourceVersion()
		}
		if r.Live != nil {
			note(r.Live, before, r.Live.ResourceVersion())
		}
		if was != nil && (r.Action.Verb == plan.VerbDelete || r.Action.Verb == plan.VerbRecreate || relabelled(was, r.Live)) {
			note(was, before, "")
		}
	}
	p.writing.End(p.parent.UID(), wrote)
}

// relabelled says whether a write has changed labels, so that a selector may not select the
// object any more.
func relabelled(was, is *resource.Resource) bool {
	return is != nil && !maps.Equal(was.Labels(), is.Labels())
}

// isOwn says whether a related object is the parent itself, or one of its children. What the
// operator writes of these is no news to it, and what others do is among the inputs already. A
// child may be gone, and the watch of related objects not tell of it yet.
func (p *pass) isOwn(res *resource.Resource) bool {
	return res.UID() == p.parent.UID() || apply.IsChild(p.Settings, p.parent, res)
}

// inputsLeft returns the inputs that the pass leaves to the next one: what the
// handler was shown, with the pass's own writes. If the next pass finds other
// inputs, somebody else has changed the parent or a child.
func (p *pass) inputsLeft() plan.Inputs {
	in := p.memory.InputsOf(p.parent, nil)
	in.Children, in.Related = p.inputs.Children, p.inputs.Related
	for i := range p.results {
		r := &p.results[i]
		if !r.Wrote {
			continue
		}
		ref := r.Action.Ref
		if shown, ok := p.req.Children.OfType(ref.Type).Get(ref.Key.Namespace, ref.Key.Name); ok {
			in = in.Without(shown)
		}
		if r.Live != nil {
			in = in.With(r.Live)
		}
	}
	return in
}

// A suspicion says whether a write may be part of a conflict loop.
type suspicion int

const (
	innocent  suspicion = iota
	possible            // see schedule.ConflictDetector.Answered
	suspected           // the write restores what someone else has changed, or its desired value changed unprompted
)

// suspect counts a write of a child if the write is suspicious. It says whether the
// parent is in a conflict loop.
func (p *pass) suspect(r *apply.Result) bool {
	key, s := p.suspicionOf(r)
	p.stepped = p.stepped && s == innocent
	if s == innocent || s == possible && !p.loops.Answered(time.Now(), key) {
		return false
	}
	if key.Object.Name == "" {
		if slices.Contains(p.suspected, key.Type) {
			return false
		}
		p.suspected = append(p.suspected, key.Type)
	}
	return p.countLoop(key, p.fieldsOf(r))
}

// suspicionOf says how suspicious a write of a child is, and what it counts for:
// the child, or all children of its type and of any name. The latter is for children
// that are created and deleted under ever new names. Of these, several writes in a
// pass count as one.
func (p *pass) suspicionOf(r *apply.Result) (schedule.LoopKey, suspicion) {
	a := r.Action
	key := schedule.LoopKey{Parent: p.parent.UID(), Type: a.Ref.Type, Object: a.Ref.Key}
	ofType := key
	ofType.Object.Name = ""
	switch {
	case a.Verb == plan.VerbDelete && !p.memory.Made(a.Live):
		return ofType, suspected // somebody else makes it a child, perhaps again and again
	case a.Verb == plan.VerbDelete:
		return ofType, suspicionBy(p.prompt)
	case a.Verb != plan.VerbCreate:
		switch {
		case a.Restores:
			return key, suspected
		case p.prompt == plan.ByCircle: // which may write another child in each round
			return ofType, suspected
		case p.mayStep && a.Rolls():
			return key, innocent // its turn has come
		}
		return key, suspicionBy(p.prompt)
	case r.Claimed, p.loops.Replaces(time.Now(), key, p.edited):
		return key, suspected // someone takes the labels off, or deletes the child
	case p.prompt == plan.ByOthers, p.memory.Ended(a.Ref):
		return key, innocent // it is new, or recreated
	case p.mayStep:
		return key, innocent // something else had to come first
	}
	return ofType, possible // its name is new, and perhaps always is
}

// suspicionBy returns the suspicion of a write that the handler wanted otherwise in
// the last pass, by what has set off the pass.
func suspicionBy(prompt plan.Prompt) suspicion {
	switch prompt {
	case plan.ByAnswer:
		return possible
	case plan.ByOwnWrites, plan.ByCircle:
		return suspected
	}
	return innocent
}

// fieldsOf returns the fields of a suspicious write.
func (p *pass) fieldsOf(r *apply.Result) []schedule.LoopWrite {
	a := r.Action
	switch {
	case r.Claimed:
		return []schedule.LoopWrite{{Path: "metadata.labels and metadata.ownerReferences"}}
	case a.Verb == plan.VerbCreate:
		return []schedule.LoopWrite{{Path: pathName, To: a.Ref.Key.Name}}
	case a.Verb == plan.VerbDelete:
		return []schedule.LoopWrite{{Path: pathName, From: a.Ref.Key.Name}}
	case len(a.Diffs) == 0 && a.Restores: // someone takes the mark off, or puts an old one back
		path := fieldpath.Path{fieldpath.Field("metadata"), fieldpath.Field("annotations"), fieldpath.Field(p.Mark)}
		return []schedule.LoopWrite{{Path: path.String()}}
	case len(a.Diffs) == 0:
		return []schedule.LoopWrite{{Path: "the desired state", To: show(a.Kind, a.Want.Hash().String())}}
	}
	writes := make([]schedule.LoopWrite, 0, len(a.Diffs))
	for _, d := range a.Diffs {
		writes = append(writes, schedule.LoopWrite{Path: d.Path, From: show(a.Kind, d.Live), To: show(a.Kind, d.Desired)})
	}
	return writes
}

// suspectStatus counts a write of the status if it is suspicious. It says whether the
// parent is in a conflict loop. prompted is as in childrenState. It excuses all but a circle, as
// does a step of the last pass, which the status may tell of.
func (p *pass) suspectStatus(want, live any, prompted bool) bool {
	if stepped := p.memory.TakeStep(); (stepped || prompted) && p.prompt != plan.ByCircle {
		return false
	}
	var writes []schedule.LoopWrite
	for _, f := range plan.StatusEffects(live, want) {
		writes = append(writes, schedule.LoopWrite{Path: f.Path, From: show(p.Types.Parent, f.Live), To: show(p.Types.Parent, f.Desired)})
	}
	return p.countLoop(schedule.LoopKey{Parent: p.parent.UID(), Type: p.parent.Type(), Object: p.parent.Key()}, writes)
}

// countUndeleted counts a delete of a child that came to nothing, though the API server
// has answered that it was carried out. It says whether the parent is in a conflict loop.
func (p *pass) countUndeleted(ref object.Ref) bool {
	key := schedule.LoopKey{Parent: p.parent.UID(), Type: ref.Type, Object: ref.Key}
	return p.countLoop(key, []schedule.LoopWrite{{Path: pathName, From: ref.Key.Name}})
}

// restless counts a pass that nobody has asked for, after too many others, and that is to
// be followed by yet another one. It says whether that is a conflict loop: what the passes
// do comes to nothing, for a cause that nothing else has found.
func (p *pass) restless(d schedule.Due) bool {
	if p.stepped {
		return false // one pass for each child of a rollout, or behind the gate of another
	}
	key := schedule.LoopKey{Parent: p.parent.UID(), Type: p.parent.Type(), Object: types.NamespacedName{Namespace: p.parent.Namespace()}}
	if d.Trigger == schedule.TriggerThrottled && !p.loops.Looping(time.Now(), key) {
		return false // of another loop
	}
	if !p.loops.Answered(time.Now(), key) {
		return false // what is written again and again may be found first, and says more
	}
	var writes []schedule.LoopWrite
	if len(p.did) > 0 {
		writes = append(writes, schedule.LoopWrite{Path: pathPass, To: observe.Shorten(p.did[0], maxShown)})
	}
	return p.countLoop(key, writes)
}

// countLoop counts a suspicious write. A conflict loop that it completes is
// logged, counted and recorded as an Event. It says whether the parent is in a
// conflict loop.
func (p *pass) countLoop(key schedule.LoopKey, writes []schedule.LoopWrite) bool {
	now := time.Now()
	if found := p.loops.Wrote(now, key, writes); found != nil {
		text := fmt.Sprintf("%s: %s is written again and again: %q", object.Ref{Type: key.Type, Key: key.Object}, found.Path, found.Values)
		if found.Path == pathName {
			text = fmt.Sprintf("%s: created or deleted again and again: %s %q", object.Ref{Type: key.Type, Key: key.Object}, found.Path, found.Values)
		}
		if found.Path == pathPass || found.Path == "" {
			text = fmt.Sprintf("%s: looked at again and again, though nobody has asked for it: %q", object.RefOf(p.parent), found.Values)
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
	return p.loops.Active(now, p.parent.UID())
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
