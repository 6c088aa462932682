package explain

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/object"
)

// Make explains a parent and its children.
func Make(in Input) Explanation {
	out := Explanation{Operator: in.Settings.Config.Name, Children: childrenOf(in), Related: in.Related, Process: in.Process}
	if out.Related == nil {
		out.Related = []Related{}
	}
	out.Parent = parentOf(in, out.Children)
	return out
}

// parentOf returns what there is to say of the parent.
func parentOf(in Input, children []Child) Parent {
	p := Parent{Object: objectOf(object.RefOf(in.Parent)), Generation: in.Parent.Generation(), Finalizers: in.Parent.Finalizers()}
	if at := in.Parent.DeletionTimestamp(); at != nil {
		p.DeletedAt = timeOf(at.Time)
	}
	if seen, ok := in.Parent.Field("status", "observedGeneration"); ok {
		p.ObservedGeneration, _ = seen.(int64)
	}
	p.Conditions = conditionsOf(in)
	fields := fieldsOf(plan.WrittenStatus(in.Settings.Types.Parent, in.Metadata, nil, in.Settings.Config.Name))
	entries := in.Entries[object.RefOf(in.Parent)]
	p.Fields = append(fields, fieldsOf(plan.WrittenStatus(in.Settings.Types.Parent, in.Status, entries, in.Settings.Config.Name))...)
	p.judge(in, children)
	return p
}

// judge fills in the state of the parent, and why it is that.
func (p *Parent) judge(in Input, children []Child) {
	loop, throttled := throttledBy(in)
	failed := p.fail(in, children)
	paused, _ := in.Parent.Annotation(in.Settings.Paused)
	pending := count(children, func(c Child) bool { return c.State != WaitsFor && c.Verb != "" })
	waiting := slices.IndexFunc(children, Child.waits)
	unready := slices.IndexFunc(children, func(c Child) bool { return c.Readiness != "" && c.Readiness != readiness.Current })
	switch {
	case in.Unselected != "":
		p.State, p.Reason = NotSelected, in.Unselected
	case in.Parent.IsDeleting():
		p.State, p.Reason = Finalizing, finalizingReason(in)
	case paused == "true":
		p.State, p.Reason = Paused, "by the annotation "+in.Settings.Paused+"; remove it to go on. What follows is what the operator would do then"
	case throttled:
		p.State, p.Reason = Throttled, loop
	case failed:
		p.State = Failing
	case pending > 0:
		p.State, p.Reason = Pending, fmt.Sprintf("%s to be written", counted(pending, "child is", "children are"))
	case waiting >= 0:
		p.State, p.Reason = Waiting, waitingReason(children[waiting])
	case len(p.Fields) > 0:
		p.State, p.Reason = Pending, fmt.Sprintf("%s of the parent to be written", counted(len(p.Fields), "field is", "fields are"))
	case unready >= 0:
		c := children[unready]
		p.State, p.Reason = NotReady, fmt.Sprintf("all is as desired, but %s is %s: %s", c.Object, c.Readiness, c.ReadinessMessage)
	default:
		p.State, p.Reason = Settled, "all is as desired"
	}
}

// waits says whether something that the operator doesn't do has to come before a child is as desired.
func (c Child) waits() bool {
	switch c.State {
	case WaitsFor, Deleting, NotServed:
		return true
	case Missing:
		return c.Verb == ""
	}
	return false
}

// fail fills in the error of the parent, and says whether there is one. What the running process
// has met counts more than what a pass would meet now.
func (p *Parent) fail(in Input, children []Child) bool {
	p.FailingSince = in.Process.FailingSince
	switch {
	case in.Process.LastError != "":
		p.Error = in.Process.LastError
	case in.Err != nil:
		p.Error = in.Err.Error()
	default:
		if c, ok := ownCondition(in, "Ready"); ok && in.Process.Unknown != "" && slices.Contains(failures(), c.Reason) {
			p.Error, p.FailingSince = c.Message, timeOf(c.LastTransitionTime.Time)
			break
		}
		if i := slices.IndexFunc(children, func(c Child) bool { return c.Error != "" || c.State == Foreign }); i >= 0 {
			p.Error = children[i].String() + ": " + children[i].why()
		}
	}
	return p.Error != ""
}

