package merge

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/roperator/roperator/internal/fieldpath"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/internal/testing/budget"
	"github.com/roperator/roperator/internal/testing/sample"
)

// fuzzSchema returns a schema that has every kind of node, and itself below most.
func fuzzSchema() *listkeys.Node {
	n := &listkeys.Node{Kind: listkeys.Struct}
	n.Fields = map[string]*listkeys.Node{
		"keyed": {Kind: listkeys.List, Keys: []string{"name"}, Elem: n},
		"env":   {Kind: listkeys.List, Keys: []string{"name"}, Elem: n},
		"ports": {
			Kind: listkeys.List, Keys: []string{"port", "protocol"}, KeyDefaults: map[string]any{"protocol": "TCP"}, Elem: n,
			AnyOrder: true, UniqueNames: true, SoleUnnamed: true,
		},
		"set":      {Kind: listkeys.List, Set: true},
		"mounts":   {Kind: listkeys.List, Keys: []string{"name"}, AnyOrder: true, Elem: n},
		"atomic":   {Kind: listkeys.Struct, Atomic: true, Fields: n.Fields},
		"selector": {Kind: listkeys.Map, Atomic: true, Elem: n},
		"whole":    {Kind: listkeys.List, Elem: n, Atomic: true},
		"map":      {Kind: listkeys.Map, Elem: n},
		"union":    {Kind: listkeys.Struct, RetainKeys: true, Fields: n.Fields},
		"name":     {Kind: listkeys.Scalar},
		"port":     {Kind: listkeys.IntOrString},
		"protocol": {Kind: listkeys.Scalar},
		"value":    {Kind: listkeys.Quantity},
	}
	n.Fields["union"].Fields, n.Fields["atomic"].Fields = n.Fields, n.Fields
	return n
}

// fuzzIgnores are the paths to ignore. They have no index for lists whose items have
// keys: an index means nothing among several items with the same keys.
var fuzzIgnores = []string{
	"spec.value", "keyed[*].value", "keyed[name=a]", "ports[port=1,protocol=TCP].value", "whole[*].map", "set[*]", "map[*].value",
	"whole[0]", "spec.union.value", "metadata.annotations", "metadata.labels.a", "spec", "union.free.value",
	"metadata.finalizers[*]", "free[*]", "free[*].value",
}

// checkCompareMerge draws objects from data and checks what Compare, Merge and
// FieldSet promise of them.
func checkCompareMerge(t *testing.T, data []byte) {
	t.Helper()
	s := &sample.ByteSource{Data: data}
	c := Comparison{}
	if s.Below(4) > 0 {
		c.Schema = fuzzSchema()
	}
	for range s.Below(3) {
		path, err := fieldpath.Parse(fuzzIgnores[s.Below(len(fuzzIgnores))])
		require.NoError(t, err)
		c.Ignore = append(c.Ignore, path)
	}
	earlier := s.Root(nil)
	live := s.Root(earlier)
	desired := s.Root(live)
	limit := []int{1 << 20, 0, 1, 20, 60, 200}[s.Below(6)]

	exact := newFieldSet(earlier, c.Schema)
	text := exact.Encode(limit)
	require.LessOrEqual(t, len(text), limit)
	former, err := ParseFieldSet(text)
	require.NoError(t, err, text)
	require.Equal(t, text, former.Encode(limit), "encoding is stable")
	if limit == 1<<20 {
		require.Equal(t, text, exact.Encode(limit))
	}
	if limit > 1 {
		requireFieldSetCovers(t, former, exact)
	}
	if s.Below(6) == 0 {
		former = nil
	}

	liveCopy, desiredCopy := runtime.DeepCopyJSON(live), runtime.DeepCopyJSON(desired)
	differences := c.Compare(live, desired, former)
	require.Equal(t, differences, c.Compare(live, desired, former), "deterministic")
	liveText, err := jsonvalue.Append(nil, live)
	require.NoError(t, err)
	if jsonvalue.Covers(string(liveText), desired, c.extent()) {
		require.Empty(t, c.Compare(live, desired, nil), "what is covered has no difference")
	}
	merged := c.Merge(live, desired, former)
	describe := func() string {
		all, _ := json.MarshalIndent(map[string]any{"ignore": c.Ignore, "schema": c.Schema != nil, "live": live, "desired": desired, "merged": merged, "former": text}, "", " ")
		return string(all)
	}
	require.Equal(t, len(differences) == 0, reflect.DeepEqual(live, merged), "a difference is what merge changes: %v\n%s", differences, describe())
	again := c.Compare(merged, desired, former)
	require.Empty(t, again, "merged satisfies desired\n%s", describe())
	require.Equal(t, merged, c.Merge(merged, desired, former), "idempotent")
	require.Equal(t, liveCopy, live, "live is untouched")
	require.Equal(t, desiredCopy, desired, "desired is untouched")
	for _, key := range []string{"apiVersion", "kind", "status"} {
		require.Equal(t, live[key], merged[key])
	}
	for _, path := range c.Ignore {
		requireIgnoredKept(t, live, merged, path)
	}
	checkShuffled(t, s, &c, live, desired, describe)
	checkOthersKept(t, s, &c, live, desired, former, describe)
	checkReordered(t, s, &c, desired, describe)
}

