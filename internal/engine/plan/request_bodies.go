package plan

import (
	"encoding/json"
	"maps"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/merge"
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
	cloneObject(other.object, "metadata")["name"] = trialName(d)
	return CreateBody(s, &other, parent)
}

// ChoiceBody returns what TrialBody does, with the labels and annotations that others have given the live child: webhooks may go by
// them.
func ChoiceBody(s *catalog.Settings, a *Action, parent *resource.Resource) any {
	other := *a.Want
	other.object = maps.Clone(a.Want.object)
	meta := cloneObject(other.object, "metadata")
	live, _ := a.LiveObject()["metadata"].(map[string]any)
	for _, name := range [...]string{"labels", "annotations"} {
		theirs, _ := live[name].(map[string]any)
		all := maps.Clone(theirs)
		if all == nil {
			continue
		}
		delete(all, s.Mark)
		ours, _ := meta[name].(map[string]any)
		maps.Copy(all, ours)
		meta[name] = all
	}
	return TrialBody(s, &other, parent)
}

// AloneBody returns the body of an update that leaves of the live child nothing but what the API server keeps itself.
func AloneBody(s *catalog.Settings, a *Action, parent *resource.Resource) any {
	body := jsonvalue.NullFree(full(s, a.Want, parent))
	if object, ok := body.(map[string]any); ok {
		object = maps.Clone(object)
		meta := cloneObject(object, "metadata")
		meta["uid"], meta["resourceVersion"] = string(a.Live.UID()), a.Live.ResourceVersion()
		return object
	}
	return body
}

// UpdateBody returns the live object with the desired state merged in. It lacks the
// fields that an earlier desired state had set and this one doesn't. It carries
// the live resourceVersion, so that the API server refuses it, as a conflict, if
// the object has changed. Where the API server has chosen the value, it stays.
func UpdateBody(s *catalog.Settings, a *Action, parent *resource.Resource) map[string]any {
	wanted := full(s, a.Want, parent)
	return withOurs(s, wanted, a, a.Kind.Comparison.Without(a.settledPaths()).Merge(a.LiveObject(), wanted, a.former))
}

// ApplyBody returns what a server-side apply sends for the child of an action, nil
// if no apply makes of the live object what the update with UpdateBody would: see
// merge.Comparison.Applied. The body carries the UID and the resourceVersion of the
// live object. So the apply can neither create an object nor change another object
// of the same name, and is refused, as a conflict, if the object has changed. merged
// is the UpdateBody of a.
func ApplyBody(s *catalog.Settings, a *Action, parent *resource.Resource, merged map[string]any) *merge.Application {
	compared, wanted := a.Kind.Comparison.Without(a.settledPaths()), full(s, a.Want, parent)
	out := compared.Applied(a.LiveObject(), applied(a, wanted), merged, a.former)
	if out == nil {
		return nil
	}
	out.Body = withOurs(s, wanted, a, out.Body)
	meta := cloneObject(out.Body, "metadata")
	meta["uid"], meta["resourceVersion"] = string(a.Live.UID()), a.Live.ResourceVersion()
	out.Sure = out.Sure && !a.unmarked
	return out
}

// OwningBody returns the body of an update that takes the place of a server-side
// apply: body, with two differences. Fields that somebody else applies as well stay,
// and the desired fields become those of the operator's applies. owned is what the
// live object's managedFields say. An entry that is added has the time now.
func OwningBody(s *catalog.Settings, a *Action, parent *resource.Resource, body map[string]any, owned *merge.Ownership, now metav1.Time) (map[string]any, error) {
	live := a.LiveObject()
	entries, err := owned.Applied(live, applied(a, full(s, a.Want, parent)), a.Want.kind.Comparison.Ignore, now)
	if err != nil {
		return nil, err
	}
	out := maps.Clone(owned.KeepShared(live, body))
	if len(entries) > 0 { // the API server keeps none of large objects
		cloneObject(out, "metadata")["managedFields"] = entries
	}
	return out, nil
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
		"annotations": map[string]any{s.Mark: newMark(s, a.Want)},
	})
}

// ClaimPatch returns a JSON merge patch that makes live a child of parent: it gives
// live the engine's labels and the owner reference. The API server refuses the
// patch, as a conflict, if the object has changed since it was read.
func ClaimPatch(s *catalog.Settings, live, parent *resource.Resource) ([]byte, error) {
	owners, err := ownersWith(s, live, parent)
	if err != nil {
		return nil, err
	}
	labels := map[string]any{}
	s.Label(labels, parent.UID())
	return guardedPatch(live, map[string]any{
		"labels":          labels,
		"ownerReferences": owners,
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

// withOurs returns body with the engine's labels, its owner reference and the mark, as
// wanted has them: they are written even if the handler's are ignored.
func withOurs(s *catalog.Settings, wanted map[string]any, a *Action, body map[string]any) map[string]any {
	if len(a.Kind.Comparison.Ignore) == 0 {
		return body
	}
	meta, _ := wanted["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	own := map[string]any{}
	for _, name := range s.LabelNames() {
		if value, ok := labels[name]; ok {
			own[name] = value
		}
	}
	annotations, _ := meta["annotations"].(map[string]any)
	owners, _ := meta["ownerReferences"].([]any)
	ours := map[string]any{"metadata": map[string]any{
		"labels":          own,
		"annotations":     map[string]any{s.Mark: annotations[s.Mark]},
		"ownerReferences": owners[len(owners)-1:],
	}}
	return (&merge.Comparison{}).Merge(body, ours, nil)
}

// full returns d as it is written: with the engine's labels, the owner reference to
// parent, and the mark. It leaves d unchanged, and shares with d the parts that
// are the same.
func full(s *catalog.Settings, d *Desired, parent *resource.Resource) map[string]any {
	out := maps.Clone(d.object)
	meta, _ := out["metadata"].(map[string]any)
	meta = maps.Clone(meta)
	out["metadata"] = meta
	s.Label(cloneObject(meta, "labels"), parent.UID())
	cloneObject(meta, "annotations")[s.Mark] = newMark(s, d)
	others, _ := meta["ownerReferences"].([]any)
	meta["ownerReferences"] = append(slices.Clip(others), s.OwnerReference(parent))
	return out
}

// applied returns what an apply says of the desired state, of which wanted is what is written: all but the fields that are left to
// others, or that keep another client's value.
func applied(a *Action, wanted map[string]any) map[string]any {
	others := &merge.Comparison{Schema: a.Kind.Comparison.Schema, Ignore: a.Want.left}
	if others = others.Without(a.foreignPaths()); len(others.Ignore) == 0 {
		return wanted
	}
	return others.Unapplied(wanted)
}

// AdoptOffline changes child, given as JSON values, into a child of parent, as
// ClaimPatch would: it sets the engine's labels and the owner reference.
func AdoptOffline(s *catalog.Settings, child map[string]any, parent *resource.Resource) {
	meta := objectAt(child, "metadata")
	s.Label(objectAt(meta, "labels"), parent.UID())
	meta["ownerReferences"] = append(foreignOwners(meta, parent.UID()), s.OwnerReference(parent))
}
