package crd

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/version"

	"github.com/roperator/roperator/internal/jsonvalue"
)

// A Change is what is hard to undo, or may surprise somebody, when a definition replaces
// an installed one. Each text names the version and the field.
type Change struct {
	// Fixed is what an API server lets nobody change once the definition is established.
	Fixed []string
	// Stored are versions in which objects may be stored, and that aren't there any more.
	// No API server accepts that.
	Stored []string
	// Narrowed is what drops values of objects that are stored, or has updates of these
	// objects refused whatever the updates change.
	Narrowed []string
	// Tightened is what refuses values that were good so far. An API server lets an object
	// keep such a value as long as the value isn't changed, which it calls ratcheting.
	Tightened []string
}

// Compare says what next would change that replaces installed. stored are the versions in
// which objects may be stored: status.storedVersions.
func Compare(installed, next *Definition, stored []string) Change {
	var c comparison
	if installed.ClusterScoped != next.ClusterScoped {
		c.Fixed = append(c.Fixed, fmt.Sprintf("spec.scope: was %s, is %s", scopeOf(installed), scopeOf(next)))
	}
	if installed.Kind != next.Kind {
		c.Fixed = append(c.Fixed, fmt.Sprintf("spec.names.kind: was %s, is %s", installed.Kind, next.Kind))
	}
	if closes(installed, next) {
		c.narrow("spec.preserveUnknownFields", "not true any more; fields without a schema would be dropped")
	}
	for _, name := range stored {
		if next.Version(name) == nil {
			c.Stored = append(c.Stored, name)
		}
	}
	for _, v := range installed.Versions {
		n := next.Version(v.Name)
		c.at = "version " + v.Name + ": "
		switch {
		case n == nil && newer(v.Name, next):
			c.narrow("", "removed, and newer than every version of this build")
		case n == nil:
		case v.Served && !n.Served:
			c.tighten("", "not served any more")
			fallthrough
		default:
			if v.HasStatus && !n.HasStatus {
				c.narrow("subresources.status", "removed")
			}
			c.schema("", v.Schema, n.Schema)
		}
	}
	// Without a webhook an object is read in another version as it was stored, but for
	// the fields that the other version doesn't know.
	if from, to := installed.Storage(), next.Storage(); from.Name != to.Name && !next.converts() {
		lost := comparison{at: fmt.Sprintf("version %s, in which objects are to be stored instead of %s: ", to.Name, from.Name), lossOnly: true}
		lost.schema("", from.Schema, to.Schema)
		c.Narrowed = append(c.Narrowed, lost.Narrowed...)
	}
	return c.Change
}

// Older says whether a definition lacks versions for being older: each is newer than all of its.
func Older(d *Definition, lacks []string) bool {
	return !slices.ContainsFunc(lacks, func(name string) bool { return !newer(name, d) })
}

func scopeOf(d *Definition) string {
	if d.ClusterScoped {
		return "Cluster"
	}
	return "Namespaced"
}

// newer says whether a version is newer than each of a definition.
func newer(name string, d *Definition) bool {
	return !slices.ContainsFunc(d.Versions, func(v Version) bool { return version.CompareKubeAwareVersionStrings(v.Name, name) > 0 })
}

// A comparison collects what a schema changes.
type comparison struct {
	Change
	at       string // what each text begins with
	lossOnly bool   // only lost values count
}

func (c *comparison) narrow(path, format string, args ...any) {
	c.Narrowed = append(c.Narrowed, c.text(path, format, args...))
}

func (c *comparison) tighten(path, format string, args ...any) {
	if !c.lossOnly {
		c.Tightened = append(c.Tightened, c.text(path, format, args...))
	}
}

func (c *comparison) text(path, format string, args ...any) string {
	if path != "" {
		path += ": "
	}
	return c.at + path + fmt.Sprintf(format, args...)
}

// schema compares the schemas of one field.
func (c *comparison) schema(path string, was, is map[string]any) {
	if was == nil || is == nil {
		return
	}
	if !c.lossOnly {
		c.form(path, was, is)
		c.limits(path, was, is)
	}
	c.properties(path, was, is)
	if items := mapOf(was["items"]); items != nil {
		c.schema(path+"[*]", items, mapOf(is["items"]))
	}
}

// properties compares which members an object may have.
func (c *comparison) properties(path string, was, is map[string]any) {
	before, after := mapOf(was["properties"]), mapOf(is["properties"])
	rest, open := is["additionalProperties"]
	open = open && rest != false || keepsUnknown(is)
	if keepsUnknown(was) && !keepsUnknown(is) {
		c.narrow(join(path, "x-kubernetes-preserve-unknown-fields"), "not true any more; fields without a schema would be dropped")
	}
	if anything, ok := was["additionalProperties"]; ok && anything != false {
		if !open {
			c.narrow(join(path, "additionalProperties"), "removed; the members of the object would be dropped")
		}
		c.schema(path+"[*]", mapOf(anything), mapOf(rest))
	}
	for _, name := range sorted(before) {
		next, ok := after[name].(map[string]any)
		switch {
		case ok:
			c.schema(join(path, name), mapOf(before[name]), next)
		case !open:
			c.narrow(join(path, name), "removed; its values would be dropped")
		case mapOf(rest) != nil:
			c.schema(join(path, name), mapOf(before[name]), mapOf(rest))
		}
	}
}

