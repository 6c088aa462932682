package runner

import (
	"context"
	"encoding/hex"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Where nothing is remembered of a child, a dry run tells what is only the
// server's way of writing what is desired.

// verify sends the update that a child seems to need as a dry run. Fields that
// come back as they are were normalized by the server when it accepted the
// same desired state; only what is left is a difference.
func (x *executor) verify(ctx context.Context, a *action) result {
	rest, err := x.normalized(ctx, a, nil)
	if len(immutableFields(err)) > 0 && len(a.diffs) > 1 {
		rest, err = x.normalizedOneByOne(ctx, a)
	}
	if err != nil {
		return result{err: err}
	}
	return x.reconsider(ctx, a, rest)
}

// reconsider does what is left to do of an action if rest is what the server
// makes of the desired state.
func (x *executor) reconsider(ctx context.Context, a *action, rest []difference) result {
	var known parentMemory
	known.accepted(a.want, a.live, rest)
	known.children.of(a.ref).version = "" // not yet found to be satisfied
	again, ok := x.decide(a.want, a.live, known.children.of(a.ref))
	if !ok || again.verb == "" {
		return result{live: a.live, accepted: true}
	}
	again.restores = false // whether since the restart or before can't be known
	*a = again
	if x.cfg.DryRun {
		return x.rehearse(ctx, a)
	}
	return x.request(ctx, a)
}

// normalized returns the fields in which the server's answer to a dry run
// differs from the desired state; paths in ignore stay as they are.
func (x *executor) normalized(ctx context.Context, a *action, ignore []string) ([]difference, error) {
	answer, err := x.client.update(ctx, a.kind, a.ref.Key, "", x.updateBody(a, x.parent, ignore...), true)
	switch {
	case err == nil:
		return a.kind.comparison.without(ignore).compare(answer.Unstructured().Object, a.want.object, nil), nil
	case refusesDryRun(err):
		return a.diffs, nil // then the hash on the child has to do
	case len(immutableFields(err)) > 0 && len(a.diffs)-len(ignore) == 1:
		return a.diffs, nil // nobody could have changed it since the creation
	}
	return nil, err
}

// normalizedOneByOne tries each differing field on its own, so that one that
// can't be changed doesn't hide another that was.
func (x *executor) normalizedOneByOne(ctx context.Context, a *action) ([]difference, error) {
	var rest []difference
	for i, diff := range a.diffs {
		var others []string
		for j, other := range a.diffs {
			if j != i {
				others = append(others, other.Path)
			}
		}
		found, err := x.normalized(ctx, a, others)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			if f.Path == diff.Path {
				rest = append(rest, f)
			}
		}
	}
	return rest, nil
}

// recreate deletes a child that is to be created again, unless the update that
// it seems to need would change nothing: a new build may spell the same
// differently, or no longer say what is a default.
func (x *executor) recreate(ctx context.Context, a *action) result {
	answer, err := x.client.update(ctx, a.kind, a.ref.Key, "", x.updateBody(a, x.parent), true)
	switch {
	case err != nil && !isRefusal(err) && !refusesDryRun(err) && !apierrors.IsForbidden(err):
		return result{err: err}
	case err == nil && equalValues(x.settled(answer.Unstructured().Object), x.settled(a.live.Unstructured().Object)):
		a.verb = verbMark
	case len(immutableFields(err)) > 0 && a.unknown:
		if rest, ok := x.asCreated(ctx, a); ok {
			return x.reconsider(ctx, a, rest)
		}
	}
	switch {
	case x.cfg.DryRun:
		fields := fieldsOf(a)
		if err == nil {
			fields = x.effects(a.kind, a.live, answer)
		}
		return result{skipped: true, fields: fields}
	case a.verb == verbMark:
		return x.request(ctx, a)
	}
	return x.delete(ctx, a)
}

// settled returns an object without what every write changes.
func (s *settings) settled(object map[string]any) map[string]any {
	object = maps.Clone(object)
	meta := cloneObject(object, "metadata")
	delete(meta, "resourceVersion")
	delete(meta, "generation") // that of a Deployment counts changes of annotations
	delete(cloneObject(meta, "annotations"), s.mark)
	return object
}

// unlessCreatedSo carries out an action. If a field can't be changed and
// nothing is remembered of the child, the field may differ only by what
// admission has made of it: then the action is tried without it.
func (x *executor) unlessCreatedSo(ctx context.Context, a *action, try func(context.Context, *action) result) result {
	r := try(ctx, a)
	if !a.unknown || len(immutableFields(r.err)) == 0 {
		return r
	}
	rest, ok := x.asCreated(ctx, a)
	if !ok {
		return r
	}
	return x.reconsider(ctx, a, rest)
}

// asCreated returns the fields in which a child would differ from the desired
// state if it were created now, by a dry run under another name. It returns
// false if that can't be found out, or explains nothing.
func (x *executor) asCreated(ctx context.Context, a *action) ([]difference, bool) {
	other := *a.want
	other.object = maps.Clone(other.object)
	name := "roperator-dry-run-" + hex.EncodeToString(a.want.sum[:8])
	cloneObject(other.object, "metadata")["name"] = name
	answer, err := x.client.dryCreate(ctx, a.kind, a.ref.Key.Namespace, x.createBody(&other, x.parent))
	if err != nil {
		return nil, false
	}
	rest := a.kind.comparison.compare(answer, a.want.object, nil)
	var as parentMemory
	as.accepted(a.want, a.live, rest)
	if slices.ContainsFunc(a.diffs, as.children.of(a.ref).explains) {
		return rest, true
	}
	return nil, false
}
