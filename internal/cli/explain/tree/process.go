package tree

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/roperator/roperator/internal/engine/explain"
)

// process describes what the running process says.
func (d describer) process(p explain.Process) node {
	if p.Unknown != "" {
		return node{title: []span{{"process:", bold}, {"what the running process knows is not here: " + p.Unknown, faint}}}
	}
	n := node{title: []span{{"process " + p.From + ":", bold}, {d.doing(p), plain}}}
	if p.Failures > 0 {
		text := counted(p.Failures, "pass has", "passes have") + " failed in a row"
		if p.FailingSince != nil {
			text += ", since " + d.at(p.FailingSince)
		}
		n.say(0, text)
	}
	if p.LastError != "" {
		n.say(0, "last error: "+p.LastError)
	}
	failed, rest := few(p.ChildErrors)
	for _, e := range failed {
		n.say(2, fmt.Sprintf("%s: %s: %s", e.Object, e.Verb, e.Message))
	}
	n.say(2, rest)
	waits, rest := few(p.Waits)
	for _, text := range waits {
		n.say(0, text)
	}
	n.say(0, rest)
	if l := p.Loop; l != nil {
		text := fmt.Sprintf("conflict loop: %s, %d writes", l.Object, l.Writes)
		if l.Path != "" {
			text += " of " + l.Path
		}
		if len(l.Values) > 1 { // one alone is that of a Secret, which is hidden
			text += ", which alternates between " + strings.Join(l.Values, " and ")
		}
		n.say(0, text)
	}
	return n
}

// doing says in a few words what the process does about the parent.
func (d describer) doing(p explain.Process) string {
	var parts []string
	switch {
	case !p.Leading && !p.Held:
		parts = append(parts, "it waits for the lease, and doesn't know the parent")
	case !p.Leading:
		parts = append(parts, "it waits for the lease: another process leads")
	case !p.Held:
		parts = append(parts, "it doesn't know the parent")
	case p.Running && p.Call != "":
		parts = append(parts, "a pass is under way since "+d.at(p.RunningSince)+", and the handler's "+p.Call+" hasn't returned")
	case p.Running:
		parts = append(parts, "a pass is under way since "+d.at(p.RunningSince))
	case p.Queued && p.Place == 0:
		parts = append(parts, "the parent is due, and the next to have a pass")
	case p.Queued:
		parts = append(parts, "the parent is due, after "+counted(p.Place, "other parent", "other parents"))
	case p.NextPass == nil && p.Failures > 0:
		parts = append(parts, "the next pass comes when something changes")
	case p.NextPass == nil:
		parts = append(parts, "nothing is due")
	}
	if p.NextPass != nil {
		text := "the next pass is due " + d.at(p.NextPass)
		if p.Trigger != "" {
			text += ": " + p.Trigger
		}
		parts = append(parts, text)
	}
	if p.Throttled {
		parts = append(parts, "throttled")
	}
	return strings.Join(parts, "; ")
}

// at prints a time, and how long ago it is or in how long it comes.
func (d describer) at(t *time.Time) string {
	if t == nil || t.IsZero() {
		return "at an unknown time"
	}
	text := t.UTC().Format(time.RFC3339)
	if since := d.now.Sub(*t); since >= 0 {
		return text + " (" + duration.HumanDuration(since) + " ago)"
	}
	return text + " (in " + duration.HumanDuration(t.Sub(d.now)) + ")"
}

// say adds a text below the title.
func (n *node) say(indent int, text string) {
	if text == "" {
		return
	}
	for part := range strings.SplitSeq(text, "\n") { // several errors have a line each
		n.lines = append(n.lines, line{indent, []span{{part, plain}}})
	}
}

func counted(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}
