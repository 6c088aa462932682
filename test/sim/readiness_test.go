package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/resource"
)

// In runs with readiness parents have several Parts, which somebody else says to be ready, or
// not. A Secret waits for the first of them, and a new desired state goes over them a few at a
// time.

// parts returns the kind of Parts. One that its controller hasn't looked at yet isn't ready.
func (s *script) parts() fakeapi.Kind {
	k := fakeapi.Custom(partType(), "parts")
	if s.is(dense) {
		return k
	}
	k.NewStatus = map[string]any{"observedGeneration": int64(-1)}
	return k
}

// partNames returns the names of a parent's Parts.
func (s *script) partNames(parent string, count int) []string {
	out := []string{parent}
	if s.is(withReadiness) {
		for i := range count {
			out = append(out, fmt.Sprintf("%s-%d", parent, i+1))
		}
	}
	return out
}

// roll returns how Parts are updated: not a few at a time if they aren't updated at all.
func (s *script) roll() *config.Roll {
	if limit := s.maxUnavailable(); limit > 0 {
		return &config.Roll{MaxUnavailable: fmt.Sprint(limit)}
	}
	return nil
}

// maxUnavailable returns how many Parts of a parent may be unavailable, 0 if any number may.
func (s *script) maxUnavailable() int {
	switch {
	case !s.is(withReadiness) || s.Strategies[2] == string(config.OnDelete):
		return 0
	case s.is(twoAtOnce):
		return 2
	}
	return 1
}

// readinessActions are what happens to Parts of some parents.
func readinessActions(rng *rand.Rand, parents int, length time.Duration) (out []action) {
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	parent := func() string { return fmt.Sprint("p", rng.IntN(parents)) }
	part := func() string { return "Part/" + parent() + pick("", "-1", "-2", "-3") }
	value := func() string { return fmt.Sprint("v", rng.IntN(6)) }
	verbs := []func() []string{
		func() []string { return []string{"fail", part(), pick("Ready", "Stalled")} },
		func() []string { return []string{"fail", part(), pick("Ready", "Stalled")} },
		func() []string { return []string{"recover", part()} },
		func() []string { return []string{"break", value()} },
		func() []string { return []string{"unbreak", value()} },
		func() []string { return []string{"freeze"} },
		func() []string { return []string{"thaw"} },
		func() []string { return []string{"set", parent(), value(), pick("2", "3", "3")} },
		func() []string { return []string{"set", parent(), value(), pick("2", "3", "3")} },
		func() []string {
			return []string{pick("tamper", "delete", "replace", "unmark", "orphan", "strip"), part()}
		},
	}
	for range 5 + rng.IntN(25) {
		words := verbs[rng.IntN(len(verbs))]()
		when := time.Duration(rng.Int64N(int64(length))).Round(time.Millisecond)
		out = append(out, action{When: at, At: when, Verb: words[0], Args: words[1:]})
		if undo := map[string]string{"fail": "recover", "break": "unbreak", "freeze": "thaw"}[words[0]]; undo != "" {
			later := when + time.Duration(1+rng.IntN(30))*time.Second
			out = append(out, action{When: at, At: later, Verb: undo, Args: words[1:]})
		}
	}
	return out
}

// An illness is of Parts: by their names, those with some values, or of what looks at them.
type illness struct {
	parts  map[types.NamespacedName]string // the condition that tells
	values map[string]struct{}
	frozen bool
}

func (w *world) actOnReadiness(verb string, args []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch verb {
	case "fail":
		_, key := object(args[0])
		w.mu.ill.parts[key] = args[1]
	case "recover":
		_, key := object(args[0])
		delete(w.mu.ill.parts, key)
	case "break":
		w.mu.ill.values[args[0]] = struct{}{}
	case "unbreak":
		delete(w.mu.ill.values, args[0])
	case "freeze":
		w.mu.ill.frozen = true
	case "thaw":
		w.mu.ill.frozen = false
	}
}

func (w *world) mendReadiness() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.ill.frozen = false
	clear(w.mu.ill.parts)
	clear(w.mu.ill.values)
}

// observeParts is the controller of Parts: every three seconds it says how they are.
func (w *world) observeParts(ctx context.Context) {
	ticker := time.NewTicker(3 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.lookAtParts()
		}
	}
}

func (w *world) lookAtParts() {
	w.mu.Lock()
	frozen := w.mu.ill.frozen
	w.mu.Unlock()
	if frozen {
		return
	}
	for _, part := range w.server.List(partType()) {
		if w.isForeign(part.UID()) {
			continue
		}
		bad := w.complaint(part)
		_, _ = w.server.Change(partType(), part.Key(), func(o map[string]any) {
			meta, _ := o["metadata"].(map[string]any)
			if meta["deletionTimestamp"] == nil && meta["uid"] == string(part.UID()) {
				o["status"] = partStatus(meta["generation"], bad)
			}
		})
	}
}

// complaint returns the condition that tells what is wrong with a Part, "" if nothing is.
func (w *world) complaint(part *resource.Resource) string {
	value, _ := part.Field("spec", "value")
	text, _ := value.(string)
	w.mu.Lock()
	defer w.mu.Unlock()
	if bad := w.mu.ill.parts[part.Key()]; bad != "" {
		return bad
	}
	if _, broken := w.mu.ill.values[text]; broken {
		return "Ready"
	}
	return ""
}

