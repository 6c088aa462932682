package plan

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/resource"
)

// A write may be refused for what another child holds: a port, an address, a share
// of a quota. If that other child is to go, or to let go, it stands in the way of
// its own successor, and has to go first.

// Obstacles returns those of others for which a was refused with err: they hold a
// value that a wants and that only one object can have, or they use up a quota.
// Only children of the same type count. fields are where a wants such a value, as
// the answer names them; it is empty for a quota.
func Obstacles(a *Action, err error, others []Action) (found []Action, fields []string) {
	if apierror.IsQuotaUsedUp(err) {
		for _, o := range others {
			if o.Ref.Type == a.Ref.Type && o.Ref.Key.Namespace == a.Ref.Key.Namespace && o.Verb == VerbDelete {
				return []Action{o}, nil // its share is as large as that of its successor, as a rule
			}
		}
		return nil, nil
	}
	for _, taken := range apierror.TakenFields(err) {
		for _, o := range others {
			if o.Ref.Type != a.Ref.Type || o.Live == nil || o.Ref == a.Ref || !o.letsGoOf(taken) {
				continue
			}
			if !slices.ContainsFunc(found, func(f Action) bool { return f.Ref == o.Ref }) {
				found = append(found, o)
			}
			fields = append(fields, taken.Field)
		}
	}
	return found, fields
}

// letsGoOf says whether the live child holds the value that an answer complains
// of, and won't hold the value after the action.
func (a *Action) letsGoOf(taken apierror.TakenField) bool {
	holds := func(object map[string]any) bool {
		return slices.ContainsFunc(valuesAt(object, fieldSteps(taken.Field)), taken.Mentions)
	}
	return holds(a.LiveObject()) && (a.Verb == VerbDelete || a.Want != nil && !holds(a.Want.object))
}

// FreedBody returns the body of the request by which a is sent, without the values
// of these fields. A dry run of it tells whether anything else is wrong with a.
func FreedBody(s *catalog.Settings, a *Action, parent *resource.Resource, fields []string, err error) map[string]any {
	var body map[string]any
	if a.Live != nil {
		body = UpdateBody(s, a, parent)
	} else {
		body, _ = CreateBody(s, a.Want, parent).(map[string]any)
	}
	for _, taken := range apierror.TakenFields(err) {
		if slices.Contains(fields, taken.Field) {
			body, _ = without(body, fieldSteps(taken.Field), taken).(map[string]any)
		}
	}
	return body
}

// fieldSteps splits the path of a field as an API server spells it, such as
// spec.ports[0].nodePort. The position in a list is a step of its own.
func fieldSteps(path string) []string {
	return regexp.MustCompile(`[^.\[\]]+`).FindAllString(path, -1)
}

// valuesAt returns the scalars at a path, as text. Whatever the path says, it takes
// every item of a list: another object has the value elsewhere in its list.
func valuesAt(v any, path []string) []string {
	switch v := v.(type) {
	case map[string]any:
		if len(path) == 0 {
			return nil
		}
		return valuesAt(v[path[0]], path[1:])
	case []any:
		if len(path) > 0 {
			if _, err := strconv.Atoi(path[0]); err == nil {
				path = path[1:]
			}
		}
		var out []string
		for _, item := range v {
			out = append(out, valuesAt(item, path)...)
		}
		return out
	case string:
		if len(path) == 0 && v != "" {
			return []string{v}
		}
	case int64:
		if len(path) == 0 && v != 0 {
			return []string{strconv.FormatInt(v, 10)}
		}
	}
	return nil
}

// without returns a copy of v without the field at a path. If v doesn't have that
// field, its value may stand in a field beside it (clusterIP beside clusterIPs):
// then the copy lacks that one.
func without(v any, path []string, taken apierror.TakenField) any {
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		if len(path) > 1 {
			out[path[0]] = without(v[path[0]], path[1:], taken)
			return out
		}
		delete(out, path[0])
		maps.DeleteFunc(out, func(name string, value any) bool {
			text, isText := value.(string)
			return strings.HasPrefix(path[0], name) && isText && taken.Mentions(text)
		})
		return out
	case []any:
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || i >= len(v) || len(path) == 1 {
			return v
		}
		out := slices.Clone(v)
		out[i] = without(v[i], path[1:], taken)
		return out
	}
	return v
}
