package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/resource"
)

// settleFinalizers gives the parent the operator's finalizer if there is
// something to finalize, and takes every finalizer of the operator off otherwise.
// On success p.parent is the newest state of the parent.
func (p *pass) settleFinalizers(ctx context.Context) error {
	if p.Config.DryRun {
		return p.tryFinalizers(ctx, p.WantedFinalizers)
	}
	begin := time.Now()
	parent, err := p.setFinalizers(ctx, p.parent, p.WantedFinalizers)
	p.noteFinalizers(begin, "patch finalizers", parent, err)
	if err != nil {
		return fmt.Errorf("%s: finalizer: %w", object.RefOf(p.parent), err)
	}
	if parent != p.parent {
		p.wrote("patch finalizers")
		p.parent = parent
		p.show(func(req *handler.SyncRequest) { req.Parent = parent })
	}
	return nil
}

// maxPatches bounds how often finalizers are patched in a reconciliation, for a parent that changes each time. The next
// reconciliation goes on, after its backoff: an admission webhook that rejects the patch responds as a changed parent does.
// If the finalizers have changed, it was no webhook, and maxConflicts is the bound.
const (
	maxPatches   = 2
	maxConflicts = 10
)

// setFinalizers changes the parent's finalizers to what change returns for them.
// It returns the newest state of the parent, which is parent itself if nothing
// had to be changed. The request is a JSON Patch that applies only to the list of
// finalizers that it was computed from, so that another controller's finalizer is
// never touched. If the parent has left or entered the ParentSelector meanwhile,
// nothing is changed and the error is NotFound: the watch will tell of the
// parent, and the next pass decide.
func (e *Engine) setFinalizers(ctx context.Context, parent *resource.Resource, change func([]string) []string) (*resource.Resource, error) {
	selected := e.Selects(parent)
	for tries, conflicts := 1, 0; ; {
		held := parent.Finalizers()
		want := change(slices.Clone(held))
		if slices.Equal(held, want) {
			return parent, nil
		}
		answer, err := e.patchFinalizers(ctx, parent, want)
		if err == nil {
			if isGone(answer) {
				e.confirmLater()
			}
			return answer, nil
		}
		if !apierrors.IsInvalid(err) {
			return nil, err
		}
		// A failed test of the patch is a 422 without details. It says nothing of
		// whether the parent has changed.
		live, getErr := e.client.Get(ctx, e.Types.Parent, parent.Key())
		if getErr != nil {
			return nil, getErr
		}
		if slices.Equal(live.Finalizers(), held) {
			tries++
		} else {
			conflicts++
		}
		switch {
		case live.UID() != parent.UID(), e.Selects(live) != selected:
			return nil, apierrors.NewNotFound(e.Types.Parent.GVR.GroupResource(), parent.Name())
		case live.ResourceVersion() == parent.ResourceVersion(), tries > maxPatches, conflicts > maxConflicts:
			return nil, err
		}
		if selected {
			e.changed(e.store.Read(live), schedule.Fresh, schedule.Trigger(object.RefOf(live).String()))
		}
		parent = live
		if live.IsDeleting() && len(want) > len(held) {
			return live, nil // too late to add a finalizer
		}
	}
}

// patchFinalizers sends the patch that changes a parent's finalizers to want, and
// returns the API server's answer.
func (e *Engine) patchFinalizers(ctx context.Context, parent *resource.Resource, want []string) (*resource.Resource, error) {
	patch, err := plan.FinalizerPatch(parent, want, e.Config.ParentSelector != "")
	if err != nil {
		return nil, err
	}
	ctx, span := e.tracing.Write(ctx, "patch finalizers", object.RefOf(parent))
	answer, err := e.client.Patch(ctx, e.Types.Parent, parent.Key(), types.JSONPatchType, patch)
	span.End(err)
	e.metrics.Wrote(parent.Type(), "patch finalizers", observe.WriteResult(err))
	return answer, err
}

// finalize calls the handler for a parent that is being deleted, and takes the
// operator's finalizers off when the handler has finalized it.
func (p *pass) finalize(ctx context.Context) (schedule.Outcome, error) {
	nothing := !p.hasOurs(p.parent) || !p.Holds
	switch {
	case p.Config.DryRun && nothing:
		err := p.tryFinalizers(ctx, p.WithoutOurs)
		return schedule.Outcome{Err: err != nil}, err
	case p.Config.DryRun && p.Finalizes:
		p.foreseen = append(p.foreseen, p.changeOfParent(plan.VerbFinalize, nil))
		return schedule.Outcome{}, nil
	case nothing:
		return p.letGo(ctx) // an earlier build may have left a finalizer
	}
	calls := p.Finalizes && !p.memory.Finalized(p.parent)
	if calls { // else nobody is shown related objects, whatever is wrong with them
		if known, err := p.refer(ctx); !known {
			p.tooEarly = true
			return schedule.Outcome{Err: err != nil, Permanent: isPermanent(err)}, err
		}
	}
	if current, err := p.showUnlabelled(ctx); err != nil {
		return schedule.Outcome{Err: true}, err
	} else if !current {
		p.tooEarly = true
		return schedule.Outcome{Again: true}, nil
	}
	if !calls {
		return p.tearDown(ctx)
	}
	resp, err := p.callFinalize(ctx)
	if resp == nil {
		return schedule.Outcome{Err: true, Permanent: isPermanent(err)}, err
	}
	p.emit(resp.Events)
	if err != nil {
		return p.fail(ctx, resp.Status, resp.Retry, err)
	}
	if resp.Finalized {
		p.memory.Finalize(p.parent)
		return p.tearDown(ctx)
	}
	return p.goOnFinalizing(ctx, resp)
}

