package merge

import "maps"

// Unignored returns desired without the ignored fields. An object or a list of which
// nothing remains is left out, unless it was empty before.
func (c *Comparison) Unignored(desired map[string]any) map[string]any {
	return unignoring{}.root(c, desired)
}

// Unapplied returns desired without those ignored fields that a server-side apply can
// leave out. Within a list that has one owner as a whole, it can leave out none.
func (c *Comparison) Unapplied(desired map[string]any) map[string]any {
	return unignoring{granular: true}.root(c, desired)
}

// An unignoring takes the ignored fields out of a desired object.
type unignoring struct {
	granular bool // but for those in a value that has one owner as a whole
}

func (u unignoring) root(c *Comparison, desired map[string]any) map[string]any {
	if len(c.Ignore) == 0 {
		return desired
	}
	rest, _ := u.value(desired, c.root(nil)).(map[string]any)
	if rest == nil {
		rest = map[string]any{}
	}
	return rest
}

// value returns what remains of a desired value, nil if nothing does.
func (u unignoring) value(desired any, at place) any {
	switch {
	case len(at.ignore) == 0 || u.granular && at.schema != nil && at.schema.Atomic:
		return desired
	case at.ignore.here():
		return nil
	}
	switch want := desired.(type) {
	case map[string]any:
		return u.object(want, at)
	case []any:
		return u.list(want, at)
	}
	return desired
}

// object does the same for an object.
func (u unignoring) object(desired map[string]any, at place) any {
	out := maps.Clone(desired)
	for key, v := range desired {
		if v == nil {
			continue
		}
		if out[key] = u.value(v, at.child(key)); out[key] == nil {
			delete(out, key)
		}
	}
	if len(out) == 0 && len(desired) > 0 {
		return nil
	}
	return out
}

// list does the same for a list.
func (u unignoring) list(desired []any, at place) any {
	if form, key := listFormOf(desired, at.schema); u.granular && (form == listWhole || key.byShape) {
		return desired
	}
	out := make([]any, 0, len(desired))
	for i, item := range desired {
		if rest := u.value(item, at.item(item, i)); rest != nil || item == nil {
			out = append(out, rest)
		}
	}
	if len(out) == 0 && len(desired) > 0 {
		return nil
	}
	return out
}
