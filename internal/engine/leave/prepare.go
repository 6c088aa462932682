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
// of the survey are touched. A parent that is being deleted keeps its finalizers, since somebody
// wants it finalized.
//
// alone says that nobody else writes meanwhile: the caller holds the lease. Otherwise parents are
// paused in either case, and children looked for once more before their parent goes. Prepare calls
// tell with a line about each operator. What fails doesn't keep it from the rest: the error
// joins what went wrong.
func Prepare(ctx context.Context, operators []Operator, surveys []Survey, how How, alone bool, tell func(string)) error {
	var errs []error
	for i, o := range operators {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, fmt.Errorf("uninstall: %w; run it again to go on", context.Cause(ctx)))...)
		}
		errs = append(errs, o.prepare(ctx, surveys[i], how, alone, tell))
	}
	return errors.Join(errs...)
}

// prepare is Prepare for one operator.
func (o Operator) prepare(ctx context.Context, survey Survey, how How, alone bool, tell func(string)) error {
	parents, err := o.parents(ctx)
	if err != nil {
		return err
	}
	parents = slices.DeleteFunc(parents, func(p *resource.Resource) bool { return !survey.has(p.UID()) })
	byParent := map[types.UID][]child{}
	if how.KeepChildren {
		children, err := o.children(ctx, nil)
		if err != nil {
			return err
		}
		for _, c := range children {
			byParent[c.parent] = append(byParent[c.parent], c)
		}
	}
	var errs []error
	released, kept := 0, 0
	for _, parent := range parents {
		if ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("uninstall: %w; run it again to go on", context.Cause(ctx)))
			break
		}
		freed, err := o.prepareParent(ctx, parent, byParent[parent.UID()], how, alone)
		kept += freed
		if err != nil {
			errs = append(errs, err)
			continue
		}
		released++
	}
	tell(prepared(o.name(), how, released, kept))
	return errors.Join(errs...)
}

// prepared says what was done with an operator's parents and children.
func prepared(name string, how How, parents, children int) string {
	text := fmt.Sprintf("%s: parents deleted: %d", name, parents)
	if how.KeepParents {
		text = fmt.Sprintf("%s: parents released: %d", name, parents)
	}
	if how.KeepChildren {
		text += fmt.Sprintf(", children that are nobody's now: %d", children)
	}
	return text
}

// has says whether the survey has found a parent.
func (s *Survey) has(uid types.UID) bool {
	return slices.ContainsFunc(s.Parents, func(p Remnant) bool { return p.UID == uid })
}

// prepareParent is Prepare for one parent, and returns how many of its children are
// nobody's now.
func (o Operator) prepareParent(ctx context.Context, parent *resource.Resource, children []child, how How, alone bool) (freed int, err error) {
	if (how.KeepParents || !alone) && !parent.IsDeleting() {
		if err := o.change(ctx, o.Settings.Types.Parent, parent, func(live *resource.Resource) ([]byte, error) { return o.pausePatch(live, how.KeepParents) }); err != nil {
			return 0, err
		}
	}
	if !how.KeepChildren {
		return 0, nil
	}
	for again := true; again; again = !alone && len(children) > 0 {
		for _, c := range children {
			if err := o.free(ctx, c); err != nil {
				return freed, err
			}
			freed++
		}
		if !alone {
			if children, err = o.children(ctx, parent); err != nil {
				return freed, err
			}
		}
	}
	if how.KeepParents {
		return freed, nil
	}
	return freed, o.delete(ctx, object.RefOf(parent), parent.UID())
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
		parents, err := o.parents(ctx)
		errs = append(errs, err)
		for _, parent := range parents {
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
