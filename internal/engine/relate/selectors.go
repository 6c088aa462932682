package relate

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// selectors is a set of queries without a name, with an index by labels: of thousands of selectors, an event of an object
// looks only at those that one of its labels may satisfy. Each query stands in one place: under the values of its first
// requirement that lists values, or under the key of one that wants the label to exist, or among those that say nothing of the
// kind.
type selectors struct {
	byValue map[label]map[Query]*query
	byKey   map[string]map[Query]*query
	rest    map[Query]*query
}

type label struct{ key, value string }

func newSelectors() *selectors {
	return &selectors{byValue: map[label]map[Query]*query{}, byKey: map[string]map[Query]*query{}, rest: map[Query]*query{}}
}

// places returns where a query stands: under these values, or else under this key, or else among the rest.
func places(of *query) (values []label, key string) {
	requirements, _ := of.selector.Requirements()
	for _, r := range requirements {
		switch r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			for value := range r.Values() {
				values = append(values, label{r.Key(), value})
			}
			return values, ""
		case selection.Exists, selection.GreaterThan, selection.LessThan:
			key = r.Key()
		}
	}
	return nil, key
}

func (x *selectors) add(of *query) {
	values, key := places(of)
	for _, v := range values {
		put(x.byValue, v, of)
	}
	switch {
	case len(values) > 0:
	case key != "":
		put(x.byKey, key, of)
	default:
		x.rest[of.Query] = of
	}
}

func (x *selectors) remove(of *query) {
	values, key := places(of)
	for _, v := range values {
		take(x.byValue, v, of)
	}
	if key != "" {
		take(x.byKey, key, of)
	}
	delete(x.rest, of.Query)
}

func (x *selectors) empty() bool { return len(x.byValue)+len(x.byKey)+len(x.rest) == 0 }

// candidates calls try for each query that an object with these labels may satisfy, once.
func (x *selectors) candidates(held labels.Set, try func(*query)) {
	for key, value := range held {
		for _, of := range x.byValue[label{key, value}] {
			try(of)
		}
		for _, of := range x.byKey[key] {
			try(of)
		}
	}
	for _, of := range x.rest {
		try(of)
	}
}

func put[K comparable](in map[K]map[Query]*query, key K, of *query) {
	if in[key] == nil {
		in[key] = map[Query]*query{}
	}
	in[key][of.Query] = of
}

func take[K comparable](from map[K]map[Query]*query, key K, of *query) {
	if delete(from[key], of.Query); len(from[key]) == 0 {
		delete(from, key)
	}
}
