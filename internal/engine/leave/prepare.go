package leave

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// tries bounds how often a write is tried while others keep changing the object.
const tries = 20

// Prepare does what an operator that works would undo. For KeepParents it pauses each
// parent and takes the operator's finalizers off; for KeepChildren it makes the children nobody's
// and, unless the parents stay too, deletes each parent after its children. Only parents
// of the survey are touched. One that the operator doesn't serve any more only loses the operator's finalizers.
// A parent that is being deleted keeps them, since somebody wants it finalized.
//
// A parent isn't deleted unless all of its children could be let go, those of the other operators included.
//
// alone says that nobody else writes meanwhile: the caller holds the lease. Otherwise parents are
// paused in either case, and children looked for once more before their parent goes. Prepare calls
// tell with a line about each operator. What fails doesn't keep it from the rest: the error
// joins what went wrong.
func Prepare(ctx context.Context, operators []Operator, surveys []Survey, how How, alone bool, tell func(string)) error {
	p := &preparation{how: how, alone: alone, deleted: map[types.UID]struct{}{}}
	var errs []error
	for i, o := range operators {
		l := &leaver{Operator: o}
		if err := l.look(ctx, &surveys[i], how); err != nil {
			l.unknown = true
			errs = append(errs, err)
		}
		p.leavers = append(p.leavers, l)
	}
	for _, l := range p.leavers {
		errs = append(errs, p.prepare(ctx, l))
	}
	for _, l := range p.leavers {
		if !l.unknown {
			tell(l.prepared(how))
		}
	}
	if ctx.Err() != nil {
		errs = append(errs, fmt.Errorf("uninstall: %w; run it again to go on", context.Cause(ctx)))
	}
	return errors.Join(errs...)
}

// A preparation is Prepare at work.
type preparation struct {
	how     How
	alone   bool
	leavers []*leaver
	deleted map[types.UID]struct{} // parents
}

// A leaver is an operator that leaves, and what there is of it.
type leaver struct {
	Operator
	found   []*resource.Resource  // parents of the survey, by namespace and name
	keep    map[types.UID][]child // children that are to stay, by their parents
	unknown bool                  // what there is couldn't be looked for

	ready int // parents that are prepared
	freed int // children that are nobody's now
}

// look finds what there is of the operator.
func (l *leaver) look(ctx context.Context, survey *Survey, how How) error {
	own, _, err := l.parents(ctx)
	if err != nil {
		return err
	}
	l.found = slices.DeleteFunc(own, func(p *resource.Resource) bool { return !survey.has(p.UID()) })
	l.keep = map[types.UID][]child{}
	if !how.KeepChildren {
		return nil
	}
	children, err := l.children(ctx, nil)
	if err != nil {
		return err
	}
	stripped, err := l.stripped(ctx, l.found)
	if err != nil {
		return err
	}
	for _, c := range slices.Concat(children, stripped) {
		l.keep[c.parent] = append(l.keep[c.parent], c)
	}
	return nil
}

// prepare is Prepare for the parents of one operator.
func (p *preparation) prepare(ctx context.Context, l *leaver) error {
	if l.unknown {
		return nil // which is an error already
	}
	var errs []error
	for _, parent := range l.found {
		if ctx.Err() != nil {
			break
		}
		if !l.Settings.Selects(parent) && !parent.IsDeleting() {
			errs = append(errs, l.change(ctx, l.Settings.Types.Parent, parent, l.releasePatch))
			continue
		}
		if err := p.prepareParent(ctx, l, parent); err != nil {
			errs = append(errs, err)
			continue
		}
		l.ready++
	}
	return errors.Join(errs...)
}

// prepared says what was done with an operator's parents and children.
func (l *leaver) prepared(how How) string {
	text := fmt.Sprintf("%s: parents deleted: %d", l.name(), l.ready)
	if how.KeepParents {
		text = fmt.Sprintf("%s: parents released: %d", l.name(), l.ready)
	}
	if how.KeepChildren {
		text += fmt.Sprintf(", children that are nobody's now: %d", l.freed)
	}
	return text
}

// has says whether the survey has found a parent.
func (s *Survey) has(uid types.UID) bool {
	return slices.ContainsFunc(s.Parents, func(p Remnant) bool { return p.UID == uid })
}

// prepareParent is Prepare for one parent that an operator serves.
func (p *preparation) prepareParent(ctx context.Context, l *leaver, parent *resource.Resource) error {
	if p.how.KeepParents {
		return p.letGo(ctx, l, parent)
	}
	if _, done := p.deleted[parent.UID()]; done { // by another operator's turn
		return nil
	}
	sharing := slices.DeleteFunc(slices.Clone(p.leavers), func(other *leaver) bool { return !other.sharesParents(l.Operator) })
	for _, other := range sharing {
		if other.unknown {
			return fmt.Errorf("%s: not deleted, since it isn't known what children of operator %s it has", object.RefOf(parent), other.name())
		}
	}
	for _, other := range sharing {
		if err := p.letGo(ctx, other, parent); err != nil {
			return err
		}
	}
	if err := l.delete(ctx, object.RefOf(parent), parent.UID()); err != nil {
		return err
	}
	p.deleted[parent.UID()] = struct{}{}
	return nil
}

