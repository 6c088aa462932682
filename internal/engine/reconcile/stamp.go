package reconcile

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
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// Where replicas share the parents, the watches of children select those whose label has a
// bucket of the shard. Children that were made before the parents were divided don't have
// the label. They get it by a patch before the watches begin, whatever their strategy says
// of changes: the label is none of what the handler wants.

// Stamp gives the children of the shard's parents the label of their bucket, if they lack
// it or have another value. A list that fails is tried again until ctx ends, except if it is forbidden. A patch
// that fails is tried again later: see keepStamped.
func (e *Engine) Stamp(ctx context.Context) error {
	var lists []listOf
	for _, k := range e.types().Children {
		if !k.Unserved {
			lists = append(lists, e.listsOf(k)...)
		}
	}
	return e.retryLists(ctx, lists, sought{"without a bucket", []string{"list", "patch"}}, func(ctx context.Context, l listOf) error {
		failed, err := e.stampAll(ctx, l)
		if failed {
			e.stampAgain()
		}
		return err
	})
}

// stampAgain has keepStamped look for children that lack the label of their bucket: a list or a patch has failed.
func (e *Engine) stampAgain() {
	select {
	case e.lacking <- struct{}{}:
	default: // it will look anyway
	}
}

// keepStamped gives children the label of their bucket after each stampAgain, until that succeeds. It returns when ctx
// ends. The watches tell of the children then.
func (e *Engine) keepStamped(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.lacking:
		}
		said := ""
		for delay := listRetry; !e.stampOnce(ctx, &said); delay = min(2*delay, maxFindDelay) {
			if !sleep(ctx, delay) {
				return
			}
		}
	}
}

// stampOnce makes one list of each type of children, and says whether no child lacks the label any more. The log has
// what keeps it from listing, unless that is what it has said before.
func (e *Engine) stampOnce(ctx context.Context, said *string) bool {
	complete := true
	var errs []error
	for _, k := range e.types().Children {
		if k.Unserved {
			continue
		}
		for _, l := range e.listsOf(k) {
			failed, err := e.stampAll(ctx, l)
			complete = complete && !failed && err == nil
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil && ctx.Err() == nil && err.Error() != *said {
		*said = err.Error()
		e.log.WarnContext(ctx, "can't look for children without the label of their parent's bucket yet, retrying", "error", apierror.Join(errs))
	}
	return complete
}

// stampAll gives the children in a list the label of their bucket. failed says that the API server
// couldn't carry out a patch, which the log tells of. err is that of the list.
func (e *Engine) stampAll(ctx context.Context, l listOf) (failed bool, err error) {
	var lacking []*resource.Resource
	err = e.client.EachMetadata(ctx, l.kind, l.namespace, e.UnstampedSelector(), func(res *resource.Resource) {
		tracked, _ := res.Label(e.Config.TrackingLabel)
		parent := types.UID(tracked)
		if e.Shard.Owns(parent) && res.IsControlledBy(e.Config.Parent.GroupVersionKind().GroupKind(), parent) {
			lacking = append(lacking, res)
		}
	})
	if err != nil {
		return false, fmt.Errorf("%s: list: %w", l.kind.Type, err)
	}
	if len(lacking) == 0 {
		return false, nil
	}
	stamped, errs := each(e, len(lacking), func(i int) (*resource.Resource, error) {
		e.slots <- struct{}{} // other lists are looked at meanwhile
		defer func() { <-e.slots }()
		return e.stamp(ctx, l.kind, lacking[i])
	})
	labelled := len(slices.DeleteFunc(stamped, func(child *resource.Resource) bool { return child == nil }))
	if failed = errors.Join(errs...) != nil; failed {
		if ctx.Err() == nil {
			e.log.WarnContext(ctx, "children can't be labelled with the bucket of their parent yet, retrying", "type", l.kind.Type.String(), "error", apierror.Join(errs))
		}
		return true, nil
	}
	if labelled > 0 {
		e.log.InfoContext(ctx, "labelled children with the bucket of their parent", "type", l.kind.Type.String(), "children", labelled)
	}
	return false, nil
}

// stamp gives a child the label of its bucket, and returns it as it is then. It returns nothing if the child is gone,
// has changed since, or the API server refuses the patch, which the log tells of.
func (e *Engine) stamp(ctx context.Context, k *catalog.Kind, child *resource.Resource) (*resource.Resource, error) {
	tracked, _ := child.Label(e.Config.TrackingLabel)
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":    child.UID(),
		"labels": map[string]any{e.Bucket: e.BucketOf(types.UID(tracked))},
	}})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", object.RefOf(child), err)
	}
	stamped, err := e.client.Patch(ctx, k, child.Key(), types.MergePatchType, body)
	switch {
	case err == nil:
		return stamped, nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil, nil
	case apierrors.IsForbidden(err), apierror.IsNo(err):
		// The pass of its parent tries to create it, finds it, and tells of what keeps it from being labelled.
		e.log.WarnContext(ctx, "a child can't be labelled with the bucket of its parent", "child", object.RefOf(child).String(), "error", catalog.Forbidden(k, "patch", err))
		return nil, nil
	}
	return nil, fmt.Errorf("%s: label with the bucket: %w", object.RefOf(child), err)
}
