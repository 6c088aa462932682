package crd

import "github.com/roperator/roperator/internal/jsonvalue"

// Matches says whether an installed definition is as wanted says. What an API server fills
// in, and labels, annotations, names and parts of the conversion that wanted doesn't mention,
// make no difference. Where Matches returns false the two may still mean the same.
func Matches(installed, wanted *Definition) bool {
	have, want := mapOf(installed.object["spec"]), mapOf(wanted.object["spec"])
	if closes(installed, wanted) {
		return false
	}
	if !jsonvalue.Equal(normal(have["versions"], false), normal(want["versions"], false)) {
		return false
	}
	rest := shallow(want)
	delete(rest, "versions")
	return covers(have, normal(rest, false)) &&
		covers(labelled(installed), normal(labelled(wanted), false))
}

// labelled returns the labels and annotations of a definition.
func labelled(d *Definition) map[string]any {
	meta := mapOf(d.object["metadata"])
	return map[string]any{"labels": meta["labels"], "annotations": meta["annotations"]}
}

// covers says whether have has all that want says. Lists must be equal.
func covers(have, want any) bool {
	fields, ok := want.(map[string]any)
	if !ok {
		return jsonvalue.Equal(have, want)
	}
	for name, value := range fields {
		if !covers(mapOf(have)[name], value) {
			return false
		}
	}
	return true
}

// normal returns a part of a definition without what an API server leaves out as empty.
// names says that the members of v have names that somebody has chosen.
func normal(v any, names bool) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, value := range v {
			switch {
			case !names && (name == "default" || name == "enum" || name == "example"):
				out[name] = value
			case !names && empty(name, value):
			default:
				out[name] = normal(value, !names && (name == "properties" || name == "labels" || name == "annotations"))
			}
		}
		return out
	case []any:
		out := make([]any, 0, len(v))
		for _, item := range v {
			out = append(out, normal(item, false))
		}
		return out
	}
	return v
}

// empty says whether an API server leaves a member with this value out.
func empty(name string, value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case bool:
		return !value && name != "served" && name != "storage" && name != "additionalProperties"
	case string:
		return value == ""
	case []any:
		return len(value) == 0
	case map[string]any:
		return len(value) == 0 && (name == "properties" || name == "labels" || name == "annotations")
	}
	return false
}
