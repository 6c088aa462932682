package crd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// Parse reads the CustomResourceDefinitions in a text of one document or several, each of
// which is YAML or JSON. Documents that are empty are skipped, as is a byte order mark. The
// error joins every mistake, each of which names the document if there are several, the
// CustomResourceDefinition and the field.
// What only an API server knows, such as whether CEL rules compile, isn't found.
func Parse(text []byte) ([]*Definition, error) {
	var out []*Definition
	var errs []error
	documents := split(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")))
	for i, document := range documents {
		d, mistakes := parseOne(document)
		for _, err := range mistakes {
			if len(documents) > 1 {
				err = fmt.Errorf("document %d: %w", i+1, err)
			}
			errs = append(errs, err)
		}
		if len(mistakes) == 0 {
			out = append(out, d)
		}
	}
	if len(documents) == 0 {
		errs = append(errs, errors.New("empty; a CustomResourceDefinition as YAML is expected"))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return out, nil
}

// split returns the documents of a YAML text that aren't empty.
func split(text []byte) [][]byte {
	var out [][]byte
	var document []byte
	add := func() {
		if !blank(document) {
			out = append(out, document)
		}
		document = nil
	}
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte("---")); ok && (len(rest) == 0 || bytes.ContainsAny(rest[:1], " \t\r\n")) {
			add()
			document = append(document, bytes.TrimLeft(rest, " \t")...)
			continue
		}
		document = append(document, line...)
	}
	add()
	return out
}

// blank says whether a document has nothing but comments and directives.
func blank(document []byte) bool {
	for line := range bytes.Lines(document) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && line[0] != '%' && string(line) != "..." {
			return false
		}
	}
	return true
}

// parseOne reads one document.
func parseOne(document []byte) (*Definition, []error) {
	raw, err := yaml.YAMLToJSONStrict(spaced(document))
	if err != nil {
		return nil, []error{fmt.Errorf("not YAML: %w", err)}
	}
	var object map[string]any
	if err := kjson.Unmarshal(raw, &object); err != nil || object == nil {
		return nil, []error{errors.New("not an object; a CustomResourceDefinition is expected")}
	}
	name := textOf(mapOf(object["metadata"])["name"])
	switch _, list := object["items"].([]any); {
	case list:
		return nil, []error{fmt.Errorf("%v/%v: a list; write each of its items as a document of its own, between lines of `---`", object["apiVersion"], object["kind"])}
	case object["kind"] != Kind || object["apiVersion"] != APIVersion:
		what := strings.TrimSuffix(fmt.Sprintf("%v/%v %s", object["apiVersion"], object["kind"], name), " ")
		return nil, []error{fmt.Errorf("%s: not a CustomResourceDefinition of %s, and only these may be here", what, APIVersion)}
	}
	delete(object, "status") // generators write an empty one
	c := &checker{subject: Kind + " " + name}
	if name == "" {
		c.subject = Kind
	}
	c.definition(object)
	return Of(object), c.mistakes
}

// spaced returns a document with spaces in the place of tabs if it is JSON, in which YAML
// takes no tabs between values. Within JSON's texts there are none.
func spaced(document []byte) []byte {
	if trimmed := bytes.TrimSpace(document); len(trimmed) == 0 || trimmed[0] != '{' || !json.Valid(trimmed) {
		return document
	}
	return bytes.ReplaceAll(document, []byte("\t"), []byte(" "))
}

// A checker collects what is wrong with a CustomResourceDefinition.
type checker struct {
	subject  string // what each mistake begins with
	mistakes []error
}

func (c *checker) add(field, format string, args ...any) {
	c.mistakes = append(c.mistakes, fmt.Errorf("%s: %s: "+format, append([]any{c.subject, field}, args...)...))
}

// addEach adds what apimachinery's validation functions return.
func (c *checker) addEach(field, value string, found []string) {
	for _, mistake := range found {
		c.add(field, "%q: %s", value, mistake)
	}
}

// known adds a mistake for each member of an object that isn't among names.
func (c *checker) known(path string, object map[string]any, names ...string) {
	for _, name := range sorted(object) {
		if !slices.Contains(names, name) {
			c.add(join(path, name), "unknown field; correct its name, or take it out")
		}
	}
}

// text returns a string that must be there.
func (c *checker) text(path string, object map[string]any, name string) string {
	value, ok := object[name].(string)
	if !ok || value == "" {
		c.add(join(path, name), "missing, or not a text; set it")
	}
	return value
}

func (c *checker) definition(object map[string]any) {
	c.known("", object, "apiVersion", "kind", "metadata", "spec")
	c.metadata(mapOf(object["metadata"]))
	spec := mapOf(object["spec"])
	if spec == nil {
		c.add("spec", "missing, or not an object; set it")
		return
	}
	c.known("spec", spec, "group", "names", "scope", "versions", "conversion", "preserveUnknownFields")
	group := c.text("spec", spec, "group")
	if group != "" {
		c.addEach("spec.group", group, validation.IsDNS1123Subdomain(group))
	}
	names := mapOf(spec["names"])
	c.known("spec.names", names, "plural", "singular", "shortNames", "kind", "listKind", "categories")
	plural := c.text("spec.names", names, "plural")
	if plural != "" {
		c.addEach("spec.names.plural", plural, validation.IsDNS1035Label(plural))
	}
	c.text("spec.names", names, "kind")
	if scope := spec["scope"]; scope != "Namespaced" && scope != "Cluster" {
		c.add("spec.scope", "%v is neither Namespaced nor Cluster", scope)
	}
	if name := textOf(mapOf(object["metadata"])["name"]); group != "" && plural != "" && name != plural+"."+group {
		c.add("metadata.name", "%q isn't %q, as plural and group demand", name, plural+"."+group)
	}
	if spec["preserveUnknownFields"] == true {
		c.add("spec.preserveUnknownFields", "true; no API server accepts that any more: set x-kubernetes-preserve-unknown-fields: true in the schema, where any fields will do")
	}
	c.versions(spec)
}