// form compares what the API server holds unchanged values to as well.
func (c *comparison) form(path string, was, is map[string]any) {
	intOrString := "x-kubernetes-int-or-string"
	if is["type"] != nil && was["type"] != is["type"] && (was["type"] != "integer" || is["type"] != "number") || was[intOrString] == true && is[intOrString] != true && is["type"] != nil {
		c.narrow(join(path, "type"), "was %s, is %s", typeOf(was), typeOf(is))
	}
	if was["nullable"] == true && is["nullable"] != true {
		c.narrow(join(path, "nullable"), "not true any more")
	}
	had, _ := was["required"].([]any)
	has, _ := is["required"].([]any)
	for _, name := range has {
		if !slices.Contains(had, name) && !hasDefault(is, textOf(name)) {
			c.narrow(join(path, textOf(name)), "required now, and without a default")
		}
	}
	for _, name := range []string{"x-kubernetes-list-type", "x-kubernetes-list-map-keys"} {
		if is[name] != nil && is[name] != "atomic" && !jsonvalue.Equal(was[name], is[name]) {
			c.narrow(join(path, name), "was %s, is %s", shown(was[name]), shown(is[name]))
		}
	}
	for _, name := range []string{"allOf", "anyOf", "oneOf", "not"} {
		if is[name] != nil && !jsonvalue.Equal(was[name], is[name]) {
			c.narrow(join(path, name), "added or changed")
		}
	}
	if is["x-kubernetes-embedded-resource"] == true && was["x-kubernetes-embedded-resource"] != true {
		c.narrow(join(path, "x-kubernetes-embedded-resource"), "added")
	}
}

// limits compares what the API server holds only changed values to.
func (c *comparison) limits(path string, was, is map[string]any) {
	for _, name := range []string{"maximum", "maxLength", "maxItems", "maxProperties"} {
		c.limit(path, name, was, is, func(before, after float64) bool { return after < before })
	}
	for _, name := range []string{"minimum", "minLength", "minItems", "minProperties"} {
		c.limit(path, name, was, is, func(before, after float64) bool { return after > before })
	}
	for _, name := range []string{"exclusiveMaximum", "exclusiveMinimum", "uniqueItems"} {
		if is[name] == true && was[name] != true {
			c.tighten(join(path, name), "true now")
		}
	}
	for _, name := range []string{"pattern", "format", "multipleOf"} {
		if is[name] != nil && !jsonvalue.Equal(was[name], is[name]) {
			c.tighten(join(path, name), "was %s, is %s", shown(was[name]), shown(is[name]))
		}
	}
	c.enum(path, was, is)
	before, _ := was["x-kubernetes-validations"].([]any)
	after, _ := is["x-kubernetes-validations"].([]any)
	for _, rule := range after {
		text := mapOf(rule)["rule"]
		if !slices.ContainsFunc(before, func(other any) bool { return mapOf(other)["rule"] == text }) {
			c.tighten(join(path, "x-kubernetes-validations"), "the rule %q is new", text)
		}
	}
}

func (c *comparison) limit(path, name string, was, is map[string]any, tighter func(before, after float64) bool) {
	after, ok := number(is[name])
	if !ok {
		return
	}
	if before, had := number(was[name]); !had || tighter(before, after) {
		c.tighten(join(path, name), "was %s, is %s", shown(was[name]), shown(is[name]))
	}
}

// enum compares the values that a field may have.
func (c *comparison) enum(path string, was, is map[string]any) {
	after, ok := is["enum"].([]any)
	if !ok {
		return
	}
	before, had := was["enum"].([]any)
	if !had {
		c.tighten(join(path, "enum"), "added")
	}
	for _, value := range before {
		if !slices.ContainsFunc(after, func(other any) bool { return jsonvalue.Equal(value, other) }) {
			c.tighten(join(path, "enum"), "without %s now", shown(value))
		}
	}
}

// hasDefault says whether a member of an object is filled in if it is missing.
func hasDefault(s map[string]any, name string) bool {
	_, ok := mapOf(mapOf(s["properties"])[name])["default"]
	return ok
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

func typeOf(s map[string]any) string {
	if s["x-kubernetes-int-or-string"] == true {
		return "integer or string"
	}
	if typ := textOf(s["type"]); typ != "" {
		return typ
	}
	return "any"
}

// shown returns a value for people to read.
func shown(v any) string {
	if v == nil {
		return "not set"
	}
	raw, err := jsonvalue.Append(nil, v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}
