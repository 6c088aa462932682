package plan

import (
	"github.com/roperator/roperator/internal/engine/catalog"
)

// hidden stands for a value of a Secret.
const Hidden = "(hidden)"

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

// Concealed returns an object without the values of a Secret: of those only the
// keys are left, and what says which Secret it is.
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

// concealedValues hides every value of an object, and anything else as a whole.
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
