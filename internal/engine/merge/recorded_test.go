package merge

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/internal/testing/sample"
)

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
