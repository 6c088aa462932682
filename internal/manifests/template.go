package manifests

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// A template makes the templates of a Helm chart. Wherever the chart fills something in, an
// object has a token, which is a DNS label, and so valid in any field. The zero value is
// ready for use.
type template struct{ fills []fill }

// A fill is what takes the place of a token.
type fill struct {
	// expression is the value, in a text that may have more. Without one the token is a
	// whole value, an item of a list, or a field.
	expression string
	// condition is an action such as "with .Values.env", without which there is nothing.
	condition string
	// text are the lines of the value; empty: those of what the condition is with.
	text string
}

// token matches the token of a fill.
var token = regexp.MustCompile(`helm-value-(\d+)-x`)

// whole matches a line that has nothing but a token, as a value, an item or a field.
var whole = regexp.MustCompile(`^( *)(?:- |([\w./-]+): )?helm-value-(\d+)-x(?:: .*)?$`)

// inline returns a token for an expression.
func (t *template) inline(expression string) string { return t.add(fill{expression: expression}) }

// optional returns a token for what a condition is with.
func (t *template) optional(condition string) string { return t.add(fill{condition: condition}) }

// guarded returns a token for lines that are there on a condition.
func (t *template) guarded(condition, text string) string {
	return t.add(fill{condition: condition, text: text})
}

func (t *template) add(f fill) string {
	t.fills = append(t.fills, f)
	return fmt.Sprintf("helm-value-%d-x", len(t.fills)-1)
}

// render returns the template of an object that may have tokens.
func (t *template) render(fields map[string]any) (string, error) {
	text, err := yaml.Marshal(fields)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for line := range strings.Lines(literal(string(text))) {
		line = strings.TrimSuffix(line, "\n")
		m := whole.FindStringSubmatch(line)
		if m != nil {
			if f := t.fillOf(m[3]); f != nil && f.expression == "" {
				f.write(&out, m[1], m[2])
				continue
			}
		}
		out.WriteString(token.ReplaceAllStringFunc(line, func(found string) string {
			f := t.fillOf(token.FindStringSubmatch(found)[1])
			if f == nil {
				return found
			}
			return "{{ " + f.expression + " }}"
		}))
		out.WriteByte('\n')
	}
	return out.String(), nil
}

// fillOf returns the fill of a token's number, nil if the token is none of ours.
func (t *template) fillOf(number string) *fill {
	i, err := strconv.Atoi(number)
	if err != nil || i >= len(t.fills) {
		return nil
	}
	return &t.fills[i]
}

// write writes the lines of a fill that takes the place of a line with this indentation. key is
// that of the field whose value it is; empty: it is an item or a field.
func (f *fill) write(out *strings.Builder, indent, key string) {
	fmt.Fprintf(out, "%s{{- %s }}\n", indent, f.condition)
	if key != "" {
		fmt.Fprintf(out, "%s%s:\n", indent, key)
		indent += "  "
	}
	if f.text == "" {
		fmt.Fprintf(out, "%s{{- toYaml . | nindent %d }}\n", indent, len(indent))
		indent = strings.TrimSuffix(indent, "  ")
	} else {
		for line := range strings.Lines(f.text) {
			out.WriteString(indent + line)
		}
		out.WriteByte('\n')
	}
	fmt.Fprintf(out, "%s{{- end }}\n", indent)
}

// literal returns a text that a template prints as it is.
func literal(text string) string { return strings.ReplaceAll(text, "{{", `{{ "{{" }}`) }