// goOnFinalizing does what the handler wants until it is called again: it has not
// finalized the parent yet.
func (p *pass) goOnFinalizing(ctx context.Context, resp *handler.FinalizeResponse) (schedule.Outcome, error) {
	status, err := p.desireStatus(resp.Status)
	if err != nil {
		return schedule.Outcome{Err: true}, err
	}
	var deletes schedule.Outcome
	standing := p.standWhileDeleting()
	if resp.Children != nil {
		kept, invalid := plan.Desire(p.Settings, p.parent, resp.Children, p.memory)
		if invalid != nil {
			return schedule.Outcome{Err: true}, invalid
		}
		if deletes, err = p.keepWhileFinalizing(ctx, kept); err != nil {
			standing = p.standAfter(err)
		}
	}
	out, statusErr := p.settleStatus(ctx, status, childrenState{failed: err != nil, caused: true, standing: standing})
	err = errors.Join(err, statusErr)
	out.Again = false // the status that Finalize wants is no reason to call it again
	out = out.Merge(deletes)
	out.Err = err != nil
	p.postpone(&out, err)
	p.memory.Calm()
	switch {
	case out.RetryAfter > 0: // what was refused waits, which Finalize needn't
		out.RetryAfter = schedule.Soonest(out.RetryAfter, resp.Retry)
	case err != nil:
	case deletes.Again: // but its deletes are: no watch tells of what an answer has told already
	case resp.Retry > 0:
		out.RetryAfter = resp.Retry
	default:
		out.Err = true // no failure to log or count, but retried by the same backoff
	}
	return out, err
}

// letGo takes the operator's finalizers off the parent.
func (p *pass) letGo(ctx context.Context) (schedule.Outcome, error) {
	begin := time.Now()
	parent, err := p.setFinalizers(ctx, p.parent, p.WithoutOurs)
	p.noteFinalizers(begin, "remove finalizer", parent, err)
	switch {
	case apierrors.IsNotFound(err):
		return p.lookAgain(ctx, fmt.Errorf("%s: finalizer: %w", object.RefOf(p.parent), err))
	case err != nil:
		return schedule.Outcome{Err: true}, fmt.Errorf("%s: finalizer: %w", object.RefOf(p.parent), err)
	case parent != p.parent:
		p.wrote("remove finalizer")
	}
	p.stood = true // what becomes of the parent is no business of ours any more
	if isGone(parent) {
		p.forget(parent.UID())
		p.store.ForgetDeparted(parent.UID())
		return schedule.Outcome{Forget: true}, nil
	}
	return schedule.Outcome{}, nil
}

// lookAgain ends a pass in which a change of the parent's finalizers was answered with
// a 404, of which err tells. A proxy, a webhook, or an API server that doesn't serve the
// version for a moment may have answered so. Gone is a parent of which a read says so,
// and the watch will tell of it. Until then there is always another pass.
func (p *pass) lookAgain(ctx context.Context, err error) (schedule.Outcome, error) {
	live, readErr := p.client.Get(ctx, p.Types.Parent, p.parent.Key())
	switch {
	case readErr == nil && live.UID() == p.parent.UID() && live.ResourceVersion() == p.parent.ResourceVersion():
		return schedule.Outcome{Err: true}, err
	case readErr == nil, apierror.IsMissing(readErr, p.parent.Name()):
		return schedule.Outcome{Resync: p.memory.AwaitsEnd(p.parent.ResourceVersion(), watchDelay, p.Config.MaxErrorBackoff)}, nil
	}
	return schedule.Outcome{Err: true}, fmt.Errorf("%w; read: %w", err, readErr)
}

// parentUnchanged says whether the API server has the parent exactly as the pass knows
// it. Then an answer that says otherwise, a conflict or a 404, is an admission
// webhook's.
func (p *pass) parentUnchanged(ctx context.Context) bool {
	live, err := p.client.Get(ctx, p.Types.Parent, p.parent.Key())
	return err == nil && live.UID() == p.parent.UID() && live.ResourceVersion() == p.parent.ResourceVersion()
}

// isGone says whether answer, to a patch of finalizers, shows an object that went
// with its last finalizer. Such an answer has the resourceVersion from before the
// patch (tried on kube-apiserver 1.36), so it isn't the newest state of anything.
func isGone(answer *resource.Resource) bool {
	return answer.IsDeleting() && len(answer.Finalizers()) == 0
}