func partStatus(generation any, bad string) map[string]any {
	condition := func(name string, is bool) any {
		status := map[bool]string{true: "True", false: "False"}[is]
		return map[string]any{"type": name, "status": status, "reason": "Simulated", "message": ""}
	}
	conditions := []any{condition("Ready", bad == "")}
	if bad == "Stalled" {
		conditions = append(conditions, condition("Stalled", true))
	}
	return map[string]any{"observedGeneration": generation, "conditions": conditions}
}

// isCurrent says whether a Part is ready, at its newest generation.
func isCurrent(o map[string]any) bool {
	meta, _ := o["metadata"].(map[string]any)
	status, _ := o["status"].(map[string]any)
	return meta["deletionTimestamp"] == nil && status["observedGeneration"] == meta["generation"] &&
		conditionOf(o, "Ready") == "True" && conditionOf(o, "Stalled") != "True"
}

// conditionOf returns the status of a condition, "" if there is none.
func conditionOf(o map[string]any, name string) string {
	status, _ := conditionsOf(o)[name]["status"].(string)
	return status
}

// conditionsOf returns the conditions of an object by their types.
func conditionsOf(o map[string]any) map[string]map[string]any {
	status, _ := o["status"].(map[string]any)
	list, _ := status["conditions"].([]any)
	out := map[string]map[string]any{}
	for _, item := range list {
		condition, _ := item.(map[string]any)
		name, _ := condition["type"].(string)
		out[name] = condition
	}
	return out
}

// gated returns desired children as the handler answers them: the Secret comes after the first
// Part, and in a chain each Part after the one before.
func (w *world) gated(children []map[string]any) (out []any) {
	for i, child := range children {
		meta, _ := child["metadata"].(map[string]any)
		name, _ := meta["name"].(string)
		kind, _ := child["kind"].(string)
		switch w.script.needOf(kind, name) {
		case "":
			out = append(out, child)
		case partOf(name):
			out = append(out, handler.After(child, children[0]))
		default:
			out = append(out, handler.After(child, children[i-1]))
		}
	}
	return out
}

// needOf returns the name of the Part that a child needs, "" if it needs none.
func (s *script) needOf(kind, name string) string {
	first, number, isLater := strings.Cut(name, "-")
	switch n, _ := strconv.Atoi(number); {
	case !s.is(withReadiness):
	case kind == "Secret", kind == partType().Kind && s.is(inChain) && n == 1:
		return first
	case kind == partType().Kind && s.is(inChain) && isLater:
		return fmt.Sprintf("%s-%d", first, n-1)
	}
	return ""
}

// partOf returns the name of the first Part of the parent that a child is of.
func partOf(name string) string {
	first, _, _ := strings.Cut(name, "-")
	return first
}

// A shownPart is what a pass knows of a Part: how it was shown to the handler, and how it is to
// be.
type shownPart struct {
	exists  bool
	current bool // is ready
	atGoal  bool // had all that is wanted, or is never changed
	goal    map[string]any
}

// showParts notes in a pass what the handler was shown of the Parts that it wants.
func (next *pass) showParts(req *handler.SyncRequest, wanted []map[string]any, onDelete bool) {
	next.parent, next.parts = req.Parent.UID(), map[string]shownPart{}
	for _, want := range wanted {
		if want["kind"] != partType().Kind {
			continue
		}
		meta, _ := want["metadata"].(map[string]any)
		name, _ := meta["name"].(string)
		goal, _ := want["spec"].(map[string]any)
		shown := shownPart{goal: goal}
		if held, ok := req.Children.OfType(partType()).Get(req.Parent.Namespace(), name); ok {
			o := held.Unstructured().Object
			shown.exists = true
			shown.current, shown.atGoal = isCurrent(o), holds(o["spec"], goal) || onDelete
		}
		next.parts[name] = shown
	}
}

// down returns how many Parts were shown to be unavailable. One that waits for another isn't meant
// to be there yet.
func (next *pass) down(s *script) (n int) {
	for name, part := range next.parts {
		need := s.needOf(partType().Kind, name)
		if !part.current && (part.exists || need == "" || next.parts[need].current) {
			n++
		}
	}
	return n
}

// A writtenPart is one that an operator has given a spec.
type writtenPart struct {
	parent  types.UID
	goal    map[string]any
	pending bool // it hasn't been ready since
}

func (w writtenPart) isAt(parent types.UID, goal map[string]any) bool {
	return w.parent == parent && reflect.DeepEqual(w.goal, goal)
}

// othersPendingLocked returns the Parts of a pass that operators have made unavailable, without one.
// With atGoal only those that are as they are to be count. A Part that is missing and isn't to be
// created yet doesn't count, unless the process has deleted it itself: nobody can know that it was there.
func (p *process) othersPendingLocked(of *pass, but string, atGoal bool) (names []string) {
	w := p.world
	for name, part := range of.parts {
		held, ok := w.mu.written[name]
		need := w.script.needOf(partType().Kind, name)
		_, anew := p.mu.anew["parts/"+name]
		mayCome := need == "" || of.parts[need].current && of.parts[need].atGoal
		if !part.exists && !anew && !mayCome {
			continue
		}
		if ok && name != but && held.pending && held.parent == of.parent && (!atGoal || held.isAt(of.parent, part.goal)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
