package tree

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/internal/engine/explain"
)

// Options say how an explanation is printed.
type Options struct {
	Width   int // columns; 0: lines have any length
	Colours bool
	Now     time.Time // what is said of times counts from it
}

// hidden is the name of a field manager that isn't told: it may quote a Secret.
const hidden = "(hidden)"

const (
	// maxValue is how many characters of a value are shown.
	maxValue = 200
	// maxAlike is how many entries are shown that are alike, such as children of a type in one state.
	// Of the others the number is.
	maxAlike = 20
)

// Write prints an explanation.
func Write(w io.Writer, e explain.Explanation, o Options) error {
	p := &printer{width: o.Width, colour: o.Colours}
	d := describer{now: o.Now}
	root := d.parent(e.Parent)
	root.nodes = append(root.nodes, d.children(e.Children)...)
	for _, r := range e.Related {
		root.nodes = append(root.nodes, d.related(r))
	}
	root.nodes = append(root.nodes, d.process(unsaid(e)))
	p.root(root)
	_, err := io.WriteString(w, p.b.String())
	return err
}

// unsaid returns what the process says and the parent and the children don't say already.
func unsaid(e explain.Explanation) explain.Process {
	p := e.Process
	if p.LastError == e.Parent.Error {
		p.LastError = ""
	}
	var rest []explain.ChildError
	for _, failed := range p.ChildErrors {
		if !slices.ContainsFunc(e.Children, func(c explain.Child) bool { return c.Object == failed.Object }) {
			rest = append(rest, failed)
		}
	}
	p.ChildErrors = rest
	if e.Parent.State == explain.Throttled {
		p.Loop = nil
	}
	if e.Parent.FailingSince != nil && p.FailingSince != nil && e.Parent.FailingSince.Equal(*p.FailingSince) {
		p.FailingSince = nil
	}
	return p
}

// A describer makes nodes.
type describer struct{ now time.Time }

// parent describes a parent.
func (d describer) parent(p explain.Parent) node {
	n := node{title: []span{{p.Object.String() + ":", bold}, {string(p.State), styleOf(p.State)}}}
	n.say(0, p.Reason)
	if p.Error != "" {
		n.say(0, "error: "+p.Error)
	}
	if p.FailingSince != nil {
		n.say(0, "failing since "+d.at(p.FailingSince))
	}
	if p.DeletedAt != nil {
		n.say(0, "deleted "+d.at(p.DeletedAt))
	}
	if p.Generation > 0 && p.ObservedGeneration > 0 {
		n.say(0, fmt.Sprintf("generation %d, and the status is of generation %d", p.Generation, p.ObservedGeneration))
	}
	for _, c := range p.Conditions {
		at := c.LastTransitionTime.Time
		text := fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason)
		if !at.IsZero() {
			text += " since " + d.at(&at)
		}
		if c.Message != "" {
			text += ": " + c.Message
		}
		n.say(0, text)
	}
	d.fields(&n, p.Fields)
	return n
}

func styleOf(s explain.State) style {
	switch s {
	case explain.Settled:
		return green
	case explain.Failing, explain.Throttled, explain.NotSelected:
		return red
	}
	return yellow
}

// children describes children, which are in the order of their types. Of those that are alike it
// describes the first, and counts the others.
func (d describer) children(all []explain.Child) (out []node) {
	type likeness struct {
		apiVersion, kind string
		title            span
		silent           bool // there is nothing more to say of it
	}
	alike := map[likeness]int{}
	var crowds []likeness // of the type at hand, in the order in which they have become too many
	count := func() {
		for _, l := range crowds {
			out = append(out, node{title: []span{{l.kind + ":", bold}, {fmt.Sprintf("%d more, %s", alike[l]-maxAlike, l.title.text), l.title.style}, {"(-o json names them)", faint}}})
		}
		crowds = nil
	}
	for i, c := range all {
		if i > 0 && (c.APIVersion != all[i-1].APIVersion || c.Kind != all[i-1].Kind) {
			count()
		}
		n := d.child(c)
		l := likeness{c.APIVersion, c.Kind, n.title[1], len(n.lines) == 0}
		alike[l]++
		switch {
		case alike[l] <= maxAlike:
			out = append(out, n)
		case alike[l] == maxAlike+1:
			crowds = append(crowds, l)
		}
	}
	count()
	return out
}

