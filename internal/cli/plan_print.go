package cli

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

// A change is one as the subcommand prints it.
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

// printPlansJSON prints plans as one JSON array. Where the program has several
// operators, each element names its own.
func printPlansJSON(w io.Writer, plans []planned, several bool) error {
	out := []change{}
	for _, p := range plans {
		operator := ""
		if several {
			operator = p.operator.Config.Name
		}
		for _, c := range p.changes {
			out = append(out, change{operator, c})
		}
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(out)
}

// printPlans prints plans for people. Where the program has several operators, each
// plan has a heading.
func printPlans(w io.Writer, plans []planned, several bool) error {
	var b strings.Builder
	for i, p := range plans {
		if several {
			if i > 0 {
				b.WriteByte('\n')
			}
			fmt.Fprintf(&b, "Operator %s\n\n", p.operator.Config.Name)
		}
		if err := printPlan(&b, p.operator.Config.Parent.Kind, p.changes); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printPlan prints a plan for people. parent is the kind of the parents.
func printPlan(b *strings.Builder, parent string, changes []plan.Change) error {
	for _, c := range changes {
		fmt.Fprintf(b, "%s: %s", object.Ref{Type: c.Type, Key: c.Object}, c.Verb)
		if c.Type.Kind != parent || c.Object != c.Parent {
			fmt.Fprintf(b, " (for %s %s)", parent, object.KeyText(c.Parent))
		}
		if c.Waits != "" {
			b.WriteString(", " + c.Waits)
		}
		b.WriteByte('\n')
		for _, f := range c.Fields {
			if err := printField(b, f); err != nil {
				return fmt.Errorf("%s: %s: %w", object.Ref{Type: c.Type, Key: c.Object}, f.Path, err)
			}
		}
		b.WriteByte('\n')
	}
	b.WriteString(summary(changes))
	return nil
}

// summary returns the last line of a plan.
func summary(changes []plan.Change) string {
	if len(changes) == 0 {
		return "Nothing to do.\n"
	}
	counts := map[string]int{}
	verbs := []string{string(plan.VerbCreate), string(plan.VerbUpdate), string(plan.VerbRecreate), string(plan.VerbDelete), "finalize"}
	parents := map[types.NamespacedName]struct{}{}
	for _, c := range changes {
		counts[c.Verb]++
		parents[c.Parent] = struct{}{}
	}
	var parts []string
	for _, v := range verbs {
		if n := counts[v]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d to %s", n, v))
		}
	}
	return fmt.Sprintf("%s for %s: %s.\n", counted(len(changes), "change"), counted(len(parents), "parent"), strings.Join(parts, ", "))
}

// counted returns a number with a noun in the right form: "1 change", "2 changes".
func counted(n int, what string) string {
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
		return []string{printable(path + ": " + strings.TrimSuffix(b.String(), "\n"))}, err
	}
	raw, err := yaml.Marshal(value)
	if err != nil {
		return nil, err
	}
	var lines []string
	indent := ""
	if path != "" {
		lines, indent = append(lines, printable(path+":")), "  "
	}
	for line := range strings.Lines(string(raw)) {
		lines = append(lines, printable(indent+strings.TrimSuffix(line, "\n")))
	}
	return lines, nil
}

// printLines prints the lines in which a text would change. Each place has a line
// of context before and after it, and the number of its first line above it.
func printLines(b *strings.Builder, path, was, will string) {
	for _, hunk := range textdiff.Hunks(was, will, 1) {
		fmt.Fprintf(b, "    %s: from line %d\n", printable(path), hunk.Line)
		for _, line := range hunk.Lines {
			fmt.Fprintf(b, "  %s   %s\n", line.Sign, printable(line.Text))
		}
	}
}

// printable escapes characters that a terminal would take for a command.
func printable(text string) string { return terminal.Printable(text) }
