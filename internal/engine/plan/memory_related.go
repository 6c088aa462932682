package plan

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// A relatedMemory is what is remembered of the related objects of a parent, and of what its
// passes follow from.
type relatedMemory struct {
	view    *RelatedView // of the last pass
	found   causes       // of what has changed of the related objects since the pass before
	refers  bool         // the parent refers to something else than in the pass before
	lineage *Lineage     // what the last pass followed from
}

func bySightedUID(a, b sighting) int { return cmp.Compare(a.uid, b.uid) }

// A RelatedView is what a pass was shown of related objects.
type RelatedView struct {
	lineages   *Lineages
	parent     sighting   // as the pass has found it
	references uint64     // a hash of them
	sightings  []sighting // of objects that passes may have written, sorted by uid
	others     uint64     // the sum of the versionHashes of the other ones
}

// NewRelatedView returns the view of a pass that has found a parent, and was shown nothing yet.
func NewRelatedView(l *Lineages, parent *resource.Resource) *RelatedView {
	return &RelatedView{lineages: l, parent: l.sightingOf(parent)}
}

// Refers adds a reference.
func (v *RelatedView) Refers(query string) { v.references += uidHash(types.UID(query)) }

// Add adds a related object.
func (v *RelatedView) Add(res *resource.Resource) {
	if v.lineages.Of(res.Type()) {
		v.sightings = append(v.sightings, v.lineages.sightingOf(res))
		return
	}
	v.others += versionHash(res.UID(), res.ResourceVersion())
}

// SawRelated finds out whose writes have changed the related objects since the last pass. It
// is called once a pass, before Prompted.
func (p *ParentMemory) SawRelated(v *RelatedView) {
	slices.SortFunc(v.sightings, bySightedUID)
	if p.related == nil {
		p.related = &relatedMemory{view: v, found: causes{others: true}}
		return
	}
	r := p.related
	r.refers = r.view.references != v.references
	r.found = v.changedSince(r.view)
	r.view = v
}

// changedSince returns what the changes follow from since the view before.
func (v *RelatedView) changedSince(before *RelatedView) causes {
	c := causes{parent: v.parent.uid, others: v.others != before.others}
	was := before.sightings
	gone := func(s sighting) {
		v.lineages.since(&c, sighting{version: s.uid, parents: s.parents}, s.version)
	}
	for _, s := range v.sightings {
		for ; len(was) > 0 && was[0].uid < s.uid; was = was[1:] {
			gone(was[0])
		}
		seen := uint64(0)
		if len(was) > 0 && was[0].uid == s.uid {
			seen, was = was[0].version, was[1:]
		}
		if seen != s.version {
			v.lineages.since(&c, s, seen)
		}
	}
	for _, s := range was {
		gone(s)
	}
	return c
}

// follow takes what passes have changed out of in, the inputs that a pass finds with these
// children, and returns what that followed from. traced are the children that it took out.
func (p *ParentMemory) follow(in Inputs, children []*resource.Resource) (left Inputs, from causes, traced []*resource.Resource) {
	r := p.related
	if r == nil {
		return in, causes{}, nil
	}
	from.parent = r.view.parent.uid
	edited := in.Generation != p.inputs.Generation || in.Parent != p.inputs.Parent
	if in.Related != p.inputs.Related {
		switch {
		case !r.found.others:
			in.Related, from = p.inputs.Related, r.found
		case r.refers && !edited: // its own status says what it refers to
			in.Related = p.inputs.Related
			from.note(r.lineage.with(from.parent))
		}
	}
	if c := (causes{parent: from.parent}); edited {
		if r.view.lineages.since(&c, r.view.parent, 0); !c.others {
			in.Generation, in.Parent = p.inputs.Generation, p.inputs.Parent
			from.note(c.from)
		}
	}
	for _, child := range children {
		m := p.child(object.RefOf(child), child.UID())
		if m == nil || m.version == "" || m.version == child.ResourceVersion() {
			continue
		}
		c := causes{parent: from.parent}
		s := sighting{version: versionHash(child.UID(), child.ResourceVersion()), parents: [2]uint64{uidHash(child.UID())}}
		if r.view.lineages.since(&c, s, 0); !c.others {
			in, traced = in.at(child, m.version), append(traced, child)
			from.note(c.from)
		}
	}
	return in, from, traced
}

// begun returns what the first pass over a parent follows from: what the pass did that has
// created the parent, nil if none has.
func (r *relatedMemory) begun() *Lineage {
	c := causes{parent: r.view.parent.uid}
	r.view.lineages.since(&c, r.view.parent, 0)
	return c.from
}

// Lineage returns what the writes of the pass over a parent follow from, once it was Prompted.
func (p *ParentMemory) Lineage(parent types.UID) *Lineage {
	if p.related == nil {
		return nil
	}
	return p.related.lineage.with(uidHash(parent))
}
