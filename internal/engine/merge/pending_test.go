package merge

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/internal/testing/sample"
)

// TestPending: what becomes of a list while its schema isn't known.
func TestPending(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		live    string
		earlier string // the earlier desired object, recorded without a schema; "": none is known
		desired string
		merged  string // "": live
		awaits  bool
	}{
		"Equal":                {"there is nothing to do", `{l: [{a: 1}]}`, "", `{l: [{a: 1}]}`, "", false},
		"Defaults":             {"an item may have more than is desired", `{l: [{a: 1, b: 2}]}`, "", `{l: [{a: 1}]}`, "", false},
		"Missing":              {"nobody has an item yet", `{}`, `{}`, `{l: [{a: 1}]}`, `{l: [{a: 1}]}`, false},
		"Empty":                {"nobody has an item any more", `{l: []}`, "", `{l: [1]}`, `{l: [1]}`, false},
		"Emptied":              {"the items may be somebody else's", `{l: [1]}`, `{l: [1]}`, `{l: []}`, "", true},
		"More":                 {"what is there stays", `{l: [{a: 1, b: 2}]}`, "", `{l: [{a: 2}, {a: 1}]}`, `{l: [{a: 2}, {a: 1, b: 2}]}`, false},
		"Theirs":               {"the other item may be somebody else's", `{l: [{a: 1}, {a: 2}]}`, `{l: [{a: 1}]}`, `{l: [{a: 1}]}`, "", true},
		"Changed":              {"nobody knows by which field items are told apart", `{l: [{a: 1, b: 1}]}`, `{l: [{a: 1, b: 1}]}`, `{l: [{a: 1, b: 2}]}`, "", true},
		"Scalars":              {"what we had put there is known", `{l: [a, x]}`, `{l: [a]}`, `{l: [b]}`, `{l: [x, b]}`, false},
		"ScalarsOfOthers":      {"none of them was ours", `{l: [x]}`, `{}`, `{l: [b]}`, `{l: [x, b]}`, false},
		"ScalarsUnknown":       {"nobody knows who has put them there", `{l: [x]}`, "", `{l: [b]}`, "", true},
		"Named":                {"by their names", `{l: [{name: a, b: 1}, {name: x}]}`, `{l: [{name: a, b: 1}]}`, `{l: [{name: a, b: 2}]}`, `{l: [{name: a, b: 2}, {name: x}]}`, false},
		"NamedDropped":         {"what was ours goes", `{l: [{name: a}, {name: b}, {name: x}]}`, `{l: [{name: a}, {name: b}]}`, `{l: [{name: a}]}`, `{l: [{name: a}, {name: x}]}`, false},
		"NamedOfOthers":        {"an item of that name may be somebody else's", `{l: [{name: a, b: 1}]}`, `{}`, `{l: [{name: a, b: 2}]}`, "", true},
		"NamesThatDontSuffice": {"the name is one of several keys", `{l: [{name: a, p: 1}, {name: a, p: 2}]}`, `{l: [{name: a, p: 1}]}`, `{l: [{name: a, p: 1, v: 1}]}`, "", true},
		"Unwanted":             {"all that was ours goes", `{l: [{a: 1}, {a: 2}], s: [a, x]}`, `{l: [{a: 1}], s: [a]}`, `{}`, `{l: [{a: 2}], s: [x]}`, false},
		"UnwantedUnclear":      {"two items may be the one that was ours", `{l: [{a: 1, b: 1}, {a: 1, b: 2}]}`, `{l: [{a: 1}]}`, `{}`, "", true},
		"NotALists":            {"what isn't a list doesn't wait", `{l: [{a: 1}], v: 1, m: {x: 1}}`, `{l: [{a: 1}], v: 1}`, `{l: [{a: 2}], v: 2, m: {y: 2}}`, `{l: [{a: 1}], v: 2, m: {x: 1, y: 2}}`, true},
		"Nested":               {"nor does what is around a list", `{l: [{name: a, n: [{a: 1}], v: 1}]}`, `{l: [{name: a, n: [{a: 1}], v: 1}]}`, `{l: [{name: a, n: [{a: 2}], v: 2}]}`, `{l: [{name: a, n: [{a: 1}], v: 2}]}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := Comparison{Pending: true}
			live, desired := sample.YAML(t, "spec: "+tc.live), sample.YAML(t, "spec: "+tc.desired)
			var former *FieldSet
			if tc.earlier != "" {
				former = reread(t, c.Record(sample.YAML(t, "spec: "+tc.earlier)))
			}
			want := live
			if tc.merged != "" {
				want = sample.YAML(t, "spec: "+tc.merged)
			}
			diffs, awaits := c.Compare(live, desired, former), false
			for _, d := range diffs {
				awaits = awaits || d.Awaits
			}
			require.Equal(t, tc.awaits, awaits, "%s: %v", tc.reason, diffs)
			merged := c.Merge(live, desired, former)
			require.Equal(t, want, merged, tc.reason)
			for _, d := range c.Compare(merged, desired, former) {
				require.True(t, d.Awaits, "a second merge changes nothing: %v", d)
			}
			require.Equal(t, sample.YAML(t, "spec: "+tc.live), live, "nothing is changed in place")
		})
	}
}

// TestRecordedOtherwise: an earlier desired object was recorded without a schema,
// or by another one, and the schema is known now.
func TestRecordedOtherwise(t *testing.T) {
	keyed := &listkeys.Node{Kind: listkeys.List, Keys: []string{"id"}, Elem: &listkeys.Node{Kind: listkeys.Struct, Fields: map[string]*listkeys.Node{"id": {}, "name": {}, "p": {}}}}
	named := &listkeys.Node{Kind: listkeys.List, Keys: []string{"name", "p"}, KeyDefaults: map[string]any{"p": "TCP"}, Elem: keyed.Elem}
	set := &listkeys.Node{Kind: listkeys.List, Set: true, Elem: &listkeys.Node{}}
	atomic := &listkeys.Node{Kind: listkeys.List, Atomic: true, Elem: &listkeys.Node{}}
	of := func(list *listkeys.Node) *listkeys.Node {
		return &listkeys.Node{Kind: listkeys.Struct, Fields: map[string]*listkeys.Node{"l": list}}
	}
	for name, tc := range map[string]struct {
		reason        string
		before, after *listkeys.Node // of the list; a nil before: pending
		live, earlier string
		desired       string
		merged        string
	}{
		"Keyed":        {"ours is known by all of its fields", nil, keyed, `[{id: 1, name: a}, {id: 2, name: x}]`, `[{id: 1, name: a}]`, `[{id: 3}]`, `[{id: 3}, {id: 2, name: x}]`},
		"KeyedGone":    {"the same where the list isn't desired any more", nil, keyed, `[{id: 1, name: a}, {id: 2, name: x}]`, `[{id: 1, name: a}]`, "", `[{id: 2, name: x}]`},
		"Named":        {"ours and theirs have the same name", nil, named, `[{name: a, p: TCP}, {name: a, p: UDP}]`, `[{name: a}]`, `[{name: a}]`, `[{name: a, p: TCP}, {name: a, p: UDP}]`},
		"Set":          {"ours is known", nil, set, `[a, x]`, `[a]`, `[b]`, `[x, b]`},
		"AtomicToSet":  {"whose the elements are isn't recorded", atomic, set, `[a, x]`, `[a]`, `[b]`, `[a, x, b]`},
		"AtomicToGone": {"the same where the list isn't desired any more", atomic, set, `[a, x]`, `[a]`, "", `[a, x]`},
		"AtomicToKeys": {"whose the items are isn't recorded", atomic, keyed, `[{id: 1}, {id: 2}]`, `[{id: 1}]`, `[{id: 3}]`, `[{id: 1}, {id: 2}, {id: 3}]`},
		"Atomic":       {"an atomic list is ours whole", nil, atomic, `[a, x]`, `[a]`, `[b]`, `[b]`},
	} {
		t.Run(name, func(t *testing.T) {
			before := Comparison{Pending: true}
			if tc.before != nil {
				before = Comparison{Schema: of(tc.before)}
			}
			former := reread(t, before.Record(sample.YAML(t, "l: "+tc.earlier)))
			desired := map[string]any{}
			if tc.desired != "" {
				desired = sample.YAML(t, "l: "+tc.desired)
			}
			now := Comparison{Schema: of(tc.after)}
			merged := now.Merge(sample.YAML(t, "l: "+tc.live), desired, former)
			require.ElementsMatch(t, sample.YAML(t, "l: "+tc.merged)["l"], merged["l"], tc.reason)
		})
	}
}

// reread returns a set as it is read back from a mark.
func reread(t *testing.T, set *FieldSet) *FieldSet {
	t.Helper()
	back, err := ParseFieldSet(set.Encode(16 << 10))
	require.NoError(t, err)
	return back
}
