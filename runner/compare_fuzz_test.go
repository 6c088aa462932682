package runner

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
)

// byteSource draws decisions from the fuzzer's input.
type byteSource struct{ data []byte }

func (s *byteSource) below(n int) int {
	if len(s.data) == 0 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return int(b) % n
}

// The names are few, so that objects drawn apart from each other meet. Each
// leads to another kind of schema.
var fuzzNames = []string{"keyed", "set", "whole", "map", "union", "env", "ports", "free", "name", "port", "protocol", "value"}

// fuzzSchema nests in itself through every kind of node.
func fuzzSchema() *listkeys.Node {
	n := &listkeys.Node{Kind: listkeys.Struct}
	n.Fields = map[string]*listkeys.Node{
		"keyed":    {Kind: listkeys.List, Keys: []string{"name"}, Elem: n},
		"env":      {Kind: listkeys.List, Keys: []string{"name"}, Elem: n},
		"ports":    {Kind: listkeys.List, Keys: []string{"port", "protocol"}, KeyDefaults: map[string]any{"protocol": "TCP"}, Elem: n},
		"set":      {Kind: listkeys.List, Set: true},
		"whole":    {Kind: listkeys.List, Elem: n, Atomic: true},
		"map":      {Kind: listkeys.Map, Elem: n},
		"union":    {Kind: listkeys.Struct, RetainKeys: true, Fields: n.Fields},
		"name":     {Kind: listkeys.Scalar},
		"port":     {Kind: listkeys.IntOrString},
		"protocol": {Kind: listkeys.Scalar},
		"value":    {Kind: listkeys.Quantity},
	}
	n.Fields["union"].Fields = n.Fields
	return n
}

func (s *byteSource) value(depth int) any {
	kinds := 9
	if depth <= 0 {
		kinds = 6
	}
	switch s.below(kinds) {
	case 0:
		return nil
	case 1:
		return []string{"a", "b", "TCP", "UDP", ""}[s.below(5)]
	case 2:
		return int64(s.below(3))
	case 3:
		return float64(s.below(3)) / 2
	case 4:
		return s.below(2) == 0
	case 5:
		return map[string]any{}
	case 6:
		return s.object(depth - 1)
	}
	return s.list(depth - 1)
}

func (s *byteSource) object(depth int) map[string]any {
	object := map[string]any{}
	for range s.below(5) {
		name := fuzzNames[s.below(len(fuzzNames))]
		object[name] = s.field(name, depth)
	}
	return object
}

// field draws a value that mostly is what the schema wants.
func (s *byteSource) field(name string, depth int) any {
	if s.below(12) == 0 {
		return s.value(depth)
	}
	switch name {
	case "keyed", "env", "ports", "whole":
		return s.list(depth - 1)
	case "set":
		return s.scalars()
	case "map", "union":
		if depth > 0 {
			return s.object(depth - 1)
		}
		return map[string]any{}
	case "free":
		return s.value(depth)
	}
	return []any{"a", "b", int64(1), 1.0, "UDP", nil}[s.below(6)]
}

func (s *byteSource) scalars() []any {
	list := []any{}
	for range s.below(4) {
		list = append(list, []any{"a", "b", "c", int64(1), nil}[s.below(5)])
	}
	return list
}

func (s *byteSource) list(depth int) []any {
	list := []any{}
	for range s.below(4) {
		if s.below(12) == 0 || depth < 0 {
			list = append(list, s.value(depth))
			continue
		}
		item := s.object(depth)
		if s.below(6) > 0 {
			item["name"] = []any{"a", "b", "c"}[s.below(3)]
			item["port"] = []any{int64(1), 1.0, int64(2)}[s.below(3)]
		}
		list = append(list, item)
	}
	return list
}

// root draws an object; half of the time it is another with changes.
func (s *byteSource) root(like map[string]any) map[string]any {
	object := map[string]any{"apiVersion": "v1", "kind": "Fuzz"}
	if like != nil && s.below(2) == 0 {
		object = s.change(runtime.DeepCopyJSON(like)).(map[string]any)
	}
	if s.below(2) == 0 {
		object["spec"] = s.value(4)
	}
	for range s.below(3) {
		name := fuzzNames[s.below(len(fuzzNames))]
		object[name] = s.field(name, 3)
	}
	if s.below(3) == 0 {
		object["status"] = s.value(1)
	}
	meta := map[string]any{"name": "x", "uid": []any{"u", "v"}[s.below(2)]}
	for _, name := range []string{"labels", "annotations", "finalizers", "ownerReferences"} {
		switch {
		case s.below(2) == 0:
		case s.below(10) == 0:
			meta[name] = s.value(1)
		case name == "finalizers":
			meta[name] = s.scalars()
		case name == "ownerReferences":
			meta[name] = []any{map[string]any{"uid": []any{"o", "p"}[s.below(2)], "name": "x"}}
		default:
			meta[name] = map[string]any{"a": []any{"a", "b", nil}[s.below(3)], fuzzNames[s.below(5)]: "c"}
		}
	}
	if object["metadata"] = meta; s.below(20) == 0 {
		object["metadata"] = s.value(1)
	}
	return object
}

// change alters a value here and there.
func (s *byteSource) change(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			switch s.below(8) {
			case 0:
				delete(v, key)
			case 1:
				v[key] = s.field(key, 2)
			default:
				v[key] = s.change(v[key])
			}
		}
		return v
	case []any:
		out := []any{}
		for _, item := range v {
			switch s.below(8) {
			case 0:
			case 1:
				out = append([]any{s.change(item)}, out...)
			case 2:
				out = append(out, s.object(1), item)
			default:
				out = append(out, s.change(item))
			}
		}
		return out
	}
	return v
}

