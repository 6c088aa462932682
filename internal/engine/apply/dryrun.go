package apply

import (
	"context"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/resource"
)

// With DryRun, and so for the subcommand plan, an action is rehearsed: dry runs
// tell what the action would change, and whether it would be refused.

// rehearse is request for a dry run: nothing is persisted.
func (x *Executor) rehearse(ctx context.Context, a *plan.Action) (Result, plan.Finding) {
	if a.Ask() != plan.AskNothing {
		return x.ask(ctx, a)
	}
	switch a.Verb {
	case plan.VerbCreate:
		return x.rehearseCreate(ctx, a)
	case plan.VerbAdopt:
		return x.takeIfParentLives(ctx, a, a.Live)
	case plan.VerbMend:
		return x.rehearseMend(ctx, a)
	case plan.VerbRecreate:
		return x.recreate(ctx, a)
	case plan.VerbUpdate, plan.VerbApply:
		return x.afterRejection(ctx, a, x.rehearseUpdate(ctx, a))
	case plan.VerbRetain:
		return x.rehearseRetain(ctx, a), nil
	}
	r := left(a, nil)
	if a.Verb == plan.VerbRelease {
		r.Would, r.Fields = plan.VerbUpdate, plan.FieldsOf(a)
	}
	return r, nil
}

// rehearseRetain tries to make a child nobody's.
func (x *Executor) rehearseRetain(ctx context.Context, a *plan.Action) Result {
	body, err := plan.RetainPatch(x.Settings, a.Live, x.Parent.UID())
	if err != nil {
		return Result{Err: err}
	}
	_, err = x.Client.DryPatch(ctx, a.Kind, a.Ref.Key, types.MergePatchType, body)
	untold := apierror.RefusesDryRun(err)
	if err != nil && !untold {
		return Result{Err: err}
	}
	r := left(a, plan.FieldsOf(a))
	r.Would, r.Untold = plan.VerbUpdate, untold
	return r
}

// Rehearse finds out what would become of updates that a rollout makes later. The results are in
// the order of the updates. It is for dry runs, after Run.
func (x *Executor) Rehearse(ctx context.Context, queued []plan.Queued) []Result {
	actions := make([]plan.Action, len(queued))
	for i := range queued {
		actions[i] = queued[i].Action
	}
	return x.runAll(ctx, actions)
}

// left returns the result of an action that was left out. fields are those that the
// action would have changed.
func left(a *plan.Action, fields []plan.FieldChange) Result {
	return Result{Skipped: true, Would: a.Verb, Fields: fields}
}

// rehearseCreate tries a create. That a namespace doesn't exist is no error if the
// same dry run would have created it.
func (x *Executor) rehearseCreate(ctx context.Context, a *plan.Action) (Result, plan.Finding) {
	if a.Sought {
		return x.seek(ctx, a)
	}
	_, err := x.Client.DryCreate(ctx, a.Kind, a.Ref.Key.Namespace, plan.CreateBody(x.Settings, a.Want, x.Parent))
	_, expected := x.expected.Load(a.Ref.Key.Namespace)
	untold := apierror.RefusesDryRun(err)
	if untold { // whether the name is free can be read
		held, readErr := x.Client.Get(ctx, a.Kind, a.Ref.Key)
		switch {
		case held != nil:
			err = apierrors.NewAlreadyExists(a.Kind.GVR.GroupResource(), a.Ref.Key.Name)
		case !apierrors.IsNotFound(readErr):
			return Result{Err: readErr}, nil
		}
	}
	switch {
	case apierrors.IsAlreadyExists(err):
		return x.claim(ctx, a, err)
	case apierrors.IsNotFound(err) && expected, untold:
	case err != nil:
		return Result{Err: ofCreation(err)}, nil
	}
	if a.Kind.IsNamespace() {
		x.expected.Store(a.Ref.Key.Name, true)
	}
	r := left(a, foreseenFields(a))
	r.Untold = err != nil
	return r, nil
}

// foreseenFields returns what an action would change, as far as is known without an
// answer of the API server.
func foreseenFields(a *plan.Action) []plan.FieldChange {
	if a.Live != nil {
		return plan.FieldsOf(a)
	}
	return plan.CreationFields(a.Want)
}