// checkShuffled checks that desired objects that differ in orders without meaning
// have equal canonical objects, and the same differences to a live object.
func checkShuffled(t *testing.T, s *sample.ByteSource, c *Comparison, live, desired map[string]any, describe func() string) {
	t.Helper()
	if len(c.Ignore) > 0 {
		return // an index means another item then
	}
	canon := c.Canonical(desired)
	require.True(t, jsonvalue.Equal(canon, c.Canonical(canon)), "idempotent\n%s", describe())
	shuffled, _ := shuffle(s, runtime.DeepCopyJSON(desired), c.Schema).(map[string]any)
	require.True(t, jsonvalue.Equal(canon, c.Canonical(shuffled)), "%v\n%s", shuffled, describe())
	require.Equal(t, c.Compare(live, desired, nil) == nil, c.Compare(live, shuffled, nil) == nil, "%v\n%s", shuffled, describe())
}

// shuffle turns around lists in v whose order means nothing, and changes v.
func shuffle(s *sample.ByteSource, v any, schema *listkeys.Node) any {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			v[key] = shuffle(s, v[key], schema.Field(key))
		}
	case []any:
		for i := range v {
			v[i] = shuffle(s, v[i], itemSchema(schema))
		}
		form, key := listFormOf(v, schema)
		if form == listSet || form == listKeyed && schema != nil && schema.AnyOrder && key.unique(v) {
			slices.Reverse(v)
		}
	}
	return v
}

// checkOthersKept adds a key and an item of somebody else to the live object, where
// neither is the desired object's business, and checks that both survive a merge.
func checkOthersKept(t *testing.T, s *sample.ByteSource, c *Comparison, live, desired map[string]any, former *FieldSet, describe func() string) {
	t.Helper()
	live, desired = maps.Clone(live), maps.Clone(desired)
	if keyed := former.field("keyed"); len(c.Ignore) > 0 || keyed != nil && keyed.kind != shapeKeyed {
		return // the list was compared whole, so that all of it was ours
	}
	theirs := map[string]any{"name": "theirs", "value": s.Value(1)}
	live["theirs"] = theirs
	mine := map[string]any{"name": "mine", "port": int64(s.Below(3))}
	desired["keyed"], live["keyed"] = []any{mine}, []any{theirs, map[string]any{"name": "mine"}}
	merged := c.Merge(live, desired, former)
	require.Equal(t, theirs, merged["theirs"], describe())
	require.Contains(t, merged["keyed"], any(theirs), describe())
	require.Nil(t, c.Compare(merged, desired, former), describe())
}

