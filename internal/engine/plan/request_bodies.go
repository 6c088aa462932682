package plan

import (
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/resource"
)

// The bodies of the requests that an action makes. They share parts with the
// objects that they are made of, so the caller must not change them.

// CreateBody returns d as it is created, with the engine's labels, the owner
// reference to parent, and the mark.
func CreateBody(s *catalog.Settings, d *Desired, parent *resource.Resource) any {
	return jsonvalue.NullFree(full(s, d, parent))
}

// TrialBody returns d as CreateBody does, but under a name that no child has. It is
// for a dry run while the child exists. The same child gets the same name.
func TrialBody(s *catalog.Settings, d *Desired, parent *resource.Resource) any {
	other := *d
	other.object = maps.Clone(d.object)
	cloneObject(other.object, "metadata")["name"] = "roperator-dry-run-" + hex.EncodeToString(d.sum[:8])
	return CreateBody(s, &other, parent)
}

// UpdateBody returns the live object with the desired state merged in. It lacks the
// fields that an earlier desired state had set and this one doesn't. It carries
// the live resourceVersion, so that the API server refuses it, as a conflict, if
// the object has changed. Fields at the paths in ignore keep the live values, and
// so do those that the API server normalizes.
func UpdateBody(s *catalog.Settings, a *Action, parent *resource.Resource, ignore ...string) map[string]any {
	return a.Kind.Comparison.Without(append(a.settledPaths(), ignore...)).Merge(a.LiveObject(), full(s, a.Want, parent), a.former)
}

// ApplyBody returns the desired state for a server-side apply. It carries the UID of
// the live object, so that the apply can neither create an object nor change
// another object of the same name.
func ApplyBody(s *catalog.Settings, a *Action, parent *resource.Resource) any {
	body := a.Kind.Comparison.Without(a.settledPaths()).KeepIgnored(a.LiveObject(), full(s, a.Want, parent))
	meta, _ := body["metadata"].(map[string]any)
	meta["uid"] = string(a.Live.UID())
	return jsonvalue.NullFree(body)
}

// foreseenObject returns the live object as it will be after an update, without
// what the engine and the API server add.
func foreseenObject(a *Action) map[string]any {
	return a.Kind.Comparison.Without(a.settledPaths()).Merge(a.LiveObject(), a.Want.object, a.former)
}

// MarkPatch returns a JSON merge patch that brings the mark of a child up to date,
// and changes nothing else. The API server refuses the patch, as a conflict, if
// the child has changed since it was read.
func MarkPatch(s *catalog.Settings, a *Action) ([]byte, error) {
	return guardedPatch(a.Live, map[string]any{
		"annotations": map[string]any{s.Mark: newMark(a.Want)},
	})
}

// ClaimPatch returns a JSON merge patch that makes live a child of parent: it gives
// live the engine's labels and the owner reference. The API server refuses the
// patch, as a conflict, if the object has changed since it was read.
func ClaimPatch(s *catalog.Settings, live, parent *resource.Resource) ([]byte, error) {
	owners, err := json.Marshal(live.OwnerReferences())
	if err != nil {
		return nil, err
	}
	var refs []any
	if err := json.Unmarshal(owners, &refs); err != nil {
		return nil, err
	}
	refs = foreignOwners(map[string]any{"ownerReferences": refs}, parent.UID())
	return guardedPatch(live, map[string]any{
		"labels":          map[string]any{s.Config.TrackingLabel: string(parent.UID()), s.Config.OwnershipLabel: s.Config.Name},
		"ownerReferences": append(refs, s.OwnerReference(parent)),
	})
}

// guardedPatch returns a JSON merge patch of an object's metadata. It carries the UID
// and the resourceVersion of live, so that the API server answers with a conflict
// unless the object is still in this state.
func guardedPatch(live *resource.Resource, metadata map[string]any) ([]byte, error) {
	change, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, err
	}
	guard, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": live.UID(), "resourceVersion": live.ResourceVersion(),
	}})
	if err != nil {
		return nil, err
	}
	return jsonpatch.MergeMergePatches(guard, change)
}

// full returns d as it is written: with the engine's labels, the owner reference to
// parent, and the mark. It leaves d unchanged, and shares with d the parts that
// are the same.
func full(s *catalog.Settings, d *Desired, parent *resource.Resource) map[string]any {
	out := maps.Clone(d.object)
	meta, _ := out["metadata"].(map[string]any)
	meta = maps.Clone(meta)
	out["metadata"] = meta
	labels := cloneObject(meta, "labels")
	labels[s.Config.TrackingLabel] = string(parent.UID())
	labels[s.Config.OwnershipLabel] = s.Config.Name
	cloneObject(meta, "annotations")[s.Mark] = newMark(d)
	others, _ := meta["ownerReferences"].([]any)
	meta["ownerReferences"] = append(slices.Clip(others), s.OwnerReference(parent))
	return out
}

// AdoptOffline changes child, given as JSON values, into a child of parent, as
// ClaimPatch would: it sets the engine's labels and the owner reference.
func AdoptOffline(s *catalog.Settings, child map[string]any, parent *resource.Resource) {
	meta := objectAt(child, "metadata")
	labels := objectAt(meta, "labels")
	labels[s.Config.TrackingLabel], labels[s.Config.OwnershipLabel] = string(parent.UID()), s.Config.Name
	meta["ownerReferences"] = append(foreignOwners(meta, parent.UID()), s.OwnerReference(parent))
}
