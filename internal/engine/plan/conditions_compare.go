package plan

import (
	"maps"
	"strings"
)

// Timeless returns a value of a status or of a whole object without the times of its conditions,
// which are other ones in every run: lastTransitionTime, and whatever else a condition has
// whose name begins with last and ends with Time. A condition is an item of a list called
// conditions, at any depth, that has a type. The value isn't modified, and shares what has
// no conditions with the result.
func Timeless(value any) any {
	return eachConditions(value, func(list []any) any {
		out := make([]any, len(list))
		for i, item := range list {
			out[i] = withoutTimes(item)
		}
		return out
	})
}

// byType returns a status in which each list of conditions is an object, with the
// conditions by their types and without their times. A list in which two conditions
// have the same type, or an item has none, only loses the times.
func byType(status any) any {
	return eachConditions(status, func(list []any) any {
		found := make(map[string]any, len(list))
		for _, item := range list {
			if name := conditionType(item); name != "" {
				found[name] = withoutTimes(item)
			}
		}
		if len(list) > 0 && len(found) == len(list) {
			return found
		}
		timeless, _ := Timeless(map[string]any{"conditions": list}).(map[string]any)
		return timeless["conditions"]
	})
}

// wantedByType is byType for what a test wants. A reason or a message that is empty is
// free, since a typed condition can't lack them.
func wantedByType(status any) any {
	return byType(eachConditions(status, func(list []any) any {
		out := make([]any, len(list))
		for i, item := range list {
			condition, ok := item.(map[string]any)
			if out[i] = item; !ok || conditionType(item) == "" {
				continue
			}
			fields := maps.Clone(condition)
			maps.DeleteFunc(fields, func(name string, value any) bool {
				return value == "" && (name == "reason" || name == "message")
			})
			out[i] = fields
		}
		return out
	}))
}

// eachConditions returns a value in which do has replaced every list called conditions.
func eachConditions(value any, do func(list []any) any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, field := range v {
			if list, ok := field.([]any); ok && name == "conditions" {
				out[name] = do(list)
			} else {
				out[name] = eachConditions(field, do)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = eachConditions(item, do)
		}
		return out
	}
	return value
}

// conditionType returns the type of an item of a list of conditions, empty if it is no
// condition.
func conditionType(item any) string {
	fields, _ := item.(map[string]any)
	name, _ := fields["type"].(string)
	return name
}

// withoutTimes returns a condition without its times, anything else as it is.
func withoutTimes(item any) any {
	condition, ok := item.(map[string]any)
	if !ok || conditionType(item) == "" {
		return item
	}
	fields := maps.Clone(condition)
	maps.DeleteFunc(fields, func(name string, _ any) bool {
		return strings.HasPrefix(name, "last") && strings.HasSuffix(name, "Time")
	})
	return fields
}
