package reconcile

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/apply"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/object"
)

// What a pass with DryRun foresees instead of writing.

// changeOfChild returns what a rehearsed action would do.
func (p *pass) changeOfChild(r *apply.Result) plan.Change {
	v := r.Would
	if v == plan.VerbApply {
		v = plan.VerbUpdate
	}
	return plan.Change{Parent: p.parent.Key(), Object: r.Action.Ref.Key, Type: r.Action.Ref.Type, Verb: string(v), Fields: r.Fields}
}

// changeOfParent returns what would be done with the parent itself.
func (p *pass) changeOfParent(verb string, fields []plan.FieldChange) plan.Change {
	return plan.Change{Parent: p.parent.Key(), Object: p.parent.Key(), Type: p.parent.Type(), Verb: verb, Fields: fields}
}

// wouldChangeChildren says whether anything was foreseen for a child.
func (p *pass) wouldChangeChildren() bool {
	return slices.ContainsFunc(p.would, func(c plan.Change) bool { return c.Type != p.parent.Type() })
}

// foreseeFinalizers notes what would become of the parent's finalizers.
func (p *pass) foreseeFinalizers(change func([]string) []string) {
	held := p.parent.Finalizers()
	want := change(slices.Clone(held))
	if slices.Equal(held, want) {
		return
	}
	p.would = append(p.would, p.changeOfParent("update", []plan.FieldChange{{Path: "metadata.finalizers", Live: jsonList(held), Desired: jsonList(want)}}))
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

// foreseeStatus notes what would become of the parent's status.
func (p *pass) foreseeStatus(ctx context.Context, want, live any) error {
	answer, err := p.client.Update(ctx, p.Types.Parent, p.parent.Key(), "status", p.withStatus(want), true)
	made := want
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return p.rereadParent(ctx)
	case apierror.RefusesDryRun(err):
	case err != nil:
		return fmt.Errorf("%s: status: %w", object.RefOf(p.parent), err)
	default:
		made, _ = answer.Field("status")
		made = jsonvalue.NullFree(made)
	}
	if jsonvalue.Equal(live, made) {
		return nil
	}
	p.would = append(p.would, p.changeOfParent("update", plan.StatusEffects(live, made)))
	return nil
}

// tellWould logs what was foreseen, once until it changes.
func (p *pass) tellWould(ctx context.Context) {
	if !p.Config.DryRun {
		return
	}
	level := slog.LevelDebug
	if p.memory.Foretell(jsonvalue.Sum(p.would)) {
		level = slog.LevelInfo
	}
	for _, c := range p.would {
		p.Logger().Log(ctx, level, "dry run", "would", c.Verb, "child", object.Ref{Type: c.Type, Key: c.Object}.String(), "fields", fieldTexts(p.Types.Of(c.Type), c))
	}
}

// fieldTexts prints the fields of a change for a log.
func fieldTexts(k *catalog.Kind, c plan.Change) []string {
	var out []string
	for _, f := range c.Fields {
		switch {
		case f.Path == "":
			continue
		case len(out) == apierror.MaxListed:
			return append(out, fmt.Sprintf("and %d more", len(c.Fields)-apierror.MaxListed))
		}
		out = append(out, fmt.Sprintf("%s: %s -> %s", f.Path, show(k, f.Live), show(k, f.Desired)))
	}
	return out
}