// letGo makes a parent's children of one operator nobody's, if they are to stay. The parent is paused first if
// it stays, too, or if the operator may work.
func (p *preparation) letGo(ctx context.Context, l *leaver, parent *resource.Resource) error {
	if (p.how.KeepParents || !p.alone) && !parent.IsDeleting() {
		pause := func(live *resource.Resource) ([]byte, error) { return l.pausePatch(live, p.how.KeepParents) }
		if err := l.change(ctx, l.Settings.Types.Parent, parent, pause); err != nil {
			return err
		}
	}
	if !p.how.KeepChildren {
		return nil
	}
	children := l.keep[parent.UID()]
	for again := true; again; again = !p.alone && len(children) > 0 {
		for _, c := range children {
			if err := l.free(ctx, c); err != nil {
				return err
			}
			l.freed++
		}
		if !p.alone {
			var err error
			if children, err = l.children(ctx, parent); err != nil {
				return err
			}
		}
	}
	return nil
}

// pausePatch returns the patch that pauses a parent, unless somebody else has, and takes
// the operator's finalizers off if release says so. It returns nil if there is nothing to change.
func (o Operator) pausePatch(live *resource.Resource, release bool) ([]byte, error) {
	metadata := map[string]any{}
	if paused, _ := live.Annotation(o.Settings.Paused); paused != "true" {
		metadata["annotations"] = map[string]any{o.Settings.Paused: "true", o.pausedBy(): pausedByUs}
	}
	if release && o.holds(live) {
		metadata["finalizers"] = o.Settings.WithoutOurs(live.Finalizers())
	}
	return guarded(live, metadata)
}

// releasePatch returns the patch that takes the operator's finalizers off a parent that it
// doesn't serve. It returns nil if there is nothing to change.
func (o Operator) releasePatch(live *resource.Resource) ([]byte, error) {
	if !o.holds(live) || o.Settings.Selects(live) {
		return nil, nil
	}
	return guarded(live, map[string]any{"finalizers": o.Settings.WithoutOurs(live.Finalizers())})
}

// guarded returns a JSON merge patch of an object's metadata, which the API server refuses
// as a conflict if the object has changed. It returns nil if there is nothing to change.
func guarded(live *resource.Resource, metadata map[string]any) ([]byte, error) {
	if len(metadata) == 0 {
		return nil, nil
	}
	metadata["uid"], metadata["resourceVersion"] = live.UID(), live.ResourceVersion()
	return json.Marshal(map[string]any{"metadata": metadata})
}

// free makes a child nobody's, so that it survives its parent.
func (o Operator) free(ctx context.Context, c child) error {
	group := o.Settings.Config.Parent.GroupVersionKind().GroupKind()
	return o.change(ctx, c.kind, c.object, func(live *resource.Resource) ([]byte, error) {
		if tracked, _ := live.Label(o.Settings.Config.TrackingLabel); types.UID(tracked) != c.parent && !live.IsControlledBy(group, c.parent) {
			return nil, nil
		}
		return plan.LetGoPatch(o.Settings, live, c.parent)
	})
}

// change patches an object as patch says for its newest state, which is live at first. A
// nil patch changes nothing. An object that is gone, or another one of the same name, is left alone.
func (o Operator) change(ctx context.Context, k *catalog.Kind, live *resource.Resource, patch func(live *resource.Resource) ([]byte, error)) error {
	ref, uid := object.RefOf(live), live.UID()
	var last error
	for range tries {
		body, err := patch(live)
		if err != nil {
			return fmt.Errorf("%s: %w", ref, err)
		}
		if body == nil {
			return nil
		}
		_, last = o.Client.Patch(ctx, k, ref.Key, types.MergePatchType, body)
		switch {
		case last == nil, apierror.IsMissing(last, ref.Key.Name):
			return nil
		case !apierrors.IsConflict(last):
			return fmt.Errorf("%s: patch: %w", ref, last)
		}
		live, err = o.Client.Get(ctx, k, ref.Key)
		switch {
		case apierror.IsMissing(err, ref.Key.Name), err == nil && live.UID() != uid:
			return nil
		case err != nil:
			return fmt.Errorf("%s: read: %w", ref, err)
		}
	}
	return fmt.Errorf("%s: patch: others keep changing it: %w", ref, last)
}

// delete deletes a parent. One that is gone, or another one of the same name, is left alone.
func (o Operator) delete(ctx context.Context, ref object.Ref, uid types.UID) error {
	k := o.Settings.Types.Parent
	_, err := o.Client.Delete(ctx, k, ref.Key, uid, "")
	if err == nil || apierror.IsMissing(err, ref.Key.Name) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("%s: delete: %w", ref, catalog.Forbidden(k, "delete", err))
}

// Resume ends the pauses that are Prepare's work. It is for parents that stay, once no
// operator works any more.
func Resume(ctx context.Context, operators []Operator) error {
	var errs []error
	for _, o := range operators {
		own, others, err := o.parents(ctx)
		errs = append(errs, err)
		for _, parent := range slices.Concat(own, others) { // one may have been paused before it left the ParentSelector
			if o.isPaused(parent) {
				errs = append(errs, o.change(ctx, o.Settings.Types.Parent, parent, o.resumePatch))
			}
		}
	}
	return errors.Join(errs...)
}

// resumePatch returns the patch that ends a pause.
func (o Operator) resumePatch(live *resource.Resource) ([]byte, error) {
	if !o.isPaused(live) {
		return nil, nil
	}
	return guarded(live, map[string]any{"annotations": map[string]any{o.Settings.Paused: nil, o.pausedBy(): nil}})
}
