// Package fieldpath reads and writes the paths of fields, as they appear in
// configuration, plans and logs:
//
//	spec.replicas
//	metadata.annotations["example.com/owner"]
//	spec.template.spec.containers[name=app].image
//	spec.ports[port=53,protocol=UDP].nodePort
//	spec.rules[0]
//	spec.containers[*].resources
package fieldpath

import (
	"strconv"
	"strings"
)

// A Path leads from an object to one of its fields.
type Path []Step

// A Step is exactly one of a field, a key, any item, or an index: Field is set,
// or Key is, or Any is true, else Index counts.
type Step struct {
	Field string     // the name of a field or the key of a map; never empty
	Key   []KeyValue // the list item in which these fields have these values
	Index int        // the list item at the index
	Any   bool       // every item of a list or value of a map
}

// A KeyValue is a field that identifies a list item, and its value: a string,
// int64 or bool.
type KeyValue struct {
	Name  string
	Value any
}

// Field returns the step to a field.
func Field(name string) Step { return Step{Field: name} }

// inText says whether the path leads into the value of a label or an annotation, as a
// path does in which the key isn't quoted.
func (p Path) inText() bool {
	return len(p) > 3 && p[0].Field == "metadata" && (p[1].Field == "labels" || p[1].Field == "annotations")
}

// String returns what Parse reads.
func (p Path) String() string {
	var out strings.Builder
	for _, step := range p {
		step.write(&out)
	}
	return out.String()
}

// String returns the step as it is written in a path.
func (s Step) String() string {
	var out strings.Builder
	s.write(&out)
	return out.String()
}

func (s Step) write(out *strings.Builder) {
	switch {
	case s.Field != "":
		if !isPlain(s.Field) {
			out.WriteString("[" + strconv.Quote(s.Field) + "]")
			return
		}
		if out.Len() > 0 {
			out.WriteByte('.')
		}
		out.WriteString(s.Field)
	case len(s.Key) > 0:
		for i, kv := range s.Key {
			if i == 0 {
				out.WriteByte('[')
			} else {
				out.WriteByte(',')
			}
			if isPlain(kv.Name) {
				out.WriteString(kv.Name)
			} else {
				out.WriteString(strconv.Quote(kv.Name))
			}
			out.WriteByte('=')
			out.WriteString(formatValue(kv.Value))
		}
		out.WriteByte(']')
	case s.Any:
		out.WriteString("[*]")
	default:
		out.WriteString("[" + strconv.Itoa(s.Index) + "]")
	}
}

// isPlain says whether a name needs no quotes.
func isPlain(name string) bool {
	for _, c := range name {
		if isSpecial(c) {
			return false
		}
	}
	return name != ""
}

func isSpecial(c rune) bool {
	return c <= ' ' || c == 0x7f || c == '\uFFFD' || strings.ContainsRune(`.[]"=,*`, c)
}

func formatValue(value any) string {
	switch v := value.(type) {
	case string:
		if _, isText := plainValue(v).(string); isText && isPlainValue(v) {
			return v
		}
		return strconv.Quote(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case bool:
		return strconv.FormatBool(v)
	}
	return `""`
}

// isPlainValue is isPlain for values, in which dots need no quotes.
func isPlainValue(value string) bool {
	return isPlain(strings.ReplaceAll(value, ".", "-"))
}

// plainValue returns what a value without quotes means.
func plainValue(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && strconv.FormatInt(n, 10) == text {
		return n
	}
	switch text {
	case "true":
		return true
	case "false":
		return false
	}
	return text
}
