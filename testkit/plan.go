package testkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/encode"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/reconcile"
	"github.com/roperator/roperator/resource"
)

// A Plan is what an operator would do in one pass over a parent, and the error
// if that fails. Its methods say what a test expects of it, and return it, so
// that they can be chained. Whatever wasn't expected by the end of the test
// fails it.
type Plan struct {
	*offline

	t       testing.TB
	planned *reconcile.Planned
	err     error   // of the pass
	reasons []error // the errors of which err is made: one for each child that would be refused

	met       []bool  // which of the actions were expected
	errs      []error // those of reasons that weren't expected
	statusMet bool
	goneMet   bool // that the parent is let go was expected
}

// Sync calls the handler for a parent and its children, without a cluster, and
// returns what the engine would do then: by the code that decides it in a
// running operator. A parent with a deletionTimestamp is finalized. If the
// handler returns an error, or a response that the engine would refuse, the
// test fails unless it expects that by [Plan.WantError].
//
// Children of kinds that are built into Kubernetes are checked by their schemas, as an API
// server does that is told to be strict: an unknown field, a value of the wrong type, what is
// missing at creation, and a value outside an enum fail the test likewise. So is the status of a
// parent of such a kind. Which children aren't checked is in the test's log. What else an API
// server would refuse isn't known here; the rest of the plan is as if it accepted all.
//
// The objects are whatever could be returned as a child. What an API server
// would have set is filled in where it is missing: uid, resourceVersion,
// generation, the namespace ("default" for the parent, the parent's for its
// children), the finalizer, and what makes a child one of the parent's.
//
// Among the children may be what [Related] returns. Of those objects the handler is shown
// the ones that the parent refers to.
//
// Children are taken for what the API server holds, which fills in defaults: a
// child as the handler returns it is up to date as it is, and one with more
// fields too. That a field was set by an earlier build, and is to go, can be
// seen on a cluster only. A type that is neither built in nor in cfg.Mappings
// is taken for namespaced.
func Sync(t testing.TB, cfg config.Operator, h handler.Handler, parent any, children ...any) *Plan {
	t.Helper()
	o, req, err := requestFor(t, cfg, h, parent, children)
	if err != nil {
		t.Fatalf("testkit: sync: %v", err)
	}
	plan := &Plan{offline: o, t: t}
	plan.planned, plan.err = plan.planner.Plan(context.Background(), req)
	if plan.planned == nil { // the pass fails, and leaves all as it is
		status, _ := plan.parent.Field("status")
		plan.planned = &reconcile.Planned{Status: status}
	}
	plan.reasons = joinedErrors(plan.err)
	if refused := plan.checkSchemas(); len(refused) > 0 {
		plan.reasons = append(plan.reasons, refused...)
		plan.err = errors.Join(plan.err, apierror.Join(refused))
	}
	plan.met = make([]bool, len(plan.planned.Actions))
	plan.errs = slices.Clone(plan.reasons)
	t.Cleanup(plan.nothingElse)
	return plan
}

// WantCreate expects that a child is created that satisfies obj: the fields
// that obj doesn't set are free, as in [Kit.Eventually]. Those of a typed object that have
// their zero value aren't set; to want a zero, say so in a map. A status is left out of account,
// since no child is desired to have one.
func (p *Plan) WantCreate(obj any) *Plan {
	p.t.Helper()
	p.want(obj, "create")
	return p
}

// WantWait expects that a child which satisfies obj isn't created before each of needs is there
// and is ready, see [handler.After]. Without needs, it is a condition of the handler's own that isn't
// met, see [handler.When]. Where that may hold up the child beside needs, obj is handler.When(child, false)
// to expect that it does. WantCreate is for a child that is created now.
func (p *Plan) WantWait(obj any, needs ...any) *Plan {
	p.t.Helper()
	i := p.want(obj, "create, waiting")
	if i < 0 {
		return p
	}
	_, said := encode.Inner(obj)
	needs = slices.Concat(needs, said.Needs)
	wanted := make([]string, 0, len(needs)+1)
	for _, need := range needs {
		t, key, err := encode.Identity(need)
		if err != nil {
			p.t.Fatalf("testkit: want wait: %v", err)
		}
		if namespaced, _ := p.planner.Namespaced(t); namespaced && key.Namespace == "" {
			key.Namespace = p.parent.Namespace()
		}
		wanted = append(wanted, describe(t, key))
	}
	a := p.planned.Actions[i]
	found := make([]string, 0, len(a.Needs)+1)
	for _, ref := range a.Needs {
		found = append(found, describe(ref.Type, ref.Key))
	}
	slices.Sort(wanted)
	slices.Sort(found)
	const condition = "a condition of the handler"
	if len(needs) == 0 || said.Closed {
		wanted = append(wanted, condition)
	}
	if a.Closed && (len(a.Needs) == 0 || said.Closed) {
		found = append(found, condition)
	}
	if !slices.Equal(wanted, found) {
		p.fail("want %s to wait for %s", describe(a.Type, keyOf(a.Object)), strings.Join(wanted, ", "))
	}
	return p
}

