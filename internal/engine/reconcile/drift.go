package reconcile

import (
	"context"
	"fmt"
	"strings"

	"github.com/roperator/roperator/internal/engine/apply"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/plan"
)

// tellIgnored logs and records which fields of a child an accepted update has not changed. It is called once for a desired state.
func (p *pass) tellIgnored(ctx context.Context, r *apply.Result) {
	a := r.Action
	texts := make([]string, 0, len(r.Ignored))
	for _, d := range r.Ignored[:min(len(r.Ignored), maxRejected)] {
		texts = append(texts, fmt.Sprintf("%s keeps %s instead of %s", d.Path, show(a.Kind, d.Live), show(a.Kind, d.Desired)))
	}
	if more := len(r.Ignored) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("%d more fields", more))
	}
	p.Logger().WarnContext(ctx, "the API server has accepted an update and ignored fields of it", "child", a.Ref.String(), "fields", texts)
	p.event(p.parent, observe.Warning, observe.ReasonUpdateIgnored, fmt.Sprintf("%s: %s; the API server has accepted the update and ignored this", p.nameOf(a.Ref), strings.Join(texts, ", ")))
}

// maxRejected bounds how many fields one Event about rejected corrections names.
const maxRejected = 3

// tellDrift logs and records, once, which fields of a child keep another client's values, since the API server rejects their
// correction. The report names the line of configuration that leaves them to others.
func (p *pass) tellDrift(ctx context.Context, a *plan.Action) {
	fields := plan.RejectedFields(p.Settings, a)
	if len(fields) == 0 {
		return
	}
	texts, paths := make([]string, 0, len(fields)), make([]string, 0, len(fields))
	for _, f := range fields {
		if len(texts) == maxRejected {
			texts = append(texts, fmt.Sprintf("%d more fields", len(fields)-maxRejected))
			break
		}
		text := fmt.Sprintf("%s keeps %s instead of %s", f.Path, show(a.Kind, f.Live), show(a.Kind, f.Desired))
		if by := f.By; by != nil {
			text += fmt.Sprintf(" (field manager %s, %s)", by.Manager, by.Operation)
		}
		texts, paths = append(texts, text), append(paths, fmt.Sprintf("%q", f.Path))
	}
	note := fmt.Sprintf("%s: %s; the API server rejects the correction", p.nameOf(a.Ref), strings.Join(texts, ", "))
	advice := fmt.Sprintf("IgnoreFields: []string{%s}", strings.Join(paths, ", "))
	p.Logger().WarnContext(ctx, "fields of a child keep the values of another client", "child", a.Ref.String(), "fields", texts, "advice", advice, "error", a.Rejection.Err)
	room := max(0, observe.MaxEventNote-len(note)-len(advice)-100)
	p.event(p.parent, observe.Warning, observe.ReasonCorrectionRejected, fmt.Sprintf("%s: %s; to leave such fields to others, set %s", note, observe.Shorten(a.Rejection.Err.Error(), room), advice))
}