// metadata checks the part that isn't the API server's, and takes out what generators leave
// empty.
func (c *checker) metadata(meta map[string]any) {
	for _, name := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink"} {
		value, ok := meta[name]
		if ok && value != nil {
			c.add("metadata."+name, "the API server sets it; take it out")
		}
		delete(meta, name)
	}
	c.known("metadata", meta, "name", "labels", "annotations", "finalizers", "ownerReferences")
	for _, name := range []string{"labels", "annotations"} {
		texts := mapOf(meta[name])
		if meta[name] != nil && texts == nil {
			c.add("metadata."+name, "not an object")
		}
		for _, key := range sorted(texts) {
			if _, ok := texts[key].(string); !ok {
				c.add("metadata."+name+"["+key+"]", "%s isn't a text; put it in quotes", shown(texts[key]))
			}
		}
	}
}

func (c *checker) versions(spec map[string]any) {
	versions, _ := spec["versions"].([]any)
	if len(versions) == 0 {
		c.add("spec.versions", "there are none; add one")
		return
	}
	var stored, names []string
	for i, item := range versions {
		path := fmt.Sprintf("spec.versions[%d]", i)
		v := mapOf(item)
		if v == nil {
			c.add(path, "not an object")
			continue
		}
		name := c.text(path, v, "name")
		if name != "" {
			path = fmt.Sprintf("spec.versions[name=%s]", name)
			c.addEach(path+".name", name, validation.IsDNS1035Label(name))
			if slices.Contains(names, name) {
				c.add(path, "two versions have this name; remove one")
			}
			names = append(names, name)
		}
		if c.version(path, v) {
			stored = append(stored, name)
		}
	}
	if len(stored) != 1 {
		c.add("spec.versions", "%d have storage: true; exactly one must", len(stored))
	}
}

// version says whether objects are stored in the version.
func (c *checker) version(path string, v map[string]any) (storage bool) {
	c.known(path, v, "name", "served", "storage", "deprecated", "deprecationWarning", "schema", "subresources", "additionalPrinterColumns", "selectableFields")
	for _, name := range []string{"served", "storage"} {
		if _, ok := v[name].(bool); !ok {
			c.add(join(path, name), "missing, or neither true nor false; set it")
		}
	}
	if sub, ok := v["subresources"]; ok {
		c.known(path+".subresources", mapOf(sub), "status", "scale")
	}
	at := path + ".schema.openAPIV3Schema"
	root, ok := mapOf(v["schema"])["openAPIV3Schema"].(map[string]any)
	switch {
	case !ok:
		c.add(at, "missing, or not an object; set it, `{type: object, x-kubernetes-preserve-unknown-fields: true}` if any object will do")
	case root["type"] != "object":
		c.add(at+".type", "%v; the schema of a kind must be of type object", root["type"])
	default:
		c.schema(at, root, true)
	}
	storage, _ = v["storage"].(bool)
	return storage
}

// schema checks a schema. A schema that isn't structural restricts another, and needn't
// have types.
func (c *checker) schema(path string, s map[string]any, structural bool) {
	for _, name := range sorted(s) {
		if !slices.Contains(keywords(), name) {
			c.add(join(path, name), "unknown in a schema; correct its name, or take it out")
		}
	}
	typ, typed := s["type"].(string)
	switch {
	case typed && !slices.Contains([]string{"object", "array", "string", "integer", "number", "boolean"}, typ):
		c.add(path+".type", "%q is none of object, array, string, integer, number, boolean", typ)
	case structural && !typed && s["x-kubernetes-int-or-string"] != true && s["x-kubernetes-preserve-unknown-fields"] != true:
		c.add(path+".type", "missing; set it")
	case structural && typ == "array" && mapOf(s["items"]) == nil:
		c.add(path+".items", "missing, or not a schema; say what the items are")
	}
	if required, ok := s["required"]; ok {
		if _, isList := required.([]any); !isList {
			c.add(path+".required", "not a list of names; it belongs to the object, not to the field")
		}
	}
	properties, ok := s["properties"]
	if ok && mapOf(properties) == nil {
		c.add(path+".properties", "not an object")
	}
	for _, name := range sorted(mapOf(properties)) {
		c.nested(path+".properties["+name+"]", mapOf(properties)[name], structural)
	}
	if items, ok := s["items"]; ok && typ == "array" && mapOf(items) != nil {
		c.nested(path+".items", items, structural)
	}
	if more, ok := s["additionalProperties"]; ok {
		if _, isBool := more.(bool); !isBool {
			c.nested(path+".additionalProperties", more, structural)
		}
	}
}

func (c *checker) nested(path string, v any, structural bool) {
	s, ok := v.(map[string]any)
	if !ok {
		c.add(path, "not a schema")
		return
	}
	c.schema(path, s, structural)
}

// keywords are what a schema may consist of.
func keywords() []string {
	return []string{
		"$schema", "$ref", "id", "description", "type", "format", "title", "default", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum",
		"maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "enum", "maxProperties", "minProperties", "required",
		"items", "allOf", "oneOf", "anyOf", "not", "properties", "additionalProperties", "patternProperties", "dependencies", "additionalItems",
		"definitions", "externalDocs", "example", "nullable", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource",
		"x-kubernetes-int-or-string", "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-validations",
	}
}

// join joins a path and a name.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