// WantUpdate expects that a child is changed so that it satisfies obj, or is
// deleted and created anew so, if that is its type's strategy.
func (p *Plan) WantUpdate(obj any) *Plan {
	p.t.Helper()
	p.want(obj, "update", "recreate")
	return p
}

// WantDelete expects that a child is deleted. For a parent that is being
// deleted, WantDelete(parent) expects that it is let go: Finalized.
func (p *Plan) WantDelete(obj any) *Plan {
	p.t.Helper()
	if t, key, err := encode.Identity(obj); err == nil && t == p.parent.Type() && key.Name == p.parent.Name() {
		if !p.planned.Finalized {
			p.fail("want %s let go", describe(t, p.parent.Key()))
		}
		p.goneMet = true
		return p
	}
	p.want(obj, "delete")
	return p
}

// WantStatus expects that the parent's status satisfies v after the pass,
// whether it is written for that or has been so before: keys that v doesn't
// have are free.
func (p *Plan) WantStatus(v any) *Plan {
	p.t.Helper()
	wanted, err := encode.Map(map[string]any{"status": v})
	if err != nil {
		p.t.Fatalf("testkit: want status: %v", err)
	}
	p.statusMet = true
	have := map[string]any{"status": p.planned.Status}
	if _, ok := wanted["status"].(map[string]any); !ok {
		if !reflect.DeepEqual(have, wanted) {
			p.fail("want status %s, not %s", formatValue(wanted["status"]), formatValue(p.planned.Status))
		}
		return p
	}
	if differences := p.planner.Compare(p.parent.Type(), have, wanted); len(differences) > 0 {
		p.fail("the status isn't as wanted:\n%s", formatPlanned(p.parent.Type(), differences))
	}
	return p
}

// WantError expects that the pass fails with an error whose text contains this
// one: an error of the handler, what the engine finds wrong with its
// response, or what an API server would refuse a child for by its schema. A pass may fail for several
// reasons, each of which is to be expected; what is wrong with one child is one reason. What the failed pass does all the same, such as writing the status
// that the handler returned along with its error, is for the other methods.
func (p *Plan) WantError(text string) *Plan {
	p.t.Helper()
	switch {
	case p.err == nil:
		p.fail("want an error with %q", text)
	case !strings.Contains(p.err.Error(), text):
		p.fail("want an error with %q, not %q", text, p.err)
		p.errs = nil
	default:
		p.meet(text)
	}
	return p
}

// meet notes that the errors with this text were expected. A text that no single one has spans
// several, so that all were.
func (p *Plan) meet(text string) {
	has := func(err error) bool { return strings.Contains(err.Error(), text) }
	if slices.ContainsFunc(p.reasons, has) {
		p.errs = slices.DeleteFunc(p.errs, has)
	} else {
		p.errs = nil
	}
}

// joinedErrors returns the errors that were joined to err, or err itself.
func joinedErrors(err error) (out []error) {
	joined, ok := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
		return nil
	case !ok:
		return []error{err}
	}
	for _, each := range joined.Unwrap() {
		out = append(out, joinedErrors(each)...)
	}
	return out
}

// WantNothing expects that nothing is written, no child, no status, and that
// the pass doesn't fail unless WantError has expected that before.
func (p *Plan) WantNothing() *Plan {
	p.t.Helper()
	if lines := p.unmet(); len(lines) > 0 {
		p.fail("want nothing to do")
	}
	p.expectAll()
	return p
}

