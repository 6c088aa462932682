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
	// maxShown bounds a value in a log line or an Event, in bytes.
	maxShown = 100
	// echoInterval is how soon after a write a change of the child counts as the
	// child's answer to that write.
	echoInterval = time.Second
)

// inputsLeft returns the inputs that the pass leaves to the next one: what the
// handler was shown, with the pass's own writes. If the next pass finds other
// inputs, somebody else has changed the parent or a child.
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

// inputsOf returns the inputs of the handler if it is shown the pass's parent with
// these children, in any order.
func (p *pass) inputsOf(children []*resource.Resource) plan.Inputs {
	in := plan.Inputs{UID: p.parent.UID(), Generation: p.parent.Generation(), Parent: p.memory.DigestOf(p.parent)}
	for _, child := range children {
		in.Children += versionHash(child.UID(), child.ResourceVersion())
	}
	return in
}

// versionHash is an FNV-1a hash of one state of an object. It allocates nothing,
// as hash/fnv would.
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
// child since the parent's last pass, or shortly before that. It is called once a
// pass, since it counts.
func (p *pass) prompted() bool { return p.memory.Prompted(p.inputsOf(p.children)) }

// suspect counts a write of a child if the write is suspicious: it restores what
// someone else has changed, or its desired value changed unprompted. It says
// whether the parent is in a conflict loop.
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
	if a.Verb == plan.VerbDelete { // under any name: a handler may name its children anew every time
		key.Object.Name = ""
	}
	return p.countLoop(key, writes)
}

// suspicious returns the fields of a suspicious write, nil if the write isn't
// suspicious.
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
		// Someone takes the mark off again and again.
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

// suspectStatus counts a write of the status that nobody's change has prompted. It
// says whether the parent is in a conflict loop.
func (p *pass) suspectStatus(want, live any) bool {
	var writes []schedule.LoopWrite
	for _, f := range plan.StatusEffects(live, want) {
		writes = append(writes, schedule.LoopWrite{Path: f.Path, From: show(p.Types.Parent, f.Live), To: show(p.Types.Parent, f.Desired)})
	}
	return p.countLoop(schedule.LoopKey{Parent: p.parent.UID(), Type: p.parent.Type(), Object: p.parent.Key()}, writes)
}

// echoed says whether a write was prompted by nothing but the child's answer to
// the last write. Such an answer is the status that a controller gives to every
// spec; it comes within a moment of the write, or in a conflict loop at any time.
// Were it a change by someone else, a Deployment that the handler wants different
// at every call would never count as a conflict loop.
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

// countLoop counts a suspicious write. A conflict loop that it completes is
// logged, counted and recorded as an Event. It says whether the parent is in a
// conflict loop.
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
