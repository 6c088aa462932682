package storm

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/roperator/roperator/internal/listkeys"
)

// ordered puts lists whose order means nothing into one: those of which the schema says so, and
// conditions. It changes v.
func ordered(v any, schema *listkeys.Node) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			ordered(value, schema.Field(name))
			if items, ok := value.([]any); ok && name == "conditions" {
				sortItems(items)
			}
		}
	case []any:
		var item *listkeys.Node
		if schema != nil {
			item = schema.Elem
		}
		for _, value := range v {
			ordered(value, item)
		}
		if schema != nil && (schema.AnyOrder || schema.Set) {
			sortItems(v)
		}
	}
}

// sortItems sorts the items of a list by their JSON.
func sortItems(items []any) {
	text := func(v any) string {
		out, err := json.Marshal(v)
		if err != nil {
			return ""
		}
		return string(out)
	}
	slices.SortStableFunc(items, func(a, b any) int { return strings.Compare(text(a), text(b)) })
}
