package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// The finalizers of children that are being deleted. Such a child isn't changed, with
// one exception: a finalizer that the desired state had set goes once the desired
// state lacks it. Nobody else may be there to take it off.

// A Wait is a child that is being deleted, and that its finalizers hold.
type Wait struct {
	Ref        object.Ref
	Finalizers []string // those that hold it
	// Desired says that the child is created anew once it is gone. If it isn't, the
	// finalizers are those that the operator has set.
	Desired bool
}

// String says what is waited for.
func (w Wait) String() string {
	holders := strings.Join(w.Finalizers, ", ")
	if w.Desired {
		return w.Ref.String() + " is being deleted, and is created anew once it is gone; held by the finalizers " + holders
	}
	return w.Ref.String() + " is being deleted; held by the finalizers " + holders + ", which this operator has set; a response with the child, but without them, takes them off"
}

// GroupWaits returns the waits in groups: of children that are desired alike and held by the same finalizers. So thousands
// of children have one text.
func GroupWaits(waits []Wait) (groups [][]Wait) {
	places := map[string]int{}
	for _, w := range waits {
		key := fmt.Sprint(w.Desired, w.Finalizers)
		at, known := places[key]
		if !known {
			at, groups = len(groups), append(groups, nil)
			places[key] = at
		}
		groups[at] = append(groups[at], w)
	}
	return groups
}

// considerDeleting returns the action that a child needs which is desired and being
// deleted, false if it needs none. A child that is held is noted in Waits.
func (p *Plan) considerDeleting(s *catalog.Settings, in Input, d *Desired, live *resource.Resource) (Action, bool) {
	held := live.Finalizers()
	if len(held) == 0 {
		return Action{}, false
	}
	if err := d.load(s, in.Parent); err != nil {
		p.Refused = append(p.Refused, Refusal{Failure: Failure{Ref: d.ref, Verb: VerbUpdate, Err: err}})
		return Action{}, false
	}
	rest := finalizersWithout(s, d.kind, live, d.object)
	if len(rest) == len(held) {
		p.Waits = append(p.Waits, Wait{Ref: d.ref, Finalizers: held, Desired: true})
		return Action{}, false
	}
	return p.due(in, Action{
		Verb: VerbRelease, Kind: d.kind, Ref: d.ref, Live: live, Want: d,
		Diffs: []merge.Difference{{Path: finalizersPath, Live: anyList(held), Desired: anyList(rest)}},
	})
}

// finalizersPath is the path of the finalizers in every object.
const finalizersPath = "metadata.finalizers"

// noteHeld adds a child to Waits that is being deleted, isn't desired, and has
// finalizers that the operator has set.
func (p *Plan) noteHeld(s *catalog.Settings, k *catalog.Kind, child *resource.Resource) {
	held := child.Finalizers()
	if len(held) == 0 {
		return
	}
	others := finalizersWithout(s, k, child, nil)
	ours := slices.DeleteFunc(held, func(f string) bool { return slices.Contains(others, f) })
	if len(ours) > 0 {
		p.Waits = append(p.Waits, Wait{Ref: object.RefOf(child), Finalizers: ours})
	}
}

// finalizersWithout returns the finalizers of a live child without those that an
// earlier desired state had set and want lacks.
func finalizersWithout(s *catalog.Settings, k *catalog.Kind, live *resource.Resource, want map[string]any) []string {
	former := readMark(s, live).applied
	if former == nil {
		return live.Finalizers()
	}
	held := live.Finalizers()
	have := map[string]any{"metadata": map[string]any{"finalizers": anyList(held)}}
	meta, _ := want["metadata"].(map[string]any)
	desired := map[string]any{"metadata": map[string]any{"finalizers": meta["finalizers"]}}
	merged := k.Comparison.Merge(have, desired, former)
	kept, _ := valueAt(merged, "metadata", "finalizers").([]any)
	return slices.DeleteFunc(held, func(f string) bool { return !slices.Contains(kept, any(f)) })
}

// anyList returns a list of strings as a JSON value.
func anyList(list []string) []any {
	out := make([]any, 0, len(list))
	for _, item := range list {
		out = append(out, item)
	}
	return out
}

// releasedObject returns the live object as it is after a VerbRelease.
func releasedObject(a *Action) map[string]any {
	out := a.Live.Unstructured().Object
	cloneObject(out, "metadata")["finalizers"] = a.Diffs[0].Desired
	return out
}

// ReleasePatch returns a JSON merge patch that takes finalizers off a child, as a says.
// The API server refuses the patch, as a conflict, if the child has changed since it
// was read.
func ReleasePatch(a *Action) ([]byte, error) {
	return guardedPatch(a.Live, map[string]any{"finalizers": a.Diffs[0].Desired})
}
