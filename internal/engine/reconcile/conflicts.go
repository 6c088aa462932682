package reconcile

import (
	"encoding/json"
	"fmt"
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
	// maxShown bounds a value in a log or an Event, in bytes.
	maxShown = 100
	// echoInterval is the pace of a child that answers every write at once.
	echoInterval = time.Second
)

// inputsLeft returns what the pass leaves behind for the handler's next answer
// to depend on: what the handler was shown, with the pass's own writes. If the
// next pass finds anything else, somebody else has changed something.
func (p *pass) inputsLeft() plan.Inputs {
	written := map[object.Ref]*resource.Resource{}
	for _, r := range p.results {
		if r.Wrote {
			written[r.Action.Ref] = r.Live
		}
	}
	var children []*resource.Resource
	for _, child := range p.children {
		ref := object.RefOf(child)
		if live, ok := written[ref]; ok {
			child = live
			delete(written, ref)
		}
		if child != nil {
			children = append(children, child)
		}
	}
	for _, live := range written {
		if live != nil {
			children = append(children, live)
		}
	}
	return p.inputsOf(children)
}

// inputsOf returns what the handler's answer depends on if it is shown these
// children, in any order.
func (p *pass) inputsOf(children []*resource.Resource) plan.Inputs {
	in := plan.Inputs{UID: p.parent.UID(), Generation: p.parent.Generation(), Parent: p.memory.DigestOf(p.parent)}
	for _, child := range children {
		in.Children += versionHash(child.UID(), child.ResourceVersion())
	}
	return in
}

// versionHash is an FNV-1a hash of one state of an object, without what hash/fnv
// would allocate.
func versionHash(uid types.UID, version string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	hash := uint64(offset)
	for _, text := range [...]string{string(uid), version} {
		for i := range len(text) {
			hash = (hash ^ uint64(text[i])) * prime
		}
	}
	return hash
}

// prompted says whether anyone but this operator has changed the parent or a
// child since the parent's last pass, or shortly before that. It is to be asked
// once a pass.
func (p *pass) prompted() bool { return p.memory.Prompted(p.inputsOf(p.children)) }

// suspect counts a write that restores what someone else has changed, or whose
// desired value changed unprompted. It says whether the parent is in a conflict
// loop.
func (p *pass) suspect(r *apply.Result, prompted bool) bool {
	a := r.Action
	key := schedule.LoopKey{Parent: p.parent.UID(), Type: a.Ref.Type, Object: a.Ref.Key}
	if prompted && !a.Restores && p.echoed(a, key) {
		prompted = !p.loops.Answered(time.Now(), key)
	}
	writes := p.suspicious(r, prompted)
	if writes == nil {
		return false
	}
	if a.Verb == plan.VerbDelete { // whatever its name was: a handler may name its children anew every time
		key.Object.Name = ""
	}
	return p.countLoop(key, writes)
}

// suspicious returns the fields of a write that counts as suspicious, nil if the
// write doesn't.
func (p *pass) suspicious(r *apply.Result, prompted bool) []schedule.LoopWrite {
	a := r.Action
	legitimate := prompted && !a.Restores
	switch a.Verb {
	case plan.VerbUpdate, plan.VerbApply, plan.VerbRecreate:
		if legitimate {
			return nil
		}
		writes := make([]schedule.LoopWrite, 0, len(a.Diffs))
		for _, d := range a.Diffs {
			writes = append(writes, schedule.LoopWrite{Path: d.Path, From: show(a.Kind, d.Live), To: show(a.Kind, d.Desired)})
		}
		return writes
	case plan.VerbMark:
		switch {
		case legitimate:
			return nil
		case !a.Restores:
			return []schedule.LoopWrite{{Path: "the desired state", To: show(a.Kind, a.Want.Hash().String())}}
		}
		// Someone takes the mark off.
		path := fieldpath.Path{fieldpath.Field("metadata"), fieldpath.Field("annotations"), fieldpath.Field(p.Mark)}
		return []schedule.LoopWrite{{Path: path.String()}}
	case plan.VerbCreate: // someone takes the operator's labels or the owner reference off
		if r.Claimed {
			return []schedule.LoopWrite{{Path: "metadata.labels and metadata.ownerReferences"}}
		}
	case plan.VerbDelete:
		if !prompted {
			return []schedule.LoopWrite{{Path: "metadata.name", From: a.Ref.Key.Name}}
		}
	}
	return nil
}

// suspectStatus counts a status that changed though nothing else did. It says
// whether the parent is in a conflict loop.
func (p *pass) suspectStatus(want, live any) bool {
	var writes []schedule.LoopWrite
	for _, f := range plan.StatusEffects(live, want) {
		writes = append(writes, schedule.LoopWrite{Path: f.Path, From: show(p.Types.Parent, f.Live), To: show(p.Types.Parent, f.Desired)})
	}
	return p.countLoop(schedule.LoopKey{Parent: p.parent.UID(), Type: p.parent.Type(), Object: p.parent.Key()}, writes)
}

// echoed says whether nothing prompted a write but the child's own answer to the
// last one, which was a moment ago or in a loop: the status that a controller
// gives to whatever it is told. Otherwise a Deployment which the handler wants
// different at every call would seem to have been changed by someone each time.
func (p *pass) echoed(a *plan.Action, key schedule.LoopKey) bool {
	if a.Live == nil || a.Want == nil {
		return false
	}
	version, wrote := p.memory.LastWrite(a.Ref, a.Live.UID())
	if version == "" {
		return false
	}
	if at := time.Now(); at.Sub(time.Unix(0, wrote)) > echoInterval && !p.loops.Lasts(at, key) {
		return false
	}
	in := p.inputsOf(p.children)
	in.Children += versionHash(a.Live.UID(), version) - versionHash(a.Live.UID(), a.Live.ResourceVersion())
	return p.memory.Left(in)
}

// countLoop counts a suspicious write, and tells of a conflict loop when one is
// found. It says whether the parent is in one.
func (p *pass) countLoop(key schedule.LoopKey, writes []schedule.LoopWrite) bool {
	now := time.Now()
	if found := p.loops.Wrote(now, key, writes); found != nil {
		text := fmt.Sprintf("%s: %s is written again and again: %q", object.Ref{Type: key.Type, Key: key.Object}, found.Path, found.Values)
		p.Logger().Warn("conflict loop, slowing down", "type", key.Type.String(), "object", key.Object.String(), "field", found.Path, "values", found.Values)
		p.metrics.Loop(key.Type)
		p.event(p.parent, observe.Warning, observe.ReasonConflictLoop, text)
		p.history.addLoop(p.parent.Key(), found)
	}
	return p.loops.Active(now, p.parent.UID())
}

// show prints a value for a log or an Event. Of a Secret it prints none.
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
