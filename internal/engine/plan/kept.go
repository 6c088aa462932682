package plan

import (
	"slices"
	"strconv"
	"strings"

	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/jsonvalue"
)

// maxKept bounds how many kept differences of a child are remembered one by one. More of them count together: if one changes, all
// are sent again, and the response tells which are kept from then on.
const maxKept = 64

// A keptDifferences are the differences that the last accepted response to a desired state still had: the API server, or a
// webhook, has chosen the value. Nil: there are none.
type keptDifferences struct {
	each map[jsonvalue.Digest]struct{} // of each: its path and the desired value, without and with the live one
	all  jsonvalue.Digest              // of more than maxKept, instead of each
}

// newKept returns the kept differences of a child that was accepted with these differences.
func newKept(rest []merge.Difference) *keptDifferences {
	switch {
	case len(rest) == 0:
		return nil
	case len(rest) > maxKept:
		return &keptDifferences{all: digestOfAll(rest)}
	}
	k := &keptDifferences{each: make(map[jsonvalue.Digest]struct{}, len(rest))}
	for _, d := range rest {
		k.each[digestOfDifference(d)], k.each[digestOfDesired(d)] = struct{}{}, struct{}{}
	}
	return k
}

func digestOfDifference(d merge.Difference) jsonvalue.Digest {
	return jsonvalue.Sum([]any{d.Path, d.Removed, d.Desired, d.Live})
}

// digestOfDesired returns the digest of a difference, whatever the live value is.
func digestOfDesired(d merge.Difference) jsonvalue.Digest {
	return jsonvalue.Sum([]any{d.Path, d.Desired})
}

// desires reports whether a difference with the same desired value was kept.
func (k *keptDifferences) desires(d merge.Difference) bool {
	if k == nil {
		return false
	}
	_, ok := k.each[digestOfDesired(d)]
	return ok && !d.Removed
}

// digestOfAll returns the digest of differences in whatever order.
func digestOfAll(diffs []merge.Difference) jsonvalue.Digest {
	texts := make([]string, 0, len(diffs))
	for _, d := range diffs {
		texts = append(texts, digestOfDifference(d).String())
	}
	slices.Sort(texts)
	return jsonvalue.Sum(strings.Join(texts, " "))
}

// split splits differences into those that are kept, and the others. Both lists keep the order.
func (k *keptDifferences) split(diffs []merge.Difference) (kept, others []merge.Difference) {
	switch {
	case k == nil:
		return nil, diffs
	case k.each == nil:
		isRemoved := func(d merge.Difference) bool { return d.Removed }
		if removed := slices.ContainsFunc(diffs, isRemoved); !removed && digestOfAll(diffs) == k.all {
			return diffs, nil
		}
		return nil, diffs
	}
	for _, d := range diffs {
		if _, ok := k.each[digestOfDifference(d)]; ok && !d.Removed {
			kept = append(kept, d)
		} else {
			others = append(others, d)
		}
	}
	return kept, others
}

// Explained splits differences into those that rest has, too, with the same values, and the others.
// rest are the differences between the desired state and what the API server makes of it.
func Explained(diffs, rest []merge.Difference) (explained, others []merge.Difference) {
	return newKept(rest).split(diffs)
}

// Held splits differences into those at which the operator still owns the field, by its entries in
// managedFields, and the others. Fields of the former were changed by nobody else: see
// merge.Comparison.Holds. Entries that can't be read count as missing.
func Held(c *merge.Comparison, diffs []merge.Difference, entries []string) (held, others []merge.Difference) {
	holdings, err := merge.ParseHoldings(entries)
	if err != nil || holdings == nil {
		return nil, diffs
	}
	for _, d := range diffs {
		if c.Holds(holdings, d) {
			held = append(held, d)
		} else {
			others = append(others, d)
		}
	}
	return held, others
}

// split splits differences into those that nobody but the operator and a webhook has made, and the others.
func (o ownership) split(c *merge.Comparison, diffs []merge.Difference) (chosen, others []merge.Difference) {
	held, others := Held(c, diffs, o.entries)
	if !o.all || len(o.entries) == 0 {
		return held, others
	}
	theirs, err := merge.ParseHoldings(o.theirs)
	if err != nil {
		return held, others
	}
	var left []merge.Difference
	for _, d := range others {
		if isFilled(d) && !theirs.Concerns(d) {
			held = append(held, d)
		} else {
			left = append(left, d)
		}
	}
	return held, left
}

// isFilled says whether something is in an object or a list that is desired to be empty. managedFields
// don't note the operator's empty value.
func isFilled(d merge.Difference) bool {
	switch want := d.Desired.(type) {
	case map[string]any:
		return len(want) == 0 && d.Live != nil
	case []any:
		return len(want) == 0 && d.Live != nil
	}
	return false
}

// namedBy returns the differences of an action that are at one of these fields, in it or around it. The
// fields are as the API server spells paths: an item of a list has its index there, and its keys in the path of a difference. So
// the items of a list are not told apart.
func (a *Action) namedBy(fields []string) (in []merge.Difference) {
	names := make([]string, 0, len(fields))
	for _, field := range fields {
		names = append(names, strings.ToLower(plainPath(field))) // the API server may use the names of Go
	}
	for _, d := range a.Diffs {
		at := strings.ToLower(plainPath(d.Path))
		if slices.ContainsFunc(names, func(name string) bool { return isBelow(at, name) || isBelow(name, at) }) {
			in = append(in, d)
		}
	}
	return in
}

// Changes reports whether the action changes each of these fields, something in it or around it. Of a Secret, the fields are hidden.
func (a *Action) Changes(fields []string) bool {
	return a.Kind.Secret() || !slices.ContainsFunc(fields, func(field string) bool {
		return len(a.namedBy([]string{field})) == 0
	})
}

// plainPath returns a path without the items of lists, and with a dot before each key: data["a"] and data[a] become data.a.
func plainPath(path string) string {
	var out strings.Builder
	for {
		name, rest, found := strings.Cut(path, "[")
		out.WriteString(name)
		if !found {
			return out.String()
		}
		step, after := rest, ""
		if quoted, err := strconv.QuotedPrefix(rest); err == nil {
			step, after = quoted, rest[len(quoted):]
			after = strings.TrimPrefix(after, "]")
		} else if end := endOfStep(rest); end >= 0 {
			step, after = rest[:end], rest[end+1:]
		}
		path = after
		if text, err := strconv.Unquote(step); err == nil {
			step = text
		} else if _, err := strconv.Atoi(step); err == nil || strings.Contains(step, "=") {
			continue
		}
		out.WriteString("." + step)
	}
}

// endOfStep returns the index of the bracket that ends a step, -1 if there is none. A quoted value may have brackets.
func endOfStep(text string) int {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == ']' && !quoted:
			return i
		}
	}
	return -1
}
