package runner

import (
	"encoding/json"
	"slices"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/fieldpath"
	"github.com/roperator/roperator/resource"
)

const onDelete = config.OnDelete

// writeVerb returns how a differing child of this type is changed.
func writeVerb(k *kind) verb {
	switch k.child.Strategy {
	case config.Recreate:
		return verbRecreate
	case config.Apply:
		return verbApply
	}
	return verbUpdate
}

// The bodies of the requests that an action makes.

// createBody is the object as it is created.
func (s *settings) createBody(d *desiredChild, parent *resource.Resource) any {
	return nullFree(s.full(d, parent, newMark(d, d.kind.comparison.schema)))
}

// updateBody is the live object with the desired state merged in and dropped
// fields removed, under the live resourceVersion.
func (s *settings) updateBody(a *action, parent *resource.Resource, ignore ...string) map[string]any {
	want := s.full(a.want, parent, newMark(a.want, a.kind.comparison.schema))
	return a.kind.comparison.without(append(a.settledPaths(), ignore...)).merge(a.liveObject(), want, a.former)
}

// applyBody is the desired state for server-side apply. It carries the UID, so
// that it can't create or take over another object.
func (s *settings) applyBody(a *action, parent *resource.Resource) any {
	body := s.full(a.want, parent, newMark(a.want, a.kind.comparison.schema))
	body = a.kind.comparison.without(a.settledPaths()).keepIgnored(a.liveObject(), body)
	meta, _ := body["metadata"].(map[string]any)
	meta["uid"] = string(a.live.UID())
	return nullFree(body)
}

// markPatch is a JSON merge patch that brings the mark up to date, and nothing
// else, if the child is still the one that was compared.
func (s *settings) markPatch(a *action) ([]byte, error) {
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             string(a.live.UID()),
		"resourceVersion": a.live.ResourceVersion(),
		"annotations":     map[string]any{s.mark: newMark(a.want, a.kind.comparison.schema)},
	}})
}

// claimPatch is a JSON merge patch that makes live a child of parent.
func (s *settings) claimPatch(live, parent *resource.Resource) ([]byte, error) {
	owners, err := json.Marshal(live.OwnerReferences())
	if err != nil {
		return nil, err
	}
	var refs []any
	if err := json.Unmarshal(owners, &refs); err != nil {
		return nil, err
	}
	refs = foreignOwners(map[string]any{"ownerReferences": refs}, parent.UID())
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":             string(live.UID()),
		"resourceVersion": live.ResourceVersion(),
		"labels":          map[string]any{s.cfg.TrackingLabel: string(parent.UID()), s.cfg.OwnershipLabel: s.cfg.Name},
		"ownerReferences": append(refs, s.ownerReference(parent)),
	}})
}

// without returns a comparison that also leaves these paths alone. A path
// that can't be read is compared as ever.
func (c *comparison) without(paths []string) *comparison {
	if len(paths) == 0 {
		return c
	}
	more := &comparison{schema: c.schema, ignore: slices.Clone(c.ignore)}
	for _, path := range paths {
		if p, err := fieldpath.Parse(path); err == nil {
			more.ignore = append(more.ignore, p)
		}
	}
	return more
}
