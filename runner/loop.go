package runner

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/fieldpath"
	"github.com/roperator/roperator/resource"
)

// maxShown bounds a value in a log or an Event, in bytes.
const maxShown = 100

// inputsLeft sums up what the pass leaves behind for the handler's next
// answer to depend on: what it was shown, and what it has written itself. If
// the next pass finds anything else, somebody else has changed something.
func (p *pass) inputsLeft() inputs {
	written := map[objectRef]*resource.Resource{}
	for _, r := range p.results {
		if r.wrote {
			written[r.action.ref] = r.live
		}
	}
	var children []*resource.Resource
	for _, child := range p.children {
		ref := objectRef{child.Type(), child.Key()}
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

func (p *pass) inputsOf(children []*resource.Resource) inputs {
	in := inputs{uid: p.parent.UID(), generation: p.parent.Generation(), parent: p.memory.parentSum(p.parent)}
	for _, child := range children {
		in.children += childSum(child.UID(), child.ResourceVersion()) // in any order
	}
	return in
}

// childSum is an FNV-1a hash, without what hash/fnv would allocate.
func childSum(uid types.UID, version string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	sum := uint64(offset)
	for _, text := range [...]string{string(uid), version} {
		for i := range len(text) {
			sum = (sum ^ uint64(text[i])) * prime
		}
	}
	return sum
}

// followUps is how many passes after one that was prompted may write what
// follows from it: what depends on a child of which only the API server knows
// the rest, and the status, which waits for the children.
const followUps = 2

// prompted says whether anyone but this operator has changed the parent or a
// child since its last pass, or only just before that. It is asked once a pass.
func (p *pass) prompted() bool {
	if p.inputsOf(p.children) != p.memory.inputs {
		p.memory.followUps = followUps
		return true
	}
	p.memory.followUps--
	return p.memory.followUps >= 0
}

// suspect counts a write that restores what someone else changed, or whose
// desired value changed unprompted. It says whether the parent is in a
// conflict loop.
func (p *pass) suspect(r *result, prompted bool) bool {
	a := r.action
	key := loopKey{Parent: p.parent.UID(), Type: a.ref.Type, Object: a.ref.Key}
	if prompted && !a.restores && p.echoed(a, key) {
		prompted = !p.loops.answered(time.Now(), key)
	}
	var writes []loopWrite
	switch a.verb {
	case verbUpdate, verbApply, verbRecreate:
		if !a.restores && prompted {
			return false
		}
		for _, d := range a.diffs {
			writes = append(writes, loopWrite{Path: d.Path, From: show(a.kind, d.Live), To: show(a.kind, d.Desired)})
		}
	case verbMark:
		if !a.restores && prompted {
			return false
		}
		writes = []loopWrite{{Path: "the desired state", To: show(a.kind, a.want.hash.String())}}
		if a.restores { // someone takes the mark off
			path := fieldpath.Path{fieldpath.Field("metadata"), fieldpath.Field("annotations"), fieldpath.Field(p.mark)}
			writes = []loopWrite{{Path: path.String()}}
		}
	case verbCreate: // someone takes our labels or the owner reference off
		if !r.claimed {
			return false
		}
		writes = []loopWrite{{Path: "metadata.labels and metadata.ownerReferences"}}
	case verbDelete: // a handler that names its children anew every time
		if prompted {
			return false
		}
		key.Object.Name = ""
		writes = []loopWrite{{Path: "metadata.name", From: a.ref.Key.Name}}
	default:
		return false
	}
	return p.countLoop(key, writes)
}

// echoInterval is the pace of a child that answers every write at once.
const echoInterval = time.Second

// echoed says whether all that prompted a write is the child's own answer to
// the last one, which was a moment ago or in a loop: the status that a
// controller gives to whatever it is told. Without that, a Deployment which the
// handler wants different at every call would seem to have been changed by
// someone each time.
func (p *pass) echoed(a *action, key loopKey) bool {
	if a.live == nil || a.want == nil {
		return false
	}
	known := p.memory.child(a.ref, a.live.UID())
	if known == nil || known.version == "" {
		return false
	}
	if at := time.Now(); at.Sub(time.Unix(0, known.wrote)) > echoInterval && !p.loops.lasts(at, key) {
		return false
	}
	now := p.inputsOf(p.children)
	now.children += childSum(a.live.UID(), known.version) - childSum(a.live.UID(), a.live.ResourceVersion())
	return now == p.memory.inputs
}

// countLoop counts a suspicious write, and tells of a loop when there is one.
func (p *pass) countLoop(key loopKey, writes []loopWrite) bool {
	now := time.Now()
	if found := p.loops.wrote(now, key, writes); found != nil {
		text := fmt.Sprintf("%s: %s is written again and again: %q", objectRef{key.Type, key.Object}, found.Path, found.Values)
		p.logger().Warn("conflict loop, slowing down", "type", key.Type.String(), "object", key.Object.String(), "field", found.Path, "values", found.Values)
		p.metrics.types[key.Type].loops.Inc()
		p.event(p.parent, warning, reasonConflictLoop, text)
		p.foundLoop(p.parent, key, found)
	}
	return p.loops.active(now, p.parent.UID())
}

// show prints a value for a log or an Event; of a Secret, nothing.
func show(k *kind, v any) string {
	if k.secret() {
		return "(hidden)"
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return shorten(string(raw), maxShown)
}

// shorten cuts a text to at most limit bytes, between characters.
func shorten(text string, limit int) string {
	const more = "…"
	if len(text) <= limit {
		return text
	}
	cut := limit - len(more)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + more
}
