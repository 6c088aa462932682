package merge

import (
	"slices"

	"github.com/roperator/roperator/internal/fieldpath"
	"github.com/roperator/roperator/internal/jsonvalue"
)

// ignoring holds what is left of the ignored paths from some place on.
type ignoring []fieldpath.Path

// here says whether the place itself is ignored.
func (i ignoring) here() bool {
	return slices.ContainsFunc(i, func(p fieldpath.Path) bool { return len(p) == 0 })
}

func (i ignoring) field(key string) ignoring {
	var below ignoring
	for _, p := range i {
		if len(p) > 0 && (p[0].Any || p[0].Field != "" && p[0].Field == key) {
			below = append(below, p[1:])
		}
	}
	return below
}

// item returns what is ignored of an item, which may lack keys that have
// defaults. Indexes are those of the desired items.
func (i ignoring) item(key listKey, item any, index int) ignoring {
	var below ignoring
	for _, p := range i {
		if len(p) > 0 && stepMatches(p[0], key, item, index) {
			below = append(below, p[1:])
		}
	}
	return below
}

func stepMatches(step fieldpath.Step, key listKey, item any, index int) bool {
	switch {
	case step.Any:
		return true
	case step.Field != "":
		return false
	case len(step.Key) == 0:
		return step.Index == index
	}
	for _, k := range step.Key {
		if !jsonvalue.Equal(key.value(item, k.Name), k.Value) {
			return false
		}
	}
	return true
}

// wants says whether a desired value has anything in it that isn't ignored.
func wants(desired any, ignore ignoring) bool {
	if len(ignore) == 0 {
		return true
	}
	if ignore.here() {
		return false
	}
	ignored := false
	switch d := desired.(type) {
	case map[string]any:
		for key, v := range d {
			if v != nil && wants(v, ignore.field(key)) {
				return true
			}
			ignored = ignored || v != nil
		}
	case []any:
		for i, v := range d {
			if wants(v, ignore.item(listKey{}, v, i)) {
				return true
			}
			ignored = true
		}
	}
	return !ignored
}

// ignoredPart returns what is ignored in a live value that is to go, nil if
// nothing is, and whether that is all of it. Fields of an item that is to go
// aren't worth keeping.
func ignoredPart(live any, ignore ignoring) (part any, all bool) {
	if len(ignore) == 0 {
		return nil, false
	}
	if ignore.here() {
		return live, true
	}
	switch have := live.(type) {
	case map[string]any:
		kept, all := map[string]any{}, true
		for key, v := range have {
			part, whole := ignoredPart(v, ignore.field(key))
			if part != nil {
				kept[key] = part
			}
			all = all && whole
		}
		if len(kept) > 0 {
			return kept, all
		}
	case []any:
		if kept := (place{ignore: ignore}).ignoredItems(have); len(kept) > 0 {
			return kept, len(kept) == len(have)
		}
	}
	return nil, false
}

// ignoredItems returns the items that are ignored as such.
func (p place) ignoredItems(live []any) []any {
	kept := []any{}
	for _, item := range live {
		if p.ignoredOf(item, -1).here() {
			kept = append(kept, item)
		}
	}
	return kept
}