// why says why a child isn't as desired.
func (c Child) why() string {
	if c.Error != "" {
		return c.Error
	}
	return c.Reason
}

// failures returns the reasons of a Ready condition that tell of an error.
func failures() []string {
	return []string{plan.ReasonWriteFailed, plan.ReasonWriteRefused, plan.ReasonHandlerFailed, plan.ReasonInvalidResponse}
}

// undone says what makes a conflict loop.
const undone = "somebody undoes what the operator writes, or the handler returns something else each time"

// throttledBy says whether a conflict loop throttles the parent, and by what. Where the running
// process can't be asked, the conditions that it keeps may tell.
func throttledBy(in Input) (loop string, throttled bool) {
	if l := in.Process.Loop; in.Process.Throttled {
		if l == nil {
			return undone, true
		}
		text := fmt.Sprintf("%s is written again and again", l.Object)
		if l.Path != "" {
			text += ": " + l.Path
		}
		if len(l.Values) > 1 { // one alone is that of a Secret, which is hidden
			text += " alternates between " + strings.Join(l.Values, " and ")
		}
		return text + "; " + undone, true
	}
	if c, ok := ownCondition(in, "Ready"); ok && in.Process.Unknown != "" && c.Reason == plan.ReasonConflictLoop {
		return c.Message, true
	}
	return "", false
}

// ownCondition returns a condition that the operator itself keeps.
func ownCondition(in Input, name string) (metav1.Condition, bool) {
	if !in.Settings.Config.ReadyCondition {
		return metav1.Condition{}, false
	}
	all := conditionsOf(in)
	i := slices.IndexFunc(all, func(c metav1.Condition) bool { return c.Type == name && c.Status != metav1.ConditionTrue })
	if i < 0 {
		return metav1.Condition{}, false
	}
	return all[i], true
}

// conditionsOf returns the conditions in the parent's status. What isn't one is left out.
func conditionsOf(in Input) []metav1.Condition {
	value, _ := in.Parent.Field("status", "conditions")
	items, _ := value.([]any)
	var out []metav1.Condition
	for _, item := range items {
		raw, err := json.Marshal(item)
		if err != nil {
			continue
		}
		var c metav1.Condition
		if err := json.Unmarshal(raw, &c); err == nil && c.Type != "" {
			out = append(out, c)
		}
	}
	return out
}

// finalizingReason says what the deletion of a parent waits for.
func finalizingReason(in Input) string {
	held := in.Parent.Finalizers()
	others := in.Settings.WithoutOurs(slices.Clone(held))
	switch t := in.Teardown; {
	case len(held) == len(others) && len(others) == 0:
		return "nothing holds it any more"
	case len(held) == len(others):
		return "the operator is done with it; the finalizers of others hold it: " + strings.Join(others, ", ")
	case in.Settings.Finalizes:
		return "the handler's Finalize hasn't said that it is done, or children are to go first; the finalizer " + in.Settings.Finalizer + " holds it"
	case t != nil && !t.Done():
		return "its children are torn down first; the finalizer " + in.Settings.Finalizer + " holds it"
	}
	return "the operator's finalizer " + in.Settings.Finalizer + " is to be taken off"
}

// maxNames bounds how many objects a reason names.
const maxNames = 10

// waitingReason says what a parent waits for, by the first child that does.
func waitingReason(c Child) string {
	text := fmt.Sprintf("%s: %s", c.Object, c.why())
	if len(c.WaitsFor) == 0 {
		return text
	}
	var names []string
	for _, o := range c.WaitsFor[:min(len(c.WaitsFor), maxNames)] {
		names = append(names, o.String())
	}
	text += ": " + strings.Join(names, ", ")
	if more := len(c.WaitsFor) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func count(children []Child, is func(Child) bool) (n int) {
	for _, c := range children {
		if is(c) {
			n++
		}
	}
	return n
}

func counted(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}
