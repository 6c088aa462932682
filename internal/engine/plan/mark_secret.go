package plan

import "github.com/roperator/roperator/internal/jsonvalue"

// The mark on a Secret. Annotations are read by many who may not read the values: they
// are in audit logs that leave out the rest, in metrics about objects, in caches of
// metadata. Whoever has a hash of a value can try out values until one has that hash, so
// that a PIN takes no time. No salt helps, since whatever the operator needs to compare
// the hash stands beside it or can be read by the same people, and a hash that is slow
// enough for a PIN is too slow for an operator with ten thousand Secrets. So there is
// none: the mark tells which fields the desired state had, not which values. Whether a
// value is as desired, the live Secret itself tells.
//
// What is lost is the answer to one question, which arises at a start: a value isn't as
// desired; has the desired state changed while no operator ran, or has the API server or
// a webhook made this value of the desired one? So the value is written then.

// marked returns what the mark of d is about: the desired state, and of a Secret only
// the names in it.
func (d *Desired) marked() map[string]any {
	owned := d.owned()
	if !d.kind.Secret() {
		return owned
	}
	out := make(map[string]any, len(owned))
	for name, value := range owned {
		out[name] = withoutValues(value, name == "metadata")
	}
	return out
}

// withoutValues returns a JSON value with an empty text in place of each value in it, and
// of each list unless lists is set: the mark has the keys of their items. Null says
// nothing, and stays.
func withoutValues(v any, lists bool) any {
	switch v := v.(type) {
	case nil:
		return nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, value := range v {
			out[name] = withoutValues(value, lists)
		}
		return out
	case []any:
		if lists {
			return v
		}
	}
	return ""
}

// markHash returns the hash in the mark of d: that of the desired state, and of a Secret
// that of the names in it. Nothing follows from the latter that the paths in the mark
// don't tell as well.
func (d *Desired) markHash() jsonvalue.Digest {
	if !d.kind.Secret() {
		return d.hash
	}
	return hashOf(d.kind, d.marked())
}

// A given says what a live child was last given, as far as that is known.
type given uint8

const (
	givenOther given = iota // another desired state than the present one, or nobody knows
	givenThis               // the present desired state
	givenNames              // of a Secret: a desired state with the same names; of the values nothing is known
)

// gave says what a live child with this mark was last given. known is what is remembered
// of the child; nil: nothing is.
func (m mark) gave(d *Desired, known *childMemory) given {
	switch {
	case m.hash != d.markHash():
		return givenOther
	case !d.kind.Secret():
		return givenThis
	case known == nil:
		return givenNames
	case known.hash == d.hash:
		return givenThis
	}
	return givenOther
}
