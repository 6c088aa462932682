package planprint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/roperator/roperator/internal/cli/terminal"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/internal/textdiff"
)

// A change is one as JSON shows it.
type change struct {
	operator string // empty: the program has only one
	plan.Change
}

// MarshalJSON returns the object of the plan.Change, with a first field operator if
// that isn't empty.
func (c change) MarshalJSON() ([]byte, error) {
	raw, err := c.Change.MarshalJSON()
	if err != nil || c.operator == "" {
		return raw, err
	}
	name, err := json.Marshal(c.operator)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]byte(`{"operator":`), name, []byte(","), bytes.TrimPrefix(raw, []byte("{"))), nil
}

// JSON prints a report as one JSON array. Where the program has several operators, each
// element names its own.
func JSON(w io.Writer, r Report) error {
	out := []change{}
	for _, p := range r.Plans {
		operator := ""
		if r.Several {
			operator = p.Operator
		}
		for _, c := range p.Changes {
			out = append(out, change{operator, c})
		}
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(out)
}

// Text prints a report for people. Where the program has several operators, each
// plan has a heading.
func Text(w io.Writer, r Report) error {
	var b strings.Builder
	for i, p := range r.Plans {
		if r.Several {
			if i > 0 {
				b.WriteByte('\n')
			}
			fmt.Fprintf(&b, "Operator %s\n\n", p.Operator)
		}
		for _, c := range p.Changes {
			if err := printChange(&b, p.Parent, c); err != nil {
				return err
			}
			b.WriteByte('\n')
		}
		b.WriteString(summary(p.Changes) + "\n")
	}
	for _, note := range r.notes() {
		b.WriteString("\n" + note + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printChange prints a change for people. parent is the kind of the parents.
func printChange(b *strings.Builder, parent string, c plan.Change) error {
	b.WriteString(headline(parent, c) + "\n")
	for _, f := range c.Fields {
		if err := printField(b, f); err != nil {
			return fmt.Errorf("%s: %s: %w", object.Ref{Type: c.Type, Key: c.Object}, f.Path, err)
		}
	}
	return nil
}

// summary returns what a plan has in all, in a sentence.
func summary(changes []plan.Change) string {
	if len(changes) == 0 {
		return "Nothing to do."
	}
	counts := map[string]int{}
	parents := map[types.NamespacedName]struct{}{}
	for _, c := range changes {
		counts[c.Verb]++
		parents[c.Parent] = struct{}{}
	}
	var parts []string
	for _, v := range plan.ChangeVerbs() {
		if n := counts[v]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d to %s", n, v))
		}
	}
	return fmt.Sprintf("%s for %s: %s.", Counted(len(changes), "change"), Counted(len(parents), "parent"), strings.Join(parts, ", "))
}

// Counted returns a number with a noun in the right form: "1 change", "2 changes".
func Counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// printField prints the live value of a field after "-", and the desired value
// after "+".
func printField(b *strings.Builder, f plan.FieldChange) error {
	was, isText := f.Live.(string)
	will, areTexts := f.Desired.(string)
	if isText && areTexts && (strings.Contains(was, "\n") || strings.Contains(will, "\n")) {
		printLines(b, f.Path, was, will)
		return nil
	}
	for _, side := range []struct {
		sign  string
		value any
	}{{"-", f.Live}, {"+", f.Desired}} {
		if side.value == nil {
			continue
		}
		lines, err := valueLines(f.Path, side.value)
		if err != nil {
			return err
		}
		for _, line := range lines {
			fmt.Fprintf(b, "  %s %s\n", side.sign, line)
		}
	}
	return nil
}

// valueLines returns the lines that show a value: a scalar or an empty value on
// the line of its path, any other as YAML below that line.
func valueLines(path string, value any) ([]string, error) {
	composite := false
	switch v := value.(type) {
	case map[string]any:
		composite = len(v) > 0
	case []any:
		composite = len(v) > 0
	}
	if !composite {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		err := e.Encode(value)
		return []string{terminal.Printable(path + ": " + strings.TrimSuffix(b.String(), "\n"))}, err
	}
	raw, err := yaml.Marshal(value)
	if err != nil {
		return nil, err
	}
	var lines []string
	indent := ""
	if path != "" {
		lines, indent = append(lines, terminal.Printable(path+":")), "  "
	}
	for line := range strings.Lines(string(raw)) {
		lines = append(lines, terminal.Printable(indent+strings.TrimSuffix(line, "\n")))
	}
	return lines, nil
}

// printLines prints the lines in which a text would change. Each place has a line
// of context before and after it, and the number of its first line above it.
func printLines(b *strings.Builder, path, was, will string) {
	for _, hunk := range textdiff.Hunks(was, will, 1) {
		fmt.Fprintf(b, "    %s: from line %d\n", terminal.Printable(path), hunk.Line)
		for _, line := range hunk.Lines {
			fmt.Fprintf(b, "  %s   %s\n", line.Sign, terminal.Printable(line.Text))
		}
	}
}
