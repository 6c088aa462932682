package merge

import "maps"

// KeepIgnored returns desired with the ignored fields as they are in live. Ignored
// fields that live lacks are left out, unless the object or the item around them is
// added as a whole. The result is the body of a server-side apply: a field that is
// missing there would be removed, and one with another value overwritten.
func (c *Comparison) KeepIgnored(live, desired map[string]any) map[string]any {
	if len(c.Ignore) == 0 {
		return desired
	}
	kept, _ := keepIgnored(live, desired, c.root(nil)).(map[string]any)
	return kept
}

// keepIgnored does the same for one value. It returns nil for a value that is to
// be left out.
func keepIgnored(live, desired any, at place) any {
	switch {
	case len(at.ignore) == 0:
		return desired
	case at.ignore.here():
		return live
	}
	switch want := desired.(type) {
	case map[string]any:
		have, _ := live.(map[string]any)
		out := maps.Clone(want)
		for key, v := range want {
			was, known := have[key]
			below := at.child(key)
			if !known && !below.ignore.here() {
				continue // added as a whole
			}
			if out[key] = keepIgnored(was, v, below); out[key] == nil {
				delete(out, key)
			}
		}
		return out
	case []any:
		return keepIgnoredItems(live, want, at)
	}
	return desired
}

// keepIgnoredItems does the same for a list.
func keepIgnoredItems(live any, desired []any, at place) any {
	have, _ := live.([]any)
	position := func(i int) int { return i }
	if form, key := listFormOf(desired, at.schema); form == listKeyed {
		if positions, _ := key.pair(have, desired); positions != nil {
			position = func(i int) int { return positions[i] }
		}
	}
	out := make([]any, 0, len(desired))
	for i, want := range desired {
		kept := want // added as a whole
		if j := position(i); j >= 0 && j < len(have) {
			kept = keepIgnored(have[j], want, at.item(want, i))
		}
		if kept != nil {
			out = append(out, kept)
		}
	}
	return out
}
