package apply

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/resource"
)

// What the API server made of the operator's words is made anew when the words
// change: a Service's port 8080 must not keep the targetPort 80 that followed from
// port 80. An update lacks such fields, so that the API server makes them again. What
// others have set stays, and so does what an update can't make of the words: a value
// that a webhook injects at a creation alone, or one that the API server allocates.
// Dry runs tell these apart, once for each field and scope: what was learned of a child doesn't hold for one that webhooks and policies
// may treat otherwise.

// A remake is an update that makes fields anew.
type remake struct {
	in       scope             // of what it teaches; empty: it teaches nothing
	body     map[string]any    // what to send
	fallback map[string]any    // what to send if body fails; nil: nothing
	lacked   []merge.MadeField // the fields that body lacks, for the API server to make them
	kept     []merge.MadeField // fields that an update can't make, if the API server accepts body
}

// remake returns the update of a child by body, the plan.UpdateBody of a. held keeps
// the managedFields of the child, if remake has to read them.
func (x *Executor) remake(ctx context.Context, a *plan.Action, body map[string]any, held *fieldsOnce) (remake, error) {
	plain := remake{body: body}
	fields := plan.Made(a, body)
	if len(fields) == 0 {
		return plain, nil
	}
	in := x.scopeOf(a)
	if fields = x.Lessons.notKept(in, fields); len(fields) == 0 {
		return plain, nil
	}
	entries, err := x.managedFields(ctx, a, held)
	if err != nil {
		return plain, err
	}
	fields, err = merge.OwnedAlone(fields, entries, x.Config.Name)
	if err != nil || len(fields) == 0 {
		return plain, err
	}
	if x.Lessons.known(in, fields) {
		return remake{in: in, body: merge.WithoutMade(body, fields), fallback: body, lacked: fields}, nil
	}
	answer, lacked, fixed, err := x.tryWithout(ctx, a, body, fields)
	if answer == nil && len(fixed) == 0 && !apierror.RefusesDryRun(err) && !apierrors.IsConflict(err) {
		// What was in the way may be in the way of every update, or have gone since.
		if _, err := x.Client.Update(ctx, a.Kind, a.Ref.Key, "", body, true); err != nil {
			return plain, err
		}
		answer, lacked, fixed, err = x.tryWithout(ctx, a, body, fields)
	}
	switch {
	case apierrors.IsConflict(err):
		return plain, err
	case answer == nil:
		return remake{in: in, body: body, kept: fixed}, nil // the update itself will tell what is wrong
	}
	same, changed, lost := merge.SortMade(body, answer.Unstructured().Object, lacked)
	x.Lessons.learn(in, same, lessonStays)
	if len(changed)+len(lost) == 0 {
		return remake{in: in, body: body, kept: fixed}, nil
	}
	follow, kept, sure := x.asIfCreated(ctx, a, answer, changed, lost)
	x.Lessons.learn(in, follow, lessonFollows)
	out := remake{in: in, body: merge.WithoutMade(body, follow), kept: append(fixed, kept...)}
	if !sure { // lost fields follow, too, as a rule: what a webhook adds to a creation isn't the operator's by managedFields
		out.kept, out.fallback, out.body = fixed, out.body, merge.WithoutMade(out.body, kept)
	}
	return out, nil
}

// asIfCreated tells which of the fields that an update would change or lose follow from
// the desired state: a creation makes the same of them as the update, whose answer is
// given. The others are to be kept: they are made at a creation alone, or allocated. If
// a creation can't be tried, changed fields count as following, lost ones as kept, and
// sure is false.
func (x *Executor) asIfCreated(ctx context.Context, a *plan.Action, answer *resource.Resource, changed, lost []merge.MadeField) (follow, kept []merge.MadeField, sure bool) {
	fresh, err := x.Client.DryCreate(ctx, a.Kind, a.Ref.Key.Namespace, plan.TrialBody(x.Settings, a.Want, x.Parent))
	if err != nil {
		return changed, lost, false
	}
	follow, kept, gone := merge.SortMade(answer.Unstructured().Object, fresh, changed)
	_, has, hasNot := merge.SortMade(nil, fresh, lost)
	return append(follow, hasNot...), slices.Concat(kept, gone, has), true
}