// checkReordered checks when the order of a keyed list counts: if the desired order
// changes, and not if others change the live one.
func checkReordered(t *testing.T, s *sample.ByteSource, c *Comparison, desired map[string]any, describe func() string) {
	t.Helper()
	if len(c.Ignore) > 0 {
		return
	}
	names := func(list any) (out []string) {
		items, _ := list.([]any)
		for _, item := range items {
			out = append(out, item.(map[string]any)["name"].(string))
		}
		return out
	}
	list := []any{map[string]any{"name": "a", "value": "x"}, map[string]any{"name": "b"}, map[string]any{"name": "c"}}
	field := []string{"keyed", "env", "mounts", "free"}[s.Below(4)]
	before, after := maps.Clone(desired), maps.Clone(desired)
	before[field] = list
	i, j := s.Below(3), s.Below(3)
	turned := slices.Clone(list)
	turned[i], turned[j] = turned[j], turned[i]
	after[field] = turned
	former, err := ParseFieldSet(newFieldSet(before, c.Schema).Encode(1 << 20))
	require.NoError(t, err)
	live := c.Merge(map[string]any{}, before, nil)
	anyOrder := c.Schema != nil && field == "mounts"
	require.Equal(t, i == j || anyOrder, c.Compare(live, after, former) == nil, "we reorder %s\n%s", field, describe())
	if !anyOrder {
		require.Equal(t, names(turned), names(c.Merge(live, after, former)[field]), "%s\n%s", field, describe())
	}
	moved := maps.Clone(live)
	moved[field] = turned
	require.Equal(t, i == j || field != "env", c.Compare(moved, before, former) == nil, "others reorder %s\n%s", field, describe())
	require.Equal(t, i == j || field != "env", c.Compare(moved, before, nil) == nil, "others reorder %s, and nothing else changes\n%s", field, describe())
}

// requireIgnoredKept checks that merged has the live value at an ignored path. It
// checks a path up to its first list item.
func requireIgnoredKept(t *testing.T, live, merged any, path fieldpath.Path) {
	t.Helper()
	for _, step := range path {
		was, isObject := live.(map[string]any)
		is, stillObject := merged.(map[string]any)
		if !isObject || !stillObject || step.Field == "" {
			return
		}
		live, merged = was[step.Field], is[step.Field]
	}
	if live != nil {
		require.Equal(t, live, merged, "%s is ignored", path)
	}
}

// requireFieldSetCovers checks that a holds all paths of b, except in metadata,
// where Encode may leave paths out.
func requireFieldSetCovers(t *testing.T, a, b *FieldSet) {
	t.Helper()
	for _, field := range b.fields {
		if field.name != "metadata" {
			require.True(t, a.ownsWhole() || fieldSetCovers(a.fields.get(field.name), field.value), field.name)
		}
	}
}

// fieldSetCovers says whether a holds all paths of b.
func fieldSetCovers(a, b *FieldSet) bool {
	switch {
	case a.ownsWhole():
		return true
	case a == nil || a.kind != b.kind || len(a.items) != len(b.items) || len(a.fields) == len(b.fields) && !slices.Equal(a.order, b.order):
		return false
	}
	for _, field := range b.fields {
		if !fieldSetCovers(a.fields.get(field.name), field.value) {
			return false
		}
	}
	for i, item := range b.items {
		if !fieldSetCovers(a.items[i], item) {
			return false
		}
	}
	return true
}

func FuzzCompareMerge(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(sample.RandomDecisions(rand.New(rand.NewPCG(seed, 1))))
	}
	f.Fuzz(checkCompareMerge)
}

// TestCompareMergeProperties runs the fuzzer's checks on random input.
func TestCompareMergeProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	n := budget.Runs(4000)
	if testing.Short() {
		n = min(n, 1000)
	}
	for range n {
		data := sample.RandomDecisions(r)
		checkCompareMerge(t, data)
	}
}

// FuzzParseFieldSet parses texts that anybody may have written.
func FuzzParseFieldSet(f *testing.F) {
	for _, text := range []string{
		"", "*", "data*,metadata{labels{app}}", `spec{ports[port|protocol:#53|TCP{name}],args[],rules({host},,"a b"<c>)}`,
		"a{b", "a[:", "a[k>c{d},b,a*],e[>]", `"`, "a((((", "a]", "a{}}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		set, err := ParseFieldSet(text)
		if err != nil {
			return
		}
		again, err := ParseFieldSet(set.Encode(maxText))
		require.NoError(t, err)
		require.Equal(t, set.Encode(100), again.Encode(100))
		live := map[string]any{"spec": map[string]any{"ports": []any{map[string]any{"port": int64(53)}}}, "a": []any{"b", nil, map[string]any{}}}
		c := Comparison{}
		require.Empty(t, c.Compare(c.Merge(live, nil, set), nil, set))
	})
}
