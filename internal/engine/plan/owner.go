package plan

import (
	"encoding/json"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/resource"
)

// The owner reference to the parent, which makes an object a child. By it the
// garbage collector finds the parent: were its apiVersion no longer served, or its
// name another one, the child would never be collected, or at once.

// ownerDifferences returns the fields in which the owner reference of a live child
// to its parent isn't as the engine sets it. References are found by UID. There is
// no difference if the child has no reference with the parent's UID.
func ownerDifferences(s *catalog.Settings, live, parent *resource.Resource) []merge.Difference {
	for _, ref := range live.OwnerReferences() {
		if ref.UID != parent.UID() {
			continue
		}
		var diffs []merge.Difference
		want := s.OwnerReference(parent)
		have := map[string]any{
			"apiVersion": ref.APIVersion, "kind": ref.Kind, "name": ref.Name,
			"controller": boolOf(ref.Controller), "blockOwnerDeletion": boolOf(ref.BlockOwnerDeletion),
		}
		for _, field := range [...]string{"apiVersion", "kind", "name", "controller", "blockOwnerDeletion"} {
			if have[field] != want[field] {
				path := "metadata.ownerReferences[uid=" + strconv.Quote(string(parent.UID())) + "]." + field
				diffs = append(diffs, merge.Difference{Path: path, Live: have[field], Desired: want[field]})
			}
		}
		return diffs
	}
	return nil
}

// boolOf returns a pointer's value as a JSON value, nil for a nil pointer.
func boolOf(b *bool) any {
	if b == nil {
		return nil
	}
	return *b
}

// OwnerPatch returns a JSON merge patch that makes the owner reference of live to
// parent, and the label of the bucket, what the engine sets, and leaves the references to others as they are. The
// API server refuses the patch, as a conflict, if the object has changed since it
// was read.
func OwnerPatch(s *catalog.Settings, live, parent *resource.Resource) ([]byte, error) {
	refs, err := ownersWith(s, live, parent)
	if err != nil {
		return nil, err
	}
	metadata := map[string]any{"ownerReferences": refs}
	if s.Shard.Divides() {
		metadata["labels"] = map[string]any{s.Bucket: s.BucketOf(parent.UID())}
	}
	return guardedPatch(live, metadata)
}

// ownersWith returns the owner references of live with that to parent, which takes
// the place of any reference with the parent's UID.
func ownersWith(s *catalog.Settings, live, parent *resource.Resource) ([]any, error) {
	raw, err := json.Marshal(live.OwnerReferences())
	if err != nil {
		return nil, err
	}
	var refs, out []any
	if err := json.Unmarshal(raw, &refs); err != nil {
		return nil, err
	}
	placed := false
	for _, item := range refs {
		ref, _ := item.(map[string]any)
		switch {
		case ref["uid"] != string(parent.UID()):
			out = append(out, item)
		case !placed:
			out, placed = append(out, s.OwnerReference(parent)), true
		}
	}
	if !placed {
		out = append(out, s.OwnerReference(parent))
	}
	return out, nil
}

// foreignOwners returns the owner references in an object's metadata, without
// those to parent.
func foreignOwners(meta map[string]any, parent types.UID) []any {
	var others []any
	list, _ := meta["ownerReferences"].([]any)
	for _, item := range list {
		if ref, ok := item.(map[string]any); ok && ref["uid"] != string(parent) {
			others = append(others, ref)
		}
	}
	return others
}
