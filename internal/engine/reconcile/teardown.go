package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/apply"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// What becomes of the children of a parent that is being deleted, where they aren't left to
// the garbage collector.

// tearDown does what is left to do with the children, and lets the parent go once that is
// nothing. The handler has finalized the parent before, or has nothing to finalize.
func (p *pass) tearDown(ctx context.Context) (schedule.Outcome, error) {
	if p.Config.Teardown == config.TeardownOrdered && !plan.Orphans(p.parent) {
		if found, err := p.findUnanswered(ctx); err != nil {
			return schedule.Outcome{Err: true}, err
		} else if found {
			return schedule.Outcome{Resync: watchDelay}, nil
		}
	}
	in := p.input()
	t := plan.TearDown(p.Settings, in)
	if (t.Retains() || p.Config.DryRun) && !plan.Orphans(p.parent) { // a dry run foresees what comes last
		unseen, err := p.retainedUnseen(ctx)
		if err != nil {
			return schedule.Outcome{Err: true}, err
		}
		if len(unseen) > 0 {
			in.Children = slices.Concat(in.Children, unseen)
			t = plan.TearDown(p.Settings, in)
		}
	}
	if !t.Done() {
		retains := len(t.Writes) > 0 // which are the last
		out, err := p.carryOutTeardown(ctx, &t.Plan)
		p.memory.Calm()
		p.tellWaits(p.teardownTexts(&t))
		if p.Config.DryRun {
			if err == nil {
				err = p.foreseeEnd(ctx, &t)
			}
			return out, err
		}
		if err != nil || !retains || !p.allWritten() {
			return out, err
		}
	}
	return p.goOn(ctx)
}

// findUnanswered reads the children that the last pass may have created though the answer was lost. found says that the
// store has learned of one, so that this pass is outdated.
func (p *pass) findUnanswered(ctx context.Context) (found bool, err error) {
	refs := slices.DeleteFunc(p.memory.Unanswered(), func(ref object.Ref) bool {
		k := p.Types.Of(ref.Type)
		return k == nil || k.Unserved || plan.Live(p.children, ref, new(int)) != nil
	})
	live, errs := each(p.Engine, len(refs), func(i int) (*resource.Resource, error) {
		return p.client.Get(ctx, p.Types.Of(refs[i].Type), refs[i].Key)
	})
	for i, ref := range refs {
		switch {
		case apierror.IsMissing(errs[i], ref.Key.Name):
			errs[i] = nil
		case errs[i] != nil:
			errs[i] = catalog.Forbidden(p.Types.Of(ref.Type), "get", fmt.Errorf("%s: read: %w", ref, errs[i]))
		case apply.IsChild(p.Settings, p.parent, live[i]):
			found = true
			p.Changed(p.store.Read(live[i]), ref)
		}
	}
	return found, apierror.Join(errs)
}

// foreseeEnd notes, in a dry run, that the parent goes once what is left to do with the children is done.
func (p *pass) foreseeEnd(ctx context.Context, t *plan.Teardown) error {
	at := len(p.foreseen)
	err := p.tryFinalizers(ctx, p.WithoutOurs)
	if len(p.foreseen) > at && !t.Retains() {
		p.foreseen[at].Waits = "waits for the end of its children"
	}
	return err
}

// goOn lets the parent go.
func (p *pass) goOn(ctx context.Context) (schedule.Outcome, error) {
	if p.Config.DryRun {
		err := p.tryFinalizers(ctx, p.WithoutOurs)
		return schedule.Outcome{Err: err != nil}, err
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
	out := p.learn(ctx, planned, nil, true)
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
// meanwhile: kept. The outcome says when Finalize is to be called again for these deletes. A child that
// goes later makes the parent due.
func (p *pass) keepWhileFinalizing(ctx context.Context, kept []*plan.Desired) (schedule.Outcome, error) {
	planned := plan.KeepWhileFinalizing(p.Settings, p.input(), kept)
	return p.carryOutTeardown(ctx, &planned)
}
