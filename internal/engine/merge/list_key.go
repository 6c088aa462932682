package merge

import (
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/listkeys"
)

// smallList is the length of a list up to which a search is cheaper than an index.
const smallList = 32

// A listForm says how a list is compared.
type listForm uint8

const (
	listWhole listForm = iota // length, order and each item
	listKeyed                 // items are found by keys
	listSet                   // only membership counts
)

// A listKey says by which of their fields the items of a list are found.
type listKey struct {
	names    []string
	defaults map[string]any // the values of keys that an item lacks
	item     *listkeys.Node // the schema of the items; nil: nothing is known
	// byShape means that there is no schema. All items must be objects with a
	// name, which is a string and unique.
	byShape bool
}

// nameKey is the key of lists without schema.
//
//nolint:gochecknoglobals // immutable; built once, so that comparing doesn't allocate
var nameKey = listKey{names: []string{"name"}, byShape: true}

// listFormOf returns the form and the key of a desired list. A keyed list is still
// compared whole, or replaced, if the key doesn't fit the live list.
func listFormOf(desired []any, schema *listkeys.Node) (listForm, listKey) {
	switch {
	case schema == nil || schema.Kind != listkeys.List:
		if nameKey.fits(desired) {
			return listKeyed, nameKey
		}
	case schema.Atomic:
	case schema.Set:
		return listSet, listKey{}
	case len(schema.Keys) > 0:
		if key := keyOf(schema.Keys, schema); key.fits(desired) {
			return listKeyed, key
		}
	}
	return listWhole, listKey{}
}

// keyOf returns the key with these names. schema is that of the list.
func keyOf(names []string, schema *listkeys.Node) listKey {
	key := listKey{names: names}
	if schema != nil {
		key.defaults, key.item = schema.KeyDefaults, schema.Elem
	}
	return key
}

// fits says whether all items of a list can be found by the key.
func (k listKey) fits(list []any) bool {
	for _, item := range list {
		object, ok := item.(map[string]any)
		if !ok {
			return false
		}
		if _, ok := object["name"].(string); k.byShape && !ok {
			return false
		}
	}
	return !k.byShape || k.unique(list)
}

// unique says whether no two items have the same key.
func (k listKey) unique(list []any) bool {
	if len(list) > smallList {
		texts := make(map[string]struct{}, len(list))
		for _, item := range list {
			texts[string(k.appendText(nil, item))] = struct{}{}
		}
		return len(texts) == len(list)
	}
	for i, item := range list {
		for _, other := range list[:i] {
			if k.equal(item, other) {
				return false
			}
		}
	}
	return true
}

// value returns the value that an item has, if only by default, for one name of the
// key.
func (k listKey) value(item any, name string) any {
	object, _ := item.(map[string]any)
	if k.says(object, name) {
		return jsonvalue.NullFree(object[name])
	}
	return k.defaults[name]
}

// says reports whether an item has a value for one name of the key. The API server fills in the default for "", too.
func (k listKey) says(object map[string]any, name string) bool {
	return object[name] != nil && !equalsNone(object[name], k.item, name)
}

// blank reports whether an item spells a name of the key as "", for which the API server fills in the default.
func (k listKey) blank(item any) bool {
	object, _ := item.(map[string]any)
	for name := range k.defaults {
		if object[name] != nil && !k.says(object, name) {
			return true
		}
	}
	return false
}

// canonical returns an item without the values of the key that are the defaults, and whether it had any.
func (k listKey) canonical(item any) (any, bool) {
	object, _ := item.(map[string]any)
	e := objectEdit{live: object, out: object}
	for name, value := range k.defaults {
		if has, ok := object[name]; ok && jsonvalue.Equal(has, value) {
			e.set(name, nil)
		}
	}
	return e.out, e.changed
}

// name returns the name of an item, "" if it has none.
func (k listKey) name(item any) string {
	name, _ := k.value(item, "name").(string)
	return name
}

// equal says whether two items have the same key.
func (k listKey) equal(a, b any) bool {
	for _, name := range k.names {
		if !jsonvalue.Equal(k.value(a, name), k.value(b, name)) {
			return false
		}
	}
	return true
}

// complete says whether an item has a value, if only by default, for each name of
// the key.
func (k listKey) complete(item any) bool {
	for _, name := range k.names {
		if k.value(item, name) == nil {
			return false
		}
	}
	return true
}

// explicit returns a desired item with defaults for the keys that the item lacks
// and the live item has. So a merge never removes a key from an item.
func (k listKey) explicit(item, live any) any {
	object, _ := item.(map[string]any)
	e := objectEdit{live: object, out: object}
	for _, name := range k.names {
		if have, _ := live.(map[string]any); !k.says(object, name) && have[name] != nil {
			e.set(name, k.defaults[name])
		}
	}
	return e.out
}

// appendText appends the text of an item's key, for an index or a FieldSet. Items
// with equal keys have the same text, and no others.
func (k listKey) appendText(b []byte, item any) []byte {
	for i, name := range k.names {
		if i > 0 {
			b = append(b, '|')
		}
		b = appendValueText(b, k.value(item, name))
	}
	return b
}

// step returns an item's step in a path, as in [name="app"].
func (k listKey) step(item any) string {
	b := []byte{'['}
	for i, name := range k.names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, name...), '=')
		b = appendJSON(b, k.value(item, name))
	}
	return string(append(b, ']'))
}

// pair finds the desired items in the live list. positions has the index of each
// desired item in the live list, or -1. used says of each live item whether it is
// paired. If several items have the same key, the first desired item is paired with
// the first live one, and so on. Desired items that are nil are paired with none.
//
// Both results are nil if the live list begins with the desired items, in the same
// order.
func (k listKey) pair(live, desired []any) (positions []int, used []bool) {
	same := 0
	for same < len(desired) && same < len(live) && desired[same] != nil && k.equal(live[same], desired[same]) {
		same++
	}
	if same == len(desired) {
		return nil, nil
	}
	positions, used = make([]int, len(desired)), make([]bool, len(live))
	for i := range same {
		positions[i], used[i] = i, true
	}
	find := k.finder(live, same)
	for i := same; i < len(desired); i++ {
		positions[i] = -1
		if desired[i] == nil {
			continue
		}
		if j := find(desired[i], used); j >= 0 {
			positions[i], used[j] = j, true
		}
	}
	return positions, used
}

// finder returns a function that finds the live item to pair with a desired item:
// the first one with the same key that isn't used yet. It returns the live item's
// index, or -1. All live items before start are used.
func (k listKey) finder(live []any, start int) func(want any, used []bool) int {
	if len(live) <= smallList {
		return func(want any, used []bool) int {
			for j := start; j < len(live); j++ {
				if !used[j] && k.equal(live[j], want) {
					return j
				}
			}
			return -1
		}
	}
	queues := make(map[string][]int, len(live))
	for j := start; j < len(live); j++ {
		text := string(k.appendText(nil, live[j]))
		queues[text] = append(queues[text], j)
	}
	return func(want any, _ []bool) int {
		text := string(k.appendText(nil, want))
		queue := queues[text]
		if len(queue) == 0 {
			return -1
		}
		queues[text] = queue[1:]
		return queue[0]
	}
}
