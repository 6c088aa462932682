package merge

import (
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/listkeys"
)

// An Application is the body of a server-side apply.
type Application struct {
	Body map[string]any
	// Sure means that the apply makes what it is to make, whatever managedFields
	// say. If Sure is false, it does unless Ownership.Removes says that the apply
	// would remove something.
	Sure bool
}

// Applied returns a server-side apply that makes merged of live. The arguments are
// those of Merge, and merged is what Merge returns. The body has what desired asks
// for, with the values of merged: an ignored field has its live value, and a list
// with one owner has the items of others, too.
//
// Applied returns nil if an apply might make something else of live:
//
//   - An apply removes nothing that an update has set, and doesn't empty an object.
//   - It brings the items of a keyed list into an order of its own.
//   - It is refused if two items have the same key, or an item has no key.
//   - Where the schema is unknown, it may take an object for a value with one owner.
//
// An apply removes what an earlier one had set and it lacks itself. So it isn't sure
// to do right where desired lacks a field that stays, though it is ignored or in
// former.
func (c *Comparison) Applied(live, desired, merged map[string]any, former *FieldSet) *Application {
	if c.Schema == nil {
		return nil
	}
	a := applying{sure: true}
	body := a.object(live, desired, merged, c.root(former))
	if a.fails {
		return nil
	}
	return &Application{Body: body, Sure: a.sure}
}

// An applying is one walk through a live object, the desired one, and the one that
// Merge makes of both. The walk makes the body of an apply.
type applying struct {
	fails bool // an apply of the body might make something else than the merged object
	sure  bool // see Application
}

// value returns the body of one value, nil if the body lacks the value. desired
// must not be nil.
func (a *applying) value(live, desired, merged any, at place) any {
	if merged == nil {
		a.fails = a.fails || live != nil
		return nil
	}
	if live == nil || at.ignore.here() || isAtomic(at.schema) {
		return merged // it is added, or has one owner
	}
	switch want := desired.(type) {
	case map[string]any:
		have, wasObject := live.(map[string]any)
		into, isObject := merged.(map[string]any)
		if wasObject && isObject {
			return a.object(have, want, into, at)
		}
	case []any:
		have, wasList := live.([]any)
		into, isList := merged.([]any)
		if wasList && isList {
			return a.list(have, want, into, at)
		}
	default:
		if !isNested(live) {
			return merged
		}
	}
	a.fails = true // the value changes its type
	return merged
}

// isAtomic says whether a value has one owner, who sets all of it. A list has if
// its items can't be told apart.
func isAtomic(s *listkeys.Node) bool { return s != nil && s.Atomic }

// object returns the body of an object.
func (a *applying) object(live, desired, merged map[string]any, at place) map[string]any {
	body := make(map[string]any, len(desired))
	for key, want := range desired {
		switch {
		case want == nil, live[key] == nil && at.schema.Prunes(key): // which an apply must not have
		case at.part.excludes(key):
			body[key] = want
		default:
			if v := a.value(live[key], want, merged[key], at.child(key)); v != nil {
				body[key] = v
			}
		}
	}
	for key, have := range live {
		if have != nil && desired[key] == nil && !at.part.excludes(key) {
			a.fails = a.fails || at.schema == nil
			a.unsaid(have, merged[key], at.child(key))
		}
	}
	return body
}

// unsaid looks at a live value that the body lacks. The apply has to keep it.
func (a *applying) unsaid(live, merged any, at place) {
	a.fails = a.fails || !jsonvalue.Equal(live, merged)
	a.sure = a.sure && at.former == nil && len(at.ignore) == 0
}

// list returns the body of a list.
func (a *applying) list(live, desired, merged []any, at place) []any {
	if len(live) == 0 || at.schema == nil {
		return merged
	}
	switch {
	case at.schema.Set:
		return a.set(live, desired, merged, at)
	case len(at.schema.Keys) > 0:
		return a.keyed(live, desired, merged, at)
	}
	return merged
}

// set returns the body of a set: the desired elements.
func (a *applying) set(live, desired, merged []any, at place) []any {
	stays, wanted := itemIndex{list: merged}, itemIndex{list: desired}
	for i, have := range live {
		said := wanted.contains(have, i)
		a.fails = a.fails || !stays.contains(have, i)
		a.sure = a.sure && (said || len(at.ignore) == 0 && !at.former.hasItem(have, at.schema))
	}
	body := make([]any, 0, len(desired))
	for i, want := range desired {
		if want != nil && stays.contains(want, i) { // else it is ignored
			body = append(body, jsonvalue.NullFree(want))
		}
	}
	a.fails = a.fails || hasTwins(body, nil)
	return body
}

// keyed returns the body of a list whose items are found by keys: the desired
// items.
func (a *applying) keyed(live, desired, merged []any, at place) []any {
	key := keyOf(at.schema.Keys, at.schema)
	for _, list := range [...][]any{live, desired, merged} {
		if !key.fits(list) || !allComplete(list, key) || hasTwins(list, &key) {
			a.fails = true
			return merged
		}
	}
	inLive, inMerged := positionsOf(live, key), positionsOf(merged, key)
	body := make([]any, 0, len(desired))
	for i, want := range desired {
		text := key.appendText(nil, want)
		to, stays := inMerged[string(text)]
		if !stays {
			continue // the item is ignored, and somebody has removed it
		}
		from, known := inLive[string(text)]
		if !known {
			body = append(body, merged[to])
			continue
		}
		body = append(body, a.value(live[from], want, merged[to], at.item(want, i)))
	}
	a.keepsOthers(live, desired, merged, key, at)
	return body
}

// keepsOthers looks at the live items of a keyed list. All of them have to stay,
// in their order, and those that desired lacks as they are.
func (a *applying) keepsOthers(live, desired, merged []any, key listKey, at place) {
	inMerged, wanted := positionsOf(merged, key), positionsOf(desired, key)
	last := -1
	for _, have := range live {
		text := key.appendText(nil, have)
		to, stays := inMerged[string(text)]
		if !stays || to < last {
			a.fails = true
			return
		}
		last = to
		if _, ok := wanted[string(text)]; !ok {
			a.unsaid(have, merged[to], at.item(have, -1))
		}
	}
}

// positionsOf returns the positions of the items of a list, by the text of their
// keys.
func positionsOf(list []any, key listKey) map[string]int {
	positions := make(map[string]int, len(list))
	for i, item := range list {
		positions[string(key.appendText(nil, item))] = i
	}
	return positions
}

// hasTwins says whether two items of a list have the same key, or, without a key,
// the same value.
func hasTwins(list []any, key *listKey) bool {
	seen := itemIndex{key: key}
	for _, item := range list {
		if seen.contains(item, len(seen.list)) {
			return true
		}
		seen.add(item)
	}
	return false
}

// allComplete says whether every item of a list has a value for each name of a key.
func allComplete(list []any, key listKey) bool {
	for _, item := range list {
		if !key.complete(item) {
			return false
		}
	}
	return true
}
