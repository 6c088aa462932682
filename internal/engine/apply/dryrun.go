package apply

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/resource"
)

// With DryRun, and for a plan, an action isn't carried out but rehearsed: dry
// runs tell what it would change, and whether it would be refused.

// rehearse is request without persisted writes.
func (x *Executor) rehearse(ctx context.Context, a *plan.Action) (Result, plan.Finding) {
	switch a.Verb {
	case plan.VerbCreate:
		return x.rehearseCreate(ctx, a)
	case plan.VerbVerify:
		return x.verify(ctx, a)
	case plan.VerbRecreate:
		return x.recreate(ctx, a)
	case plan.VerbUpdate, plan.VerbApply:
		return x.unlessCreatedSo(ctx, a, x.rehearseUpdate(ctx, a))
	}
	return left(a, nil), nil
}

// left returns the result of an action that was left out, and would have
// changed these fields.
func left(a *plan.Action, fields []plan.FieldChange) Result {
	return Result{Skipped: true, Would: a.Verb, Fields: fields}
}

func (x *Executor) rehearseCreate(ctx context.Context, a *plan.Action) (Result, plan.Finding) {
	_, err := x.Client.DryCreate(ctx, a.Kind, a.Ref.Key.Namespace, plan.CreateBody(x.Settings, a.Want, x.Parent))
	_, expected := x.expected.Load(a.Ref.Key.Namespace)
	switch {
	case apierrors.IsAlreadyExists(err):
		return x.claim(ctx, a)
	case apierrors.IsNotFound(err) && expected, apierror.RefusesDryRun(err):
	case err != nil:
		return Result{Err: err}, nil
	}
	if a.Kind.IsNamespace() {
		x.expected.Store(a.Ref.Key.Name, true)
	}
	return left(a, []plan.FieldChange{{Desired: plan.Concealed(a.Kind, jsonvalue.NullFree(a.Want.Object()))}}), nil
}

func (x *Executor) rehearseUpdate(ctx context.Context, a *plan.Action) Result {
	answer, err := x.Client.Update(ctx, a.Kind, a.Ref.Key, "", plan.UpdateBody(x.Settings, a, x.Parent), true)
	switch {
	case apierror.RefusesDryRun(err):
		return left(a, plan.FieldsOf(a))
	case err != nil:
		return Result{Err: err}
	}
	r := left(a, plan.Effects(x.Settings, a.Kind, a.Live, answer))
	if len(r.Fields) == 0 {
		r.Would = plan.VerbMark
	}
	return r
}

// rehearseTake finds out what an object would be once the operator had taken it
// over by a claimPatch.
func (x *Executor) rehearseTake(ctx context.Context, a *plan.Action, live *resource.Resource, claimPatch []byte) (Result, plan.Finding) {
	taken, err := x.Client.DryPatch(ctx, a.Kind, a.Ref.Key, types.MergePatchType, claimPatch)
	switch {
	case apierror.RefusesDryRun(err):
		taken = live
	case err != nil:
		return Result{Err: err}, nil
	}
	return Result{}, plan.Claimed{Before: live, Live: taken}
}

// A rehearsedClaim is what a dry run foresees of taking an object over, besides
// what it foresees of the object as a child.
type rehearsedClaim struct {
	claims bool
	fields []plan.FieldChange
}

// note takes note of a finding.
func (c *rehearsedClaim) note(s *catalog.Settings, a *plan.Action, f plan.Finding) {
	if f, ok := f.(plan.Claimed); ok {
		c.claims, c.fields = true, plan.Effects(s, a.Kind, f.Before, f.Live)
	}
}

// with returns a result with what taking the object over would change. That is
// an update, if nothing else is to be done.
func (c *rehearsedClaim) with(r Result) Result {
	if !c.claims || r.Err != nil {
		return r
	}
	if !r.Skipped || r.Would == plan.VerbMark {
		r.Would = plan.VerbUpdate
	}
	r.Skipped, r.Accepted = true, false
	r.Fields = plan.SortedFields(append(c.fields, r.Fields...))
	return r
}
