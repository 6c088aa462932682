package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// kubectlManager is the field manager of kubectl apply.
const kubectlManager = "kubectl-client-side-apply"

// supposedVersion is the resourceVersion of a parent that the API server doesn't have.
const supposedVersion = "1"

// suppose finds out what the API server would make of an edited parent, by a dry run.
// Where that isn't to be sent, or is refused as such, suppose computes what it can.
func (e *Engine) suppose(ctx context.Context, d *plan.Edited) (*supposition, error) {
	ctx = client.WarningsTo(ctx, nil, object.Ref{Type: e.Types.Parent.Type, Key: d.Key()})
	live, err := e.client.Get(ctx, e.Types.Parent, d.Key())
	switch {
	case apierror.IsMissing(err, d.Key().Name):
		return e.supposeNew(ctx, d)
	case err != nil:
		return nil, fmt.Errorf("read: %w", catalog.Forbidden(e.Types.Parent, "get", err))
	}
	if err := d.CheckAgainst(live); err != nil {
		return nil, err
	}
	change, err := e.editOf(ctx, d, live)
	if err != nil {
		return nil, err
	}
	made, err := e.tryEdit(ctx, d.Key(), change)
	switch {
	case apierror.RefusesDryRun(err):
		made, err = change.onto(live)
		return &supposition{parent: made, untold: true}, err
	case err != nil:
		return nil, err
	}
	return &supposition{parent: made}, nil
}

// supposeNew is suppose for a parent that the API server doesn't have.
func (e *Engine) supposeNew(ctx context.Context, d *plan.Edited) (*supposition, error) {
	if d.Whole() {
		return nil, errors.New("there is no such object, though metadata.resourceVersion says that it was read; take resourceVersion and uid out to create it")
	}
	made, err := e.client.DryCreate(ctx, e.Types.Parent, d.Key().Namespace, d.Object)
	untold := apierror.RefusesDryRun(err)
	switch {
	case untold:
		made = maps.Clone(d.Object)
	case err != nil:
		return nil, fmt.Errorf("create: %w", err)
	}
	meta := maps.Clone(plan.MetadataOf(made))
	meta["resourceVersion"] = supposedVersion
	if untold {
		meta["uid"], meta["generation"] = string(uuid.NewUUID()), int64(1)
	}
	made["metadata"] = meta
	parent, err := resource.New(made)
	return &supposition{parent: parent, isNew: true, untold: untold}, err
}

// An edit is a request that makes of a live parent what it would be.
type edit struct {
	whole   map[string]any  // the body of an update; nil: it is a patch
	kind    types.PatchType // of a patch
	patch   []byte
	manager string // the field manager of a patch
}

// editOf returns the edit by which kubectl apply would change a live parent. That is a
// server-side apply as the field manager that has applied the parent last, unless kubectl has
// noted at the parent what it was given: then it is a three-way merge. A whole object
// replaces the live one.
func (e *Engine) editOf(ctx context.Context, d *plan.Edited, live *resource.Resource) (edit, error) {
	if d.Whole() {
		whole := maps.Clone(d.Object)
		if status, ok := live.Field("status"); ok {
			whole["status"] = status
		}
		return edit{whole: whole}, nil
	}
	if _, merges := live.Annotation(plan.LastApplied); !merges {
		manager, err := e.applierOf(ctx, live)
		if err != nil || manager != "" {
			body, encodeErr := json.Marshal(d.Object)
			return edit{kind: types.ApplyYAMLPatchType, patch: body, manager: manager}, errors.Join(err, encodeErr)
		}
	}
	modified, original, err := d.AsApplied(live)
	if err != nil {
		return edit{}, err
	}
	current, err := live.MarshalJSON()
	if err != nil {
		return edit{}, err
	}
	typed, err := scheme.Scheme.New(live.Type().GroupVersionKind())
	if runtime.IsNotRegisteredError(err) {
		patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(original, modified, current)
		return edit{kind: types.MergePatchType, patch: patch, manager: kubectlManager}, err
	}
	if err != nil {
		return edit{}, err
	}
	lookup, err := strategicpatch.NewPatchMetaFromStruct(typed)
	if err != nil {
		return edit{}, err
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch(original, modified, current, lookup, true)
	return edit{kind: types.StrategicMergePatchType, patch: patch, manager: kubectlManager}, err
}

// applierOf returns the field manager that was the last to apply a parent by server-side
// apply, "" if none was. The operator itself doesn't count.
func (e *Engine) applierOf(ctx context.Context, live *resource.Resource) (string, error) {
	meta, err := e.client.ManagedFields(ctx, e.Types.Parent, live.Key())
	if err != nil {
		return "", fmt.Errorf("read: %w", catalog.Forbidden(e.Types.Parent, "get", err))
	}
	manager, at := "", metav1.Time{}
	for _, entry := range meta.ManagedFields {
		if entry.Operation != metav1.ManagedFieldsOperationApply || entry.Subresource != "" || entry.Manager == e.Config.Name {
			continue
		}
		if manager == "" || entry.Time != nil && at.Before(entry.Time) {
			manager = entry.Manager
			if entry.Time != nil {
				at = *entry.Time
			}
		}
	}
	return manager, nil
}

// tryEdit returns what an edit would make of a parent.
func (e *Engine) tryEdit(ctx context.Context, key types.NamespacedName, change edit) (*resource.Resource, error) {
	if change.whole != nil {
		return e.client.Update(ctx, e.Types.Parent, key, "", change.whole, true)
	}
	return e.client.DryPatchAs(ctx, e.Types.Parent, key, change.kind, change.patch, change.manager)
}

// onto returns what an edit makes of a live parent, without defaults, and without what
// admission does. Of a server-side apply it doesn't know which fields it would take away.
func (c edit) onto(live *resource.Resource) (*resource.Resource, error) {
	before := live.Unstructured().Object
	after := maps.Clone(c.whole)
	if c.whole == nil {
		raw, err := c.patched(live)
		if err != nil {
			return nil, err
		}
		if err := kjson.Unmarshal(raw, &after); err != nil {
			return nil, err
		}
	}
	was, meta := plan.MetadataOf(before), maps.Clone(plan.MetadataOf(after))
	for _, own := range []string{"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "generation"} {
		if meta[own] = was[own]; was[own] == nil {
			delete(meta, own)
		}
	}
	after["metadata"] = meta
	if status, ok := before["status"]; ok {
		after["status"] = status
	}
	if generation := live.Generation(); generation > 0 && !jsonvalue.Equal(before["spec"], after["spec"]) {
		meta["generation"] = generation + 1
	}
	return resource.New(after)
}

// patched returns a live parent with the patch.
func (c edit) patched(live *resource.Resource) ([]byte, error) {
	raw, err := live.MarshalJSON()
	if err != nil {
		return nil, err
	}
	if c.kind != types.StrategicMergePatchType {
		return jsonpatch.MergePatch(raw, c.patch)
	}
	typed, err := scheme.Scheme.New(live.Type().GroupVersionKind())
	if err != nil {
		return nil, err
	}
	return strategicpatch.StrategicMergePatch(raw, c.patch, typed)
}