// Indexes are left out where items have keys: they mean nothing among several
// items with the same keys.
var fuzzIgnores = []string{
	"spec.value", "keyed[*].value", "keyed[name=a]", "ports[port=1,protocol=TCP].value", "whole[*].map", "set[*]", "map[*].value",
	"whole[0]", "spec.union.value", "metadata.annotations", "metadata.labels.a", "spec", "union.free.value",
	"metadata.finalizers[*]", "free[*]", "free[*].value",
}

// checkCompareMerge holds compare, merge and the marks to their promises.
func checkCompareMerge(t *testing.T, data []byte) {
	t.Helper()
	s := &byteSource{data: data}
	c := comparison{}
	if s.below(4) > 0 {
		c.schema = fuzzSchema()
	}
	for range s.below(3) {
		path, err := fieldpath.Parse(fuzzIgnores[s.below(len(fuzzIgnores))])
		require.NoError(t, err)
		c.ignore = append(c.ignore, path)
	}
	earlier := s.root(nil)
	live := s.root(earlier)
	desired := s.root(live)
	limit := []int{1 << 20, 0, 1, 20, 60, 200}[s.below(6)]

	exact := newApplied(earlier, c.schema)
	text := exact.encode(limit)
	require.LessOrEqual(t, len(text), limit)
	former, err := decodeApplied(text)
	require.NoError(t, err, text)
	require.Equal(t, text, former.encode(limit), "encoding is stable")
	if limit == 1<<20 {
		require.Equal(t, text, exact.encode(limit))
	}
	if limit > 1 {
		requireAppliedCovers(t, former, exact)
	}
	if s.below(6) == 0 {
		former = nil
	}

	liveCopy, desiredCopy := runtime.DeepCopyJSON(live), runtime.DeepCopyJSON(desired)
	differences := c.compare(live, desired, former)
	require.Equal(t, differences, c.compare(live, desired, former), "deterministic")
	liveText, err := jsonvalue.Append(nil, live)
	require.NoError(t, err)
	if jsonvalue.Covers(string(liveText), desired) {
		require.Empty(t, c.compare(live, desired, nil), "what is covered has no difference")
	}
	merged := c.merge(live, desired, former)
	describe := func() string {
		all, _ := json.MarshalIndent(map[string]any{"ignore": c.ignore, "schema": c.schema != nil, "live": live, "desired": desired, "merged": merged, "former": text}, "", " ")
		return string(all)
	}
	require.Equal(t, len(differences) == 0, reflect.DeepEqual(live, merged), "a difference is what merge changes: %v\n%s", differences, describe())
	again := c.compare(merged, desired, former)
	require.Empty(t, again, "merged satisfies desired\n%s", describe())
	require.Equal(t, merged, c.merge(merged, desired, former), "idempotent")
	require.Equal(t, liveCopy, live, "live is untouched")
	require.Equal(t, desiredCopy, desired, "desired is untouched")
	for _, key := range []string{"apiVersion", "kind", "status"} {
		require.Equal(t, live[key], merged[key])
	}
	for _, path := range c.ignore {
		requireIgnoredKept(t, live, merged, path)
	}
}

// requireIgnoredKept checks ignored paths that have only fields.
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

// requireAppliedCovers checks that a says of everything in b that it is ours, but for
// what may be forgotten of metadata.
func requireAppliedCovers(t *testing.T, a, b *applied) {
	t.Helper()
	for _, field := range b.fields {
		if field.name != "metadata" {
			require.True(t, a.owns() || appliedCovers(a.fields.get(field.name), field.value), field.name)
		}
	}
}

func appliedCovers(a, b *applied) bool {
	switch {
	case a.owns():
		return true
	case a == nil || a.kind != b.kind || len(a.items) != len(b.items):
		return false
	}
	for _, field := range b.fields {
		if !appliedCovers(a.fields.get(field.name), field.value) {
			return false
		}
	}
	for i, item := range b.items {
		if !appliedCovers(a.items[i], item) {
			return false
		}
	}
	return true
}

func FuzzCompareMerge(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(randomDecisions(rand.New(rand.NewPCG(seed, 1))))
	}
	f.Fuzz(checkCompareMerge)
}

func randomDecisions(r *rand.Rand) []byte {
	data := make([]byte, 50+r.IntN(400))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

// TestCompareMergeProperties runs what the fuzzer checks on random input.
func TestCompareMergeProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	n := 4000
	if testing.Short() {
		n = 1000
	}
	for range n {
		data := randomDecisions(r)
		checkCompareMerge(t, data)
	}
}

// FuzzDecodeApplied feeds marks that anybody may have written.
func FuzzDecodeApplied(f *testing.F) {
	for _, text := range []string{
		"", "*", "data*,metadata{labels{app}}", `spec{ports[port|protocol:#53|TCP{name}],args[],rules({host},,"a b"<c>)}`,
		"a{b", "a[:", `"`, "a((((", "a]", "a{}}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := decodeApplied(text)
		if err != nil {
			return
		}
		again, err := decodeApplied(a.encode(maxAppliedText))
		require.NoError(t, err)
		require.Equal(t, a.encode(100), again.encode(100))
		live := map[string]any{"spec": map[string]any{"ports": []any{map[string]any{"port": int64(53)}}}, "a": []any{"b", nil, map[string]any{}}}
		c := comparison{}
		require.Empty(t, c.compare(c.merge(live, nil, a), nil, a))
	})
}
