package runner

import (
	"cmp"
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
)

// With DryRun, and for a plan, an action isn't carried out but rehearsed: dry
// runs tell what it would change, and whether it would be refused.

// rehearse finds out what an action would change. The verb of the action is
// then what would really be done, and the fields of the result say the rest.
func (x *executor) rehearse(ctx context.Context, a *action) result {
	var r result
	switch a.verb {
	case verbCreate:
		r = x.rehearseCreate(ctx, a)
	case verbVerify:
		r = x.verify(ctx, a)
	case verbRecreate:
		r = x.recreate(ctx, a)
	case verbUpdate, verbApply:
		r = x.unlessCreatedSo(ctx, a, x.rehearseUpdate)
	case verbMark, verbDelete:
		r = result{skipped: true}
	}
	r.wrote = false // what someone else has written since the snapshot
	return r
}

func (x *executor) rehearseCreate(ctx context.Context, a *action) result {
	_, err := x.client.dryCreate(ctx, a.kind, a.ref.Key.Namespace, x.createBody(a.want, x.parent))
	_, expected := x.expected.Load(a.ref.Key.Namespace)
	switch {
	case apierrors.IsAlreadyExists(err):
		return x.claim(ctx, a)
	case apierrors.IsNotFound(err) && expected, refusesDryRun(err):
	case err != nil:
		return result{err: err}
	}
	if a.kind.isNamespace() {
		x.expected.Store(a.ref.Key.Name, true)
	}
	return result{skipped: true, fields: []FieldChange{{Desired: concealed(a.kind, nullFree(a.want.object))}}}
}

func (x *executor) rehearseUpdate(ctx context.Context, a *action) result {
	answer, err := x.client.update(ctx, a.kind, a.ref.Key, "", x.updateBody(a, x.parent), true)
	switch {
	case refusesDryRun(err):
		return result{skipped: true, fields: fieldsOf(a)}
	case err != nil:
		return result{err: err}
	}
	fields := x.effects(a.kind, a.live, answer)
	if len(fields) == 0 {
		a.verb = verbMark
	}
	return result{skipped: true, fields: fields}
}

// rehearseTake says what becomes of an object that would be taken over by
// claimPatch, and then be treated as any child.
func (x *executor) rehearseTake(ctx context.Context, a *action, live *resource.Resource, claimPatch []byte) result {
	taken, err := x.client.dryPatch(ctx, a.kind, a.ref.Key, types.MergePatchType, claimPatch)
	switch {
	case refusesDryRun(err):
		taken = live
	case err != nil:
		return result{err: err}
	}
	claimed := x.effects(a.kind, live, taken)
	next, ok := x.decide(a.want, taken, nil)
	if !ok || next.verb == "" || next.verb == verbMark {
		a.verb = verbUpdate
		return result{skipped: true, fields: claimed}
	}
	*a = next
	r := x.rehearse(ctx, a)
	if r.skipped && a.verb == verbMark {
		a.verb = verbUpdate
	}
	r.fields = sortedFields(append(claimed, r.fields...))
	return r
}

// effects lists what a write changes of a live object, in the order of the
// paths: the engine's mark and what the server counts aside.
func (x *executor) effects(k *kind, live, answer *resource.Resource) []FieldChange {
	before, after := x.settled(live.Unstructured().Object), x.settled(answer.Unstructured().Object)
	return concealedFields(k, bothWays(&comparison{schema: k.comparison.schema}, before, after))
}

// bothWays lists in what two objects differ, in the order of the paths.
func bothWays(c *comparison, before, after map[string]any) []FieldChange {
	var out []FieldChange
	seen := map[string]struct{}{}
	for _, d := range c.compare(before, after, nil) {
		seen[d.Path] = struct{}{}
		out = append(out, FieldChange{d.Path, d.Live, d.Desired})
	}
	for _, d := range c.compare(after, before, nil) { // what goes
		if _, ok := seen[d.Path]; !ok {
			out = append(out, FieldChange{d.Path, d.Desired, d.Live})
		}
	}
	return sortedFields(out)
}

// fieldsOf lists the reasons for an action, where the server doesn't say what
// it would make of it.
func fieldsOf(a *action) []FieldChange {
	out := make([]FieldChange, 0, len(a.diffs))
	for _, d := range a.diffs {
		out = append(out, FieldChange{d.Path, d.Live, d.Desired})
	}
	return sortedFields(concealedFields(a.kind, out))
}

func sortedFields(fields []FieldChange) []FieldChange {
	slices.SortStableFunc(fields, func(a, b FieldChange) int { return cmp.Compare(a.Path, b.Path) })
	return fields
}

// hidden stands for a value of a Secret.
const hidden = "(hidden)"

func concealedFields(k *kind, fields []FieldChange) []FieldChange {
	if !k.secret() {
		return fields
	}
	for i, f := range fields {
		if f.Live != nil {
			fields[i].Live = hidden
		}
		if f.Desired != nil {
			fields[i].Desired = hidden
		}
	}
	return fields
}

// concealed returns an object without the values of a Secret: of those only the
// keys are left, and what says which Secret it is.
func concealed(k *kind, object any) any {
	fields, ok := object.(map[string]any)
	if !k.secret() || !ok {
		return object
	}
	out := make(map[string]any, len(fields))
	for key, value := range fields {
		switch key {
		case "apiVersion", "kind", "type", "immutable":
			out[key] = value
		case "metadata":
			meta, _ := value.(map[string]any)
			shown := map[string]any{}
			for name, v := range meta {
				if shown[name] = v; name != "name" && name != "namespace" {
					shown[name] = concealedValues(v)
				}
			}
			out[key] = shown
		default:
			out[key] = concealedValues(value)
		}
	}
	return out
}

// concealedValues hides every value of an object, and anything else as a whole.
func concealedValues(v any) any {
	fields, ok := v.(map[string]any)
	if !ok {
		return hidden
	}
	out := make(map[string]any, len(fields))
	for key := range fields {
		out[key] = hidden
	}
	return out
}
