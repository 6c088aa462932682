package plan

import "github.com/roperator/roperator/internal/engine/catalog"

// Hidden takes the place of a value of a Secret in all that is shown.
const Hidden = "(hidden)"

// concealedFields replaces the values in a list of fields by Hidden, in place, if
// k is the type of Secrets.
func concealedFields(k *catalog.Kind, fields []FieldChange) []FieldChange {
	if !k.Secret() {
		return fields
	}
	for i, f := range fields {
		if f.Live != nil {
			fields[i].Live = Hidden
		}
		if f.Desired != nil {
			fields[i].Desired = Hidden
		}
	}
	return fields
}

// Concealed returns an object of type k, given as JSON values, fit to be shown. Of
// a Secret it returns a copy in which Hidden takes the place of every value. The
// keys stay, and so do the fields that say which Secret it is. Objects of other
// types are returned as they are.
func Concealed(k *catalog.Kind, object any) any {
	fields, ok := object.(map[string]any)
	if !k.Secret() || !ok {
		return object
	}
	out := make(map[string]any, len(fields))
	for key, value := range fields {
		switch key {
		case "apiVersion", "kind", "type", "immutable":
			out[key] = value
		case "metadata":
			meta, _ := value.(map[string]any)
			shown := map[string]any{}
			for name, v := range meta {
				if shown[name] = v; name != "name" && name != "namespace" {
					shown[name] = concealedValues(v)
				}
			}
			out[key] = shown
		default:
			out[key] = concealedValues(value)
		}
	}
	return out
}

// concealedValues returns an object with the same keys and Hidden for each value.
// Of anything that isn't an object it returns Hidden.
func concealedValues(v any) any {
	fields, ok := v.(map[string]any)
	if !ok {
		return Hidden
	}
	out := make(map[string]any, len(fields))
	for key := range fields {
		out[key] = Hidden
	}
	return out
}