// few returns the first of a list, and says how many more there are, "" if there are none.
func few[T any](all []T) (first []T, rest string) {
	if len(all) <= maxAlike {
		return all, ""
	}
	return all[:maxAlike], fmt.Sprintf("and %d more", len(all)-maxAlike)
}

// child describes a child.
func (d describer) child(c explain.Child) node {
	look := yellow
	switch c.State {
	case explain.AsDesired:
		look = green
	case explain.Missing, explain.Foreign, explain.Undesired, explain.NotServed:
		look = red
	case explain.LeftAlone, explain.NotCompared:
		look = plain
	}
	state := string(c.State)
	if does := done(c.Verb); does != "" {
		state += ", to be " + does
	}
	n := node{title: []span{{c.Object.String() + ":", bold}, {state, look}}}
	n.say(0, c.Reason)
	first, rest := few(c.WaitsFor)
	for _, o := range first {
		n.say(2, "waits for "+o.String())
	}
	n.say(2, rest)
	if c.Error != "" && c.State != explain.Foreign { // which the reason says
		n.say(0, "error: "+c.Error)
	}
	if len(c.Finalizers) > 0 {
		n.say(0, "finalizers: "+strings.Join(c.Finalizers, ", "))
	}
	if c.Readiness != "" && c.Readiness != readiness.Current && c.State != explain.Deleting {
		n.say(0, fmt.Sprintf("not Current: %s: %s", c.Readiness, c.ReadinessMessage))
	}
	d.fields(&n, c.Fields)
	return n
}

// done returns the participle of a verb, "" for none.
func done(verb string) string {
	if verb == "" {
		return ""
	}
	return strings.TrimSuffix(verb, "e") + "ed"
}

// fields describes fields that differ.
func (d describer) fields(n *node, fields []explain.Field) {
	first, rest := few(fields)
	for _, f := range first {
		n.say(0, f.Path)
		if f.Live == nil {
			n.lines = append(n.lines, line{2, []span{{"live: absent", red}, {d.writer(f), faint}}})
		} else {
			n.lines = append(n.lines, line{2, []span{{"live: " + value(f.Live), red}, {d.writer(f), faint}}})
		}
		want := "to be removed"
		if f.Desired != nil {
			want = value(f.Desired)
		}
		n.lines = append(n.lines, line{2, []span{{"desired: " + want, green}}})
	}
	n.say(0, rest)
}

// writer says who has written the live value of a field.
func (d describer) writer(f explain.Field) string {
	switch {
	case f.By != nil && f.By.Self:
		return "(by the operator, " + d.at(f.By.Time) + ")"
	case f.By != nil:
		return "(by " + d.who(f.By) + ")"
	case f.Perhaps != nil:
		return "(nobody owns it; the last other writer of the object is " + d.who(f.Perhaps) + ")"
	}
	return ""
}

func (d describer) who(w *explain.Writer) string {
	how := w.Operation
	if w.Subresource != "" {
		how += " of " + w.Subresource
	}
	manager := strconv.Quote(w.Manager)
	if w.Manager == hidden {
		manager = "another manager, whose name is hidden"
	}
	return fmt.Sprintf("%s, %s, %s", manager, how, d.at(w.Time))
}

// value prints a JSON value in one line.
func value(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "?"
	}
	text := strings.TrimSuffix(b.String(), "\n")
	if runes := []rune(text); len(runes) > maxValue {
		return string(runes[:maxValue]) + "…"
	}
	return text
}

// related describes a reference.
func (d describer) related(r explain.Related) node {
	found, look := "found", green
	switch {
	case r.NotServed:
		found, look = "not served: the API server doesn't know "+r.APIVersion+" "+r.Kind, red
	case len(r.Found) == 0 && r.Name != "":
		found, look = "missing", red
	case len(r.Found) == 0:
		found, look = "nothing found", yellow
	case r.Name == "":
		found = fmt.Sprintf("%d found", len(r.Found))
	}
	n := node{title: []span{{"related " + r.String() + ":", bold}, {found, look}, {"(from " + strings.Join(r.From, ", ") + ")", faint}}}
	if r.Name == "" {
		first, rest := few(r.Found)
		for _, o := range first {
			n.say(0, o.String())
		}
		n.say(0, rest)
	}
	return n
}
