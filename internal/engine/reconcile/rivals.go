package reconcile

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/conflict"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

const (
	// maxAsked bounds for how many objects a pass asks who else writes them.
	maxAsked = 4
	// beforeLoop is how many repeats before a conflict loop it is asked who has
	// made children that the pass deletes. The loop may be completed by a later pass, which
	// creates what the other one has deleted, and finds nothing to ask about.
	beforeLoop = 3
)

// findRivals finds out, by managedFields, who has made of children what the pass is about to
// change back. After the write they would tell of the operator alone. They are asked for only
// if a conflict loop is near: if the next repeat completes one, or a few of them do
// for children that are deleted.
func (p *pass) findRivals(ctx context.Context, planned *plan.Plan) {
	now := time.Now()
	if p.Config.DryRun || !p.loops.Near(now, p.parent.UID(), beforeLoop) {
		p.memory.ForgetRivals()
		return
	}
	next := p.loops.Near(now, p.parent.UID(), 1)
	asked := 0
	for _, actions := range [][]plan.Action{planned.Writes, planned.Deletes} {
		for i := range actions {
			a := &actions[i]
			if !next && a.Verb != plan.VerbDelete || !a.Contested(a.Live != nil && p.memory.Made(a.Live)) {
				continue
			}
			if asked++; asked > maxAsked {
				return
			}
			if entries, ok := p.managedFields(ctx, a.Kind, a.Live); ok {
				p.noteRival(a.Ref, plan.RivalOf(p.Settings, a, entries, p.Config.Name), a.Kind)
			}
		}
	}
}

// findStatusRival is findRivals for the status of the parent, which live is.
func (p *pass) findStatusRival(ctx context.Context, live any) {
	if p.memory.LeftStatus(live) || !p.loops.Near(time.Now(), p.parent.UID(), 1) {
		return
	}
	if entries, ok := p.managedFields(ctx, p.Types.Parent, p.parent); ok {
		p.noteRival(object.RefOf(p.parent), plan.StatusRivalOf(entries, p.Config.Name), p.Types.Parent)
	}
}

// managedFields reads the managedFields of an object, false if they can't be read or the
// object has changed since.
func (p *pass) managedFields(ctx context.Context, k *catalog.Kind, live *resource.Resource) ([]metav1.ManagedFieldsEntry, bool) {
	meta, err := p.client.ManagedFields(ctx, k, live.Key())
	if err != nil || meta.UID != live.UID() || meta.ResourceVersion != live.ResourceVersion() {
		return nil, false
	}
	return meta.ManagedFields, true
}

// noteRival notes who else writes an object, if that is known.
func (p *pass) noteRival(ref object.Ref, rival plan.Rival, k *catalog.Kind) {
	if text := rival.String(p.Config.Name, k); text != "" {
		p.memory.NoteRival(ref, text)
	}
}

// rivalIn says who else takes part in a conflict loop, "" if that isn't known. Where objects
// come and go, it is who has made any of those that this pass and the last ones found.
func (p *pass) rivalIn(found *conflict.Loop) string {
	if text := p.memory.Rival(object.Ref{Type: found.Key.Type, Key: found.Key.Object}); text != "" || found.Path != pathName {
		return text
	}
	return p.memory.RivalOverType(found.Key.Type)
}
