package plan

import (
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/resource"
)

// The bodies of the requests that an action makes.

// CreateBody returns a child as it is created.
func CreateBody(s *catalog.Settings, d *Desired, parent *resource.Resource) any {
	return jsonvalue.NullFree(full(s, d, parent))
}

// TrialBody returns a child as createBody does, under a name that no child has:
// for a dry run beside a child that exists.
func TrialBody(s *catalog.Settings, d *Desired, parent *resource.Resource) any {
	other := *d
	other.Object = maps.Clone(d.Object)
	cloneObject(other.Object, "metadata")["name"] = "roperator-dry-run-" + hex.EncodeToString(d.sum[:8])
	return CreateBody(s, &other, parent)
}

// UpdateBody returns the live object with the desired state merged in, and
// without the fields that an earlier desired state had set and this one lacks.
// It carries the live resourceVersion. Paths in ignore keep the live values.
func UpdateBody(s *catalog.Settings, a *Action, parent *resource.Resource, ignore ...string) map[string]any {
	return a.Kind.Comparison.Without(append(a.settledPaths(), ignore...)).Merge(a.LiveObject(), full(s, a.Want, parent), a.former)
}

// ApplyBody returns the desired state for a server-side apply. It carries the
// UID of the live object, so that it can neither create nor take over another.
func ApplyBody(s *catalog.Settings, a *Action, parent *resource.Resource) any {
	body := a.Kind.Comparison.Without(a.settledPaths()).KeepIgnored(a.LiveObject(), full(s, a.Want, parent))
	meta, _ := body["metadata"].(map[string]any)
	meta["uid"] = string(a.Live.UID())
	return jsonvalue.NullFree(body)
}

// foreseenObject returns the live object as it will be after the action, as far
// as the operator has a say in it, and without what the engine adds.
func foreseenObject(a *Action) map[string]any {
	return a.Kind.Comparison.Without(a.settledPaths()).Merge(a.LiveObject(), a.Want.Object, a.former)
}

// MarkPatch returns a JSON merge patch that brings nothing but the mark of a
// child up to date.
func MarkPatch(s *catalog.Settings, a *Action) ([]byte, error) {
	return guardedPatch(a.Live, map[string]any{
		"annotations": map[string]any{s.Mark: newMark(a.Want)},
	})
}

// ClaimPatch returns a JSON merge patch that makes live a child of parent.
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

// guardedPatch returns a JSON merge patch of an object's metadata, which the
// server takes only (else: a conflict) while the object is the one that is
// live, in this state.
func guardedPatch(live *resource.Resource, metadata map[string]any) ([]byte, error) {
	metadata["uid"], metadata["resourceVersion"] = string(live.UID()), live.ResourceVersion()
	return json.Marshal(map[string]any{"metadata": metadata})
}

// full returns a child as it is written: with the engine's labels, owner
// reference and mark. It shares what it doesn't change with d.
func full(s *catalog.Settings, d *Desired, parent *resource.Resource) map[string]any {
	out := maps.Clone(d.Object)
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

// AdoptOffline gives an object the labels and the owner reference that make it
// a child of parent.
func AdoptOffline(s *catalog.Settings, child map[string]any, parent *resource.Resource) {
	meta := objectAt(child, "metadata")
	labels := objectAt(meta, "labels")
	labels[s.Config.TrackingLabel], labels[s.Config.OwnershipLabel] = string(parent.UID()), s.Config.Name
	meta["ownerReferences"] = append(foreignOwners(meta, parent.UID()), s.OwnerReference(parent))
}
