package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/resource"
)

// What becomes of the children of a parent that is being deleted, where they aren't left to
// the garbage collector.

// tearDown does what is left to do with the children, and lets the parent go once that is
// nothing. The handler has finalized the parent before, or has nothing to finalize.
func (p *pass) tearDown(ctx context.Context) (schedule.Outcome, error) {
	in := p.input()
	t := plan.TearDown(p.Settings, in)
	if t.Retains() && !plan.Orphans(p.parent) {
		stripped, err := p.strippedOfLabels(ctx)
		if err != nil {
			return schedule.Outcome{Err: true}, err
		}
		if len(stripped) > 0 {
			in.Children = slices.Concat(in.Children, stripped)
			t = plan.TearDown(p.Settings, in)
		}
	}
	if !t.Done() {
		retains := len(t.Writes) > 0 // which are the last
		out, err := p.carryOutTeardown(ctx, &t.Plan)
		p.tellWaits(p.teardownTexts(&t))
		if p.Config.DryRun {
			p.foreseeEnd(&t)
			return out, err
		}
		if err != nil || !retains || !p.allWritten() {
			return out, err
		}
	}
	return p.goOn(ctx)
}

// strippedOfLabels returns, by their metadata, the children to be retained from which somebody has
// taken labels, so that no watch delivers them. They would go with the parent. A pass over a
// parent that lives finds such a child when it would create it.
func (p *pass) strippedOfLabels(ctx context.Context) (found []*resource.Resource, err error) {
	known := map[types.UID]struct{}{}
	for _, child := range p.children {
		known[child.UID()] = struct{}{}
	}
	note := func(res *resource.Resource) {
		if _, twice := known[res.UID()]; !twice && !res.IsDeleting() && plan.LacksLabels(p.Settings, p.parent, res) {
			known[res.UID()] = struct{}{}
			found = append(found, res)
		}
	}
	for _, k := range p.Types.Children {
		if !k.Child.Retain || k.Unserved {
			continue
		}
		lists := p.listsOf(k)
		if p.Types.Parent.Namespaced { // owner references don't cross namespaces
			lists = []listOf{{k, p.parent.Namespace()}}
		}
		for _, l := range lists {
			for _, label := range []string{p.Config.TrackingLabel, p.Config.OwnershipLabel} {
				if err := p.client.EachMetadata(ctx, k, l.namespace, "!"+label, note); err != nil {
					return nil, fmt.Errorf("%s: list: %w", k.Type, err)
				}
			}
		}
	}
	return found, nil
}

// foreseeEnd notes, in a dry run, that the parent goes once what is left to do with the children is done.
func (p *pass) foreseeEnd(t *plan.Teardown) {
	at := len(p.foreseen)
	p.foreseeFinalizers(p.WithoutOurs)
	if len(p.foreseen) > at && !t.Retains() {
		p.foreseen[at].Waits = "waits for the end of its children"
	}
}

// goOn lets the parent go.
func (p *pass) goOn(ctx context.Context) (schedule.Outcome, error) {
	if p.Config.DryRun {
		p.foreseeFinalizers(p.WithoutOurs)
		return schedule.Outcome{}, nil
	}
	out, err := p.letGo(ctx)
	if err == nil {
		p.event(p.parent, observe.Normal, observe.ReasonFinalized, "finalized, the deletion goes on")
	}
	return out, err
}

// input returns what a plan of the children decides by.
func (p *pass) input() plan.Input {
	return plan.Input{Parent: p.parent, Children: p.children, Unlabelled: p.unlabelled, Memory: p.memory, Now: time.Now()}
}

// allWritten says whether each action of the pass was carried out.
func (p *pass) allWritten() bool {
	for i := range p.results {
		if !p.results[i].Wrote {
			return false
		}
	}
	return true
}

// carryOutTeardown carries out a plan for the children of a parent that is being deleted.
func (p *pass) carryOutTeardown(ctx context.Context, planned *plan.Plan) (schedule.Outcome, error) {
	p.apply(ctx, planned)
	p.emitWrites()
	out := p.learn(planned, nil, true)
	err := p.learnFailures(planned)
	out.Err = err != nil
	p.postpone(&out, err)
	return out, err
}

// teardownTexts says what the deletion of a parent waits for.
func (p *pass) teardownTexts(t *plan.Teardown) (texts []string) {
	var awaited []string
	for _, ref := range t.Awaited {
		awaited = append(awaited, p.nameOf(ref))
	}
	if len(awaited) > 0 {
		texts = append(texts, "waiting for the end of "+joinNames(awaited)+" before other children are deleted")
	}
	for _, w := range t.Held {
		texts = append(texts, fmt.Sprintf("waiting for the end of %s, which the finalizers %s hold", p.nameOf(w.Ref), joinNames(w.Finalizers)))
	}
	return texts
}

// keepWhileFinalizing deletes all children but those that the handler's Finalize wants to exist
// meanwhile. The outcome says when Finalize is to be called again for these deletes. A child that
// goes later makes the parent due.
func (p *pass) keepWhileFinalizing(ctx context.Context, children []any) (schedule.Outcome, error) {
	kept, err := plan.Desire(p.Settings, p.parent, children, p.memory)
	if err != nil {
		return schedule.Outcome{}, err
	}
	planned := plan.KeepWhileFinalizing(p.Settings, p.input(), kept)
	return p.carryOutTeardown(ctx, &planned)
}
