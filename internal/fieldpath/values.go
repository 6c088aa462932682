package fieldpath

import (
	"iter"
	"maps"
	"slices"
)

// Values yields every value that the path leads to in a JSON value, in the order of lists
// and of the names of fields. Numbers are int64 or float64.
func (p Path) Values(v any) iter.Seq[any] {
	return func(yield func(any) bool) { p.values(v, yield) }
}

func (p Path) values(v any, yield func(any) bool) (goOn bool) {
	if len(p) == 0 {
		return yield(v)
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range p[0].names(v) {
			if !p[1:].values(v[name], yield) {
				return false
			}
		}
	case []any:
		for i, item := range v {
			if p[0].leadsTo(i, item) && !p[1:].values(item, yield) {
				return false
			}
		}
	}
	return true
}

// names returns the fields of an object to which the step leads.
func (s Step) names(object map[string]any) []string {
	if s.Any {
		return slices.Sorted(maps.Keys(object))
	}
	if _, ok := object[s.Field]; ok && s.Field != "" {
		return []string{s.Field}
	}
	return nil
}

// leadsTo says whether the step leads to an item of a list.
func (s Step) leadsTo(i int, item any) bool {
	switch {
	case s.Any:
		return true
	case s.Field != "":
		return false
	case len(s.Key) == 0:
		return i == s.Index
	}
	object, _ := item.(map[string]any)
	return !slices.ContainsFunc(s.Key, func(kv KeyValue) bool { return object[kv.Name] != kv.Value })
}