// rehearseUpdate tries an update, and lists what it would change. It stands for a
// server-side apply too: see apply.
func (x *Executor) rehearseUpdate(ctx context.Context, a *plan.Action) Result {
	answer, err := x.rehearsed(ctx, a)
	untold := apierror.RefusesDryRun(err)
	if err != nil && !untold {
		return Result{Err: err}
	}
	r := left(a, plan.FieldsOf(a))
	if err == nil {
		r = left(a, plan.Effects(x.Settings, a.Kind, a.Live, answer))
	}
	r.Untold = untold
	if len(r.Fields) == 0 {
		r.Would = plan.VerbMark
	}
	return r
}

// rehearsed returns what an update or a server-side apply would make of a child. An
// apply makes the same of it as an update.
func (x *Executor) rehearsed(ctx context.Context, a *plan.Action) (*resource.Resource, error) {
	var r remake
	var err error
	if a.Verb == plan.VerbApply {
		_, r, err = x.applyOrUpdate(ctx, a, &fieldsOnce{})
	} else {
		r, err = x.remake(ctx, a, plan.UpdateBody(x.Settings, a, x.Parent), &fieldsOnce{})
	}
	if err != nil {
		return nil, err
	}
	return x.sendRemake(ctx, a, r, true)
}

// rehearseTake finds out what live becomes by claimPatch, with which the operator
// would take the object over or mend its owner reference.
func (x *Executor) rehearseTake(ctx context.Context, a *plan.Action, live *resource.Resource, claimPatch []byte) (Result, plan.Finding) {
	taken, err := x.Client.DryPatch(ctx, a.Kind, a.Ref.Key, types.MergePatchType, claimPatch)
	untold := apierror.RefusesDryRun(err)
	switch {
	case untold:
		if taken, err = patched(live, claimPatch); err != nil {
			return Result{Err: err}, nil
		}
	case err != nil:
		return Result{Err: err}, nil
	}
	return Result{Untold: untold}, plan.Claimed{Before: live, Live: taken}
}

// patched returns an object with a merge patch, as no admission would change it.
func patched(live *resource.Resource, patch []byte) (*resource.Resource, error) {
	raw, err := live.MarshalJSON()
	if err != nil {
		return nil, err
	}
	if raw, err = jsonpatch.MergePatch(raw, patch); err != nil {
		return nil, err
	}
	return resource.New(raw)
}

// rehearseMend finds out what the child becomes when its owner reference is brought
// up to date.
func (x *Executor) rehearseMend(ctx context.Context, a *plan.Action) (Result, plan.Finding) {
	body, err := plan.OwnerPatch(x.Settings, a.Live, x.Parent)
	if err != nil {
		return Result{Err: err}, nil
	}
	return x.rehearseTake(ctx, a, a.Live, body)
}

// A rehearsedClaim is what a dry run foresees of taking an object over, or of
// mending its owner reference. What then becomes of the object as a child is
// foreseen by the next action.
type rehearsedClaim struct {
	claims bool               // the operator would take an object over
	fields []plan.FieldChange // what that would change
	untold bool               // see Result
	found  *resource.Resource // the object as it would be then
	shown  bool               // see Result.ShownNext
}

// note remembers a Claimed finding about the child of a, which came with r. It ignores
// any other.
func (c *rehearsedClaim) note(s *catalog.Settings, a *plan.Action, r Result, f plan.Finding) {
	if f, ok := f.(plan.Claimed); ok {
		c.claims, c.fields, c.untold, c.found = true, plan.Effects(s, a.Kind, f.Before, f.Live), r.Untold, f.Live
		c.shown = a.Verb == plan.VerbCreate && s.Watched(f.Live)
	}
}

// with adds to a result what taking the object over would change. If nothing else is
// to be done with the object, that is an update. Of an object that would be deleted, it
// doesn't matter.
func (c *rehearsedClaim) with(r Result) Result {
	if !c.claims || r.Err != nil {
		return r
	}
	r.Found, r.ShownNext = &Found{Live: c.found, Fields: c.fields, Untold: c.untold}, c.shown
	if r.Would == plan.VerbDelete {
		return r
	}
	if !r.Skipped || r.Would == plan.VerbMark {
		r.Would = plan.VerbUpdate
	}
	r.Skipped, r.Accepted, r.Untold = true, false, r.Untold || c.untold
	r.Fields = plan.SortedFields(slices.Concat(c.fields, r.Fields))
	return r
}
