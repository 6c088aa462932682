package runner

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// What a pass with DryRun notes down instead of writing.

// changeOfChild is what a rehearsed action would do.
func (p *pass) changeOfChild(r *result) Change {
	v := r.action.verb
	if v == verbApply {
		v = verbUpdate
	}
	return Change{Parent: p.parent.Key(), Object: r.action.ref.Key, Type: r.action.ref.Type, Verb: string(v), Fields: r.fields}
}

func (p *pass) changeOfParent(verb string, fields []FieldChange) Change {
	return Change{Parent: p.parent.Key(), Object: p.parent.Key(), Type: p.parent.Type(), Verb: verb, Fields: fields}
}

// wouldChangeChildren says whether anything was noted down of a child.
func (p *pass) wouldChangeChildren() bool {
	return slices.ContainsFunc(p.would, func(c Change) bool { return c.Type != p.parent.Type() })
}

// rehearseFinalizers notes down what would become of the parent's finalizers.
func (p *pass) rehearseFinalizers(change func([]string) []string) {
	held := p.parent.Finalizers()
	want := change(slices.Clone(held))
	if slices.Equal(held, want) {
		return
	}
	p.would = append(p.would, p.changeOfParent("update", []FieldChange{{"metadata.finalizers", jsonList(held), jsonList(want)}}))
}

// jsonList returns a list of strings as a JSON value, nil if it is empty.
func jsonList(list []string) any {
	if len(list) == 0 {
		return nil
	}
	out := make([]any, 0, len(list))
	for _, item := range list {
		out = append(out, item)
	}
	return out
}

// rehearseStatus notes down what would become of the parent's status.
func (p *pass) rehearseStatus(ctx context.Context, want, live any) error {
	body := p.parent.Unstructured().Object
	body["status"] = want
	answer, err := p.client.update(ctx, p.types.parent, p.parent.Key(), "status", body, true)
	made := want
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return p.rereadParent(ctx)
	case refusesDryRun(err):
	case err != nil:
		return fmt.Errorf("%s: status: %w", refOf(p.parent), err)
	default:
		made, _ = answer.Field("status")
		made = nullFree(made)
	}
	if equalValues(live, made) {
		return nil
	}
	p.would = append(p.would, p.changeOfParent("update", statusFields(live, made)))
	return nil
}

// rereadParent takes note that the parent has changed since the snapshot.
func (p *pass) rereadParent(ctx context.Context) error {
	live, err := p.client.get(ctx, p.types.parent, p.parent.Key())
	switch held, ok := p.store.parent(p.parent.UID()); {
	case apierrors.IsNotFound(err) && ok, err == nil && ok && live.UID() != p.parent.UID():
		p.store.observeDeleted(stream{Type: p.parent.Type()}, held)
	case apierrors.IsNotFound(err), !ok:
	case err != nil:
		return fmt.Errorf("%s: read: %w", refOf(p.parent), err)
	default:
		p.store.wrote(live)
	}
	p.outdated = true
	return nil
}

// statusFields lists in what two statuses differ.
func statusFields(live, want any) []FieldChange {
	before, _ := live.(map[string]any)
	after, _ := want.(map[string]any)
	if before == nil && live != nil || after == nil && want != nil {
		return []FieldChange{{"status", live, want}} // not objects
	}
	// A status isn't compared, so it is called something else meanwhile.
	a, b := map[string]any{"spec": before}, map[string]any{"spec": after}
	fields := bothWays(&comparison{}, a, b)
	for i, f := range fields {
		fields[i].Path = "status" + f.Path[len("spec"):]
	}
	if len(fields) == 0 { // an empty one appears or goes
		return []FieldChange{{"status", live, want}}
	}
	return fields
}

// tellWould logs what was noted down, once until it changes.
func (p *pass) tellWould(ctx context.Context) {
	if !p.cfg.DryRun {
		return
	}
	level := slog.LevelInfo
	if sum := jsonSum(p.would); sum == p.memory.told {
		level = slog.LevelDebug
	} else {
		p.memory.told = sum
	}
	for _, c := range p.would {
		p.logger().Log(ctx, level, "dry run", "would", c.Verb, "child", objectRef{c.Type, c.Object}.String(), "fields", fieldTexts(p.types.byType[c.Type], c))
	}
}

// fieldTexts prints the fields of a change for a log.
func fieldTexts(k *kind, c Change) []string {
	var out []string
	for _, f := range c.Fields {
		switch {
		case f.Path == "":
			continue
		case len(out) == maxListed:
			return append(out, fmt.Sprintf("and %d more", len(c.Fields)-maxListed))
		}
		out = append(out, fmt.Sprintf("%s: %s -> %s", f.Path, show(k, f.Live), show(k, f.Desired)))
	}
	return out
}