// tryWithout tries, as a dry run, the update without the given fields. If the API server
// refuses it since some of them can't be changed, tryWithout tries once more with these.
// It returns the fields that the update lacked, and those that can't be changed.
func (x *Executor) tryWithout(ctx context.Context, a *plan.Action, body map[string]any, fields []merge.MadeField) (answer *resource.Resource, lacked, fixed []merge.MadeField, err error) {
	for lacked = fields; ; {
		answer, err = x.Client.Update(ctx, a.Kind, a.Ref.Key, "", merge.WithoutMade(body, lacked), true)
		named := apierror.ImmutableFields(err)
		if len(named) == 0 || fixed != nil {
			return answer, lacked, fixed, err
		}
		var rest []merge.MadeField
		for _, f := range lacked {
			if slices.ContainsFunc(named, f.Concerns) {
				fixed = append(fixed, f)
			} else {
				rest = append(rest, f)
			}
		}
		if lacked = rest; len(fixed) == 0 || len(lacked) == 0 {
			return nil, nil, fixed, err
		}
	}
}

// A fieldsOnce keeps the managedFields of a child once they are read, for one action.
// The store doesn't hold them. The zero value has read nothing.
type fieldsOnce struct {
	read    bool
	entries []metav1.ManagedFieldsEntry
}

// managedFields returns the managedFields of a child, from held if they were read. It
// fails with a conflict if the child has changed since the pass saw it.
func (x *Executor) managedFields(ctx context.Context, a *plan.Action, held *fieldsOnce) ([]metav1.ManagedFieldsEntry, error) {
	if held.read {
		return held.entries, nil
	}
	entries, err := x.readFields(ctx, a.Kind, a.Live)
	if err != nil {
		return nil, err
	}
	held.read, held.entries = true, entries
	return entries, nil
}

// readFields reads the managedFields of an object. It fails with a conflict if the
// object isn't the given one any more.
func (x *Executor) readFields(ctx context.Context, k *catalog.Kind, live *resource.Resource) ([]metav1.ManagedFieldsEntry, error) {
	meta, err := x.Client.ManagedFields(ctx, k, live.Key())
	if err != nil {
		return nil, err
	}
	if meta.UID != live.UID() || meta.ResourceVersion != live.ResourceVersion() {
		return nil, apierrors.NewConflict(k.GVR.GroupResource(), live.Name(), errors.New("it has changed"))
	}
	return meta.ManagedFields, nil
}

// sendRemake replaces a child by the body of a remake, or by its fallback if that
// fails: an update that lacks fields may be more than an API server can handle. If an
// update without a field has changed what only a creation makes, that is put back.
func (x *Executor) sendRemake(ctx context.Context, a *plan.Action, r remake, dryRun bool) (*resource.Resource, error) {
	live, err := x.Client.Update(ctx, a.Kind, a.Ref.Key, "", r.body, dryRun)
	if err != nil && r.fallback != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		var fell bool
		if live, fell, err = x.fallBack(ctx, a, r, dryRun); fell {
			return live, err
		}
	}
	if err != nil {
		return nil, err
	}
	x.Lessons.learn(r.in, r.kept, lessonKept)
	if dryRun || len(r.lacked) == 0 {
		return live, nil
	}
	made := live.Unstructured().Object
	_, changed, lost := merge.SortMade(r.fallback, made, r.lacked)
	changed, lost = x.Lessons.stay(r.in, changed), x.Lessons.stay(r.in, lost)
	if len(changed)+len(lost) == 0 {
		return live, nil
	}
	follow, kept, sure := x.asIfCreated(ctx, a, live, changed, lost)
	x.Lessons.learn(r.in, follow, lessonFollows)
	if len(kept) == 0 || !sure {
		return live, nil
	}
	x.Lessons.learn(r.in, kept, lessonKept)
	return x.Client.Update(ctx, a.Kind, a.Ref.Key, "", merge.TakeMade(made, r.fallback, kept), false)
}

// fallBack replaces a child by the fallback of a remake whose body was refused, unless
// what was in the way may be in the way of every update, or has gone since: then it tries
// the body once more. fell says that the answer is about the fallback.
func (x *Executor) fallBack(ctx context.Context, a *plan.Action, r remake, dryRun bool) (live *resource.Resource, fell bool, err error) {
	if _, err := x.Client.Update(ctx, a.Kind, a.Ref.Key, "", r.fallback, true); err != nil && !apierror.RefusesDryRun(err) {
		return nil, true, err
	}
	if live, err = x.Client.Update(ctx, a.Kind, a.Ref.Key, "", r.body, dryRun); err == nil {
		return live, false, nil
	}
	live, err = x.Client.Update(ctx, a.Kind, a.Ref.Key, "", r.fallback, dryRun)
	return live, true, err
}
