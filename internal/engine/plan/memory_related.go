package plan

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
)

// A relatedMemory is what is remembered of the related objects of a parent, if operators of
// this process write such objects.
type relatedMemory struct {
	sightings []sighting // of those that operators may have written, as the last pass was shown them
	others    uint64     // the sum of the versionHashes of the other ones
	own       bool       // what has changed of them since the pass before was written by operators
	from      *Lineage   // what that followed from
	lineage   *Lineage   // what the last pass followed from
}

// A sighting is a related object as a pass was shown it.
type sighting struct {
	uid, version uint64 // uidHash and versionHash
	owner        uint64 // the uidHash of the parent whose passes write it; 0: of none
}

func bySightedUID(a, b sighting) int { return cmp.Compare(a.uid, b.uid) }

// A RelatedView is what a pass was shown of related objects.
type RelatedView struct {
	lineages  *Lineages
	sightings []sighting
	others    uint64
}

// NewRelatedView returns the view of a pass that was shown nothing yet.
func NewRelatedView(l *Lineages) *RelatedView { return &RelatedView{lineages: l} }

// Add adds a related object. owner is the parent whose passes write it, empty if it is none's.
func (v *RelatedView) Add(res *resource.Resource, owner types.UID) {
	if !v.lineages.Of(res.Type()) {
		v.others += versionHash(res.UID(), res.ResourceVersion())
		return
	}
	s := sighting{uid: uidHash(res.UID()), version: versionHash(res.UID(), res.ResourceVersion())}
	if owner != "" {
		s.owner = uidHash(owner)
	}
	v.sightings = append(v.sightings, s)
}

// SawRelated finds out whose writes have changed the related objects since the last pass. It
// is called once a pass, before Prompted.
func (p *ParentMemory) SawRelated(v *RelatedView) {
	if p.related == nil {
		p.related = &relatedMemory{}
	}
	r := p.related
	slices.SortFunc(v.sightings, bySightedUID)
	r.from, r.own = v.changedSince(r)
	r.sightings, r.others = v.sightings, v.others
}

// changedSince says whether all that has changed was written by operators, and what that
// followed from.
func (v *RelatedView) changedSince(before *relatedMemory) (from *Lineage, own bool) {
	own = v.others == before.others
	note := func(written, owner uint64) {
		of, known := v.lineages.of(written, owner)
		from, own = from.and(of), own && known
	}
	was := before.sightings
	for _, s := range v.sightings {
		for len(was) > 0 && was[0].uid < s.uid {
			note(was[0].uid, was[0].owner) // it is gone
			was = was[1:]
		}
		if len(was) > 0 && was[0].uid == s.uid {
			same := was[0].version == s.version
			was = was[1:]
			if same {
				continue
			}
		}
		note(s.version, s.owner)
	}
	for _, s := range was {
		note(s.uid, s.owner)
	}
	return from, own
}

// circles says whether the pass over the parent with this UID, which nothing but writes of
// operators to related objects has set off, is in a circle.
func (r *relatedMemory) circles(parent types.UID) bool { return r.lineage.circles(uidHash(parent)) }

// Lineage returns what the writes of the pass over a parent follow from, once it was Prompted.
func (p *ParentMemory) Lineage(parent types.UID) *Lineage {
	if p.related == nil {
		return nil
	}
	return p.related.lineage.with(uidHash(parent))
}
