package merge

import (
	"slices"

	"github.com/roperator/roperator/internal/fieldpath"
	"github.com/roperator/roperator/internal/jsonvalue"
)

// ignoredPaths are the ignored paths that lead through one place, relative to it.
type ignoredPaths []fieldpath.Path

// here says whether the place itself is ignored.
func (paths ignoredPaths) here() bool {
	return slices.ContainsFunc(paths, func(p fieldpath.Path) bool { return len(p) == 0 })
}

// field returns the paths that lead through a key, relative to its value.
func (paths ignoredPaths) field(key string) ignoredPaths {
	var below ignoredPaths
	for _, p := range paths {
		if len(p) > 0 && (p[0].Any || p[0].Field != "" && p[0].Field == key) {
			below = append(below, p[1:])
		}
	}
	return below
}

// item returns the paths that lead through an item of a list, relative to the item.
// key holds the defaults of keys that the item may lack. index is that of the
// desired item, or -1.
func (paths ignoredPaths) item(key listKey, item any, index int) ignoredPaths {
	var below ignoredPaths
	for _, p := range paths {
		if len(p) > 0 && stepMatches(p[0], key, item, index) {
			below = append(below, p[1:])
		}
	}
	return below
}

// stepMatches says whether a step of a path leads to an item of a list.
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

// wants says whether a desired value asks for anything that isn't ignored.
func wants(desired any, ignore ignoredPaths) bool {
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

// ignoredPart returns the ignored part of a live value that is to be removed, nil
// if there is none. all says whether the part is the whole value. A list keeps the
// items that are ignored themselves. An item goes, even if fields in it are
// ignored.
func ignoredPart(live any, ignore ignoredPaths) (part any, all bool) {
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

// ignoredItems returns the items of a live list that are ignored themselves.
func (p place) ignoredItems(live []any) []any {
	kept := []any{}
	for _, item := range live {
		if p.ignoredOf(item, -1).here() {
			kept = append(kept, item)
		}
	}
	return kept
}
