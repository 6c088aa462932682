package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// absent stands for a field that isn't there.
type absent struct{}

// A builder makes objects that have what their schemas require.
type builder struct{ schemas map[string]map[string]any }

// object returns one of a schema, with a value at a path.
func (b builder) object(model string, path []string, value any) map[string]any {
	out, _ := b.value(map[string]any{"$ref": refPrefix + model}, path, value, nil).(map[string]any)
	return out
}

// value returns one that fits a schema, with what path and at ask for in it.
func (b builder) value(schema map[string]any, path []string, at any, within []string) any {
	if len(path) == 0 && at != nil {
		return at
	}
	name := refOf(schema)
	if name != "" {
		schema = b.schemas[name]
	}
	switch {
	case strings.HasSuffix(name, ".Quantity"):
		return "1"
	case strings.HasSuffix(name, ".Duration"):
		return "1s"
	case schema["format"] == "date-time":
		return "2026-01-01T00:00:00.000000Z"
	case schema["format"] == "byte":
		return "eA=="
	case schema["format"] == "int-or-string" || schema["x-kubernetes-int-or-string"] == true:
		return 1
	}
	if values := stringsOf(schema["enum"]); len(values) > 0 {
		return values[0]
	}
	switch schema["type"] {
	case "string":
		return "a"
	case "integer", "number":
		return 1
	case "boolean":
		return true
	case "array":
		items, _ := schema["items"].(map[string]any)
		return []any{b.value(items, rest1(path), at, within)}
	}
	if values, ok := schema["additionalProperties"].(map[string]any); ok {
		return map[string]any{"a": b.value(values, rest1(path), at, within)}
	}
	if name != "" && slices.Contains(within, name) && len(path) == 0 {
		return map[string]any{}
	}
	return b.fields(schema, path, at, append(slices.Clip(within), name))
}

// fields returns an object with the required fields of a schema and the first of path.
func (b builder) fields(schema map[string]any, path []string, at any, within []string) map[string]any {
	out := map[string]any{}
	required := stringsOf(schema["required"])
	for _, field := range slices.Sorted(maps.Keys(propertiesOf(schema))) {
		switch {
		case len(path) > 0 && path[0] == field:
			value := b.value(propertyOf(schema, field), path[1:], at, within)
			if _, isAbsent := value.(absent); !isAbsent {
				out[field] = value
			}
		case slices.Contains(required, field):
			out[field] = b.value(propertyOf(schema, field), nil, nil, within)
		}
	}
	return out
}

// rest1 returns a path without its first step.
func rest1(path []string) []string { return path[min(1, len(path)):] }

// emptyOf returns the value of a property that an object of Go may have instead of none: nil
// if there is no such value, or nobody can tell it from none.
func emptyOf(schemas map[string]map[string]any, property map[string]any) any {
	if name := refOf(property); name != "" {
		property = schemas[name]
	}
	switch {
	case property["type"] == "array":
		return []any{}
	case property["additionalProperties"] != nil:
		return map[string]any{}
	}
	return nil
}

// refOf returns the name of the schema that a property refers to, "" if it is none.
func refOf(schema map[string]any) string {
	if ref, ok := schema["$ref"].(string); ok {
		return strings.TrimPrefix(ref, refPrefix)
	}
	if all, ok := schema["allOf"].([]any); ok && len(all) == 1 {
		if only, ok := all[0].(map[string]any); ok {
			return refOf(only)
		}
	}
	return ""
}

func propertiesOf(schema map[string]any) map[string]any {
	properties, _ := schema["properties"].(map[string]any)
	return properties
}

func propertyOf(schema map[string]any, field string) map[string]any {
	property, _ := propertiesOf(schema)[field].(map[string]any)
	return property
}

// enumOf returns the values that a property, or each item of a list, may have; nil: any.
func enumOf(property map[string]any) []string {
	if items, ok := property["items"].(map[string]any); ok {
		return stringsOf(items["enum"])
	}
	return stringsOf(property["enum"])
}

// stringsOf returns a list's texts, sorted, without the empty one.
func stringsOf(list any) []string {
	items, _ := list.([]any)
	var out []string
	for _, item := range items {
		if s, ok := item.(string); ok && s != "" {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return out
}

func marshal(object map[string]any) ([]byte, error) { return json.Marshal(object) }

// rawConfig returns a configuration for a client of all groups.
func rawConfig(config *rest.Config) *rest.Config {
	config.GroupVersion = &schema.GroupVersion{}
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	return config
}
