package planprint

import (
	"fmt"
	"io"
	"strings"

	"github.com/roperator/roperator/internal/cli/terminal"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/object"
)

const (
	// maxAnnotations is how many annotations of a level GitHub shows of a step.
	maxAnnotations = 10
	// maxAnnotationLines bounds an annotation.
	maxAnnotationLines = 20
)

// The levels of annotations, as the workflow commands are named.
const (
	levelError   = "error"
	levelWarning = "warning"
	levelNotice  = "notice"
)

// GitHub prints a report as a step of a workflow on GitHub logs it: the text in a fold, and
// an annotation for each change, at the line of its parent's file if there is one. Changes
// that fail the plan are errors, others that delete something are warnings, and the rest
// are notices. token keeps the text from being taken for commands; it must be one that
// nobody can guess.
func GitHub(w io.Writer, r Report, token string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "::group::Plan: %s\n::stop-commands::%s\n", escapeData(Counted(r.changes(), "change")), token)
	if err := Text(&b, r); err != nil {
		return err
	}
	fmt.Fprintf(&b, "::%s::\n::endgroup::\n", token)
	byLevel := map[string][]string{}
	for _, p := range r.Plans {
		for _, c := range p.Changes {
			level := r.level(c)
			text, err := annotation(level, p, c)
			if err != nil {
				return err
			}
			byLevel[level] = append(byLevel[level], text)
		}
	}
	for _, level := range []string{levelError, levelWarning, levelNotice} {
		texts := byLevel[level]
		if more := len(texts) - maxAnnotations; more > 0 {
			texts = append(texts[:maxAnnotations-1], command(level, []string{"title=plan"}, fmt.Sprintf("and %s: see the log", Counted(more+1, "more change"))))
		}
		b.WriteString(strings.Join(texts, ""))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// GitHubErrors prints an error as annotations, one for each line.
func GitHubErrors(w io.Writer, err error) error {
	var b strings.Builder
	for line := range strings.Lines(err.Error()) {
		b.WriteString(command(levelError, []string{"title=plan"}, terminal.Printable(strings.TrimSuffix(line, "\n"))))
	}
	_, failed := io.WriteString(w, b.String())
	return failed
}

// level returns the level of a change.
func (r *Report) level(c plan.Change) string {
	switch {
	case r.fails(c):
		return levelError
	case c.Verb == string(plan.VerbDelete), c.Verb == string(plan.VerbRecreate), c.Verb == plan.VerbFinalize:
		return levelWarning
	}
	return levelNotice
}

// annotation returns the command that annotates a change.
func annotation(level string, p Plan, c plan.Change) (string, error) {
	var b strings.Builder
	if err := printChange(&b, p.Parent, c); err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if more := len(lines) - maxAnnotationLines; more > 0 {
		lines = append(lines[:maxAnnotationLines], "… "+Counted(more, "more line"))
	}
	properties := []string{"title=" + escapeProperty(terminal.Printable(c.Verb+" "+object.Ref{Type: c.Type, Key: c.Object}.String()))}
	if place := p.Places[c.Parent]; place.File != "" {
		properties = append(properties, "file="+escapeProperty(place.File), fmt.Sprintf("line=%d", place.Line))
	}
	return command(level, properties, strings.Join(lines, "\n")), nil
}

// command returns a workflow command. The properties must be escaped.
func command(name string, properties []string, text string) string {
	return fmt.Sprintf("::%s %s::%s\n", name, strings.Join(properties, ","), escapeData(text))
}

// escapeData escapes the text of a workflow command.
func escapeData(text string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(text)
}

// escapeProperty escapes the value of a property of a workflow command.
func escapeProperty(value string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C").Replace(value)
}