// want looks for an action with one of these verbs on the object, and returns its index, -1 if
// there is none.
func (p *Plan) want(obj any, verbs ...string) int {
	p.t.Helper()
	wanted, err := wantedObject(obj)
	if err != nil {
		p.t.Fatalf("testkit: want %s: %v", verbs[0], err)
	}
	delete(wanted, "status") // never desired of a child
	t, key := typeOf(wanted), keyOf(wanted)
	if namespaced, _ := p.planner.Namespaced(t); namespaced && key.Namespace == "" {
		key.Namespace = p.parent.Namespace()
	}
	for i, a := range p.planned.Actions {
		if p.met[i] || a.Type != t || keyOf(a.Object) != key {
			continue
		}
		p.met[i] = true
		verb := a.Verb
		if a.Waits != "" {
			verb += ", waiting"
		}
		if !slices.Contains(verbs, verb) {
			p.fail("want %s %s, not %s", verbs[0], describe(t, key), verb)
			return -1
		}
		if a.Verb == "delete" {
			return i
		}
		if differences := p.planner.Compare(t, a.Object, wanted); len(differences) > 0 {
			p.fail("%s %s isn't as wanted:\n%s", a.Verb, describe(t, key), formatPlanned(t, differences))
		}
		return i
	}
	p.fail("want %s %s", verbs[0], describe(t, key))
	return -1
}

func keyOf(object map[string]any) types.NamespacedName {
	meta, _ := object["metadata"].(map[string]any)
	namespace, _ := meta["namespace"].(string)
	name, _ := meta["name"].(string)
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// formatPlanned is formatDifferences for what isn't live yet.
func formatPlanned(t resource.Type, differences []merge.Difference) string {
	return strings.ReplaceAll(formatDifferences(t, differences), ": live ", ": planned ")
}

// fail says what the plan is, besides.
func (p *Plan) fail(format string, args ...any) {
	p.t.Helper()
	p.t.Errorf("testkit: sync: %s\n%s", fmt.Sprintf(format, args...), p)
}

// nothingElse fails the test for what wasn't expected.
func (p *Plan) nothingElse() {
	p.t.Helper()
	if lines := p.unmet(); len(lines) > 0 && !p.t.Skipped() {
		p.t.Errorf("testkit: sync: %s: not expected:\n%s", describe(p.parent.Type(), p.parent.Key()), strings.Join(lines, "\n"))
	}
}

// unmet lists what wasn't expected so far.
func (p *Plan) unmet() []string {
	var lines []string
	for _, err := range p.errs {
		lines = append(lines, formatError(err))
	}
	for i, a := range p.planned.Actions {
		if !p.met[i] {
			lines = append(lines, formatAction(a))
		}
	}
	if p.planned.WritesStatus && !p.statusMet {
		lines = append(lines, "  status "+formatValue(p.planned.Status))
	}
	if p.planned.Finalized && !p.goneMet {
		lines = append(lines, "  let go "+describe(p.parent.Type(), p.parent.Key()))
	}
	return lines
}

func (p *Plan) expectAll() {
	for i := range p.met {
		p.met[i] = true
	}
	p.errs, p.statusMet, p.goneMet = nil, true, true
}

// String lists the whole plan, a line for each action; values of Secrets are
// left out.
func (p *Plan) String() string {
	lines := []string{"the plan for " + describe(p.parent.Type(), p.parent.Key()) + ":"}
	for _, err := range p.reasons {
		lines = append(lines, formatError(err))
	}
	for _, a := range p.planned.Actions {
		lines = append(lines, formatAction(a))
	}
	switch {
	case p.planned.WritesStatus:
		lines = append(lines, "  status "+formatValue(p.planned.Status))
	case p.planned.Status != nil:
		lines = append(lines, "  status as it is, "+formatValue(p.planned.Status))
	}
	if p.planned.Finalized {
		lines = append(lines, "  let go "+describe(p.parent.Type(), p.parent.Key()))
	}
	if len(lines) == 1 {
		lines = append(lines, "  nothing to do")
	}
	return strings.Join(lines, "\n")
}

func formatError(err error) string { return "  fail: " + formatWithStack(err) }

func formatAction(a plan.ForeseenAction) string {
	var line strings.Builder
	line.WriteString("  " + a.Verb + " " + describe(a.Type, keyOf(a.Object)))
	if a.Waits != "" {
		line.WriteString(", " + a.Waits)
	}
	for _, d := range a.Fields {
		live, wanted := formatValue(d.Live), formatValue(d.Desired)
		if isSecret(a.Type, d.Path) {
			live, wanted = secretValue(d.Live), secretValue(d.Desired)
		}
		fmt.Fprintf(&line, "\n    %s: %s -> %s", cmp.Or(d.Path, "(the whole object)"), live, wanted)
	}
	return line.String()
}
