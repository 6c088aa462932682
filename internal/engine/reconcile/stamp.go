package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/shard"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// Where replicas share the parents, the watches of children select those whose label has a
// bucket of the shard. Children that were made before the parents were divided don't have
// the label. They get it by a patch before the watches begin, whatever their strategy says
// of changes: the label is none of what the handler wants.

// Stamp gives the children of the shard's parents the label of their bucket, if they lack
// it. A list or a patch that fails is tried again until ctx ends. A list that is forbidden is an error, and a
// patch that is refused is left to the pass of the parent.
func (e *Engine) Stamp(ctx context.Context) error {
	for _, k := range e.types().Children {
		if k.Unserved {
			continue
		}
		for _, l := range e.listsOf(k) {
			if err := e.retryList(ctx, l, sought{"without a bucket", []string{"list", "patch"}}, e.stampListed); err != nil {
				return err
			}
		}
	}
	return nil
}

// stampListed gives the children in a list the label of their bucket.
func (e *Engine) stampListed(ctx context.Context, l listOf) error {
	var lacking []*resource.Resource
	err := e.client.EachMetadata(ctx, l.kind, l.namespace, e.UnstampedSelector(), func(res *resource.Resource) {
		tracked, _ := res.Label(e.Config.TrackingLabel)
		parent := types.UID(tracked)
		if e.Shard.Owns(parent) && res.IsControlledBy(e.Config.Parent.GroupVersionKind().GroupKind(), parent) {
			lacking = append(lacking, res)
		}
	})
	if err != nil {
		return fmt.Errorf("%s: list: %w", l.kind.Type, err)
	}
	if len(lacking) == 0 {
		return nil
	}
	errs := make([]error, len(lacking))
	e.each(len(lacking), func(i int) { errs[i] = e.stamp(ctx, l.kind, lacking[i]) })
	for _, err := range errs {
		if err != nil {
			return err // the next list finds what is left
		}
	}
	e.log.InfoContext(ctx, "labelled children with the bucket of their parent", "type", l.kind.Type.String(), "children", len(lacking))
	return nil
}

// stamp gives a child the label of its bucket. That the child is gone, or another one has
// its name, is no error.
func (e *Engine) stamp(ctx context.Context, k *catalog.Kind, child *resource.Resource) error {
	tracked, _ := child.Label(e.Config.TrackingLabel)
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":    child.UID(),
		"labels": map[string]any{e.Bucket: strconv.Itoa(shard.Bucket(strings.Clone(tracked)))},
	}})
	if err != nil {
		return fmt.Errorf("%s: %w", object.RefOf(child), err)
	}
	_, err = e.client.Patch(ctx, k, child.Key(), types.MergePatchType, body)
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case apierrors.IsForbidden(err), apierror.IsNo(err):
		// The pass of its parent tries to create it, finds it, and tells of what keeps it from being labelled.
		e.log.WarnContext(ctx, "a child can't be labelled with the bucket of its parent", "child", object.RefOf(child).String(), "error", catalog.Forbidden(k, "patch", err))
		return nil
	}
	return fmt.Errorf("%s: label with the bucket: %w", object.RefOf(child), err)
}
