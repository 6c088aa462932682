package merge

import (
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// newFieldSet returns the set of the paths that a desired object of a schema sets.
func newFieldSet(desired map[string]any, schema *listkeys.Node) *FieldSet {
	c := Comparison{Schema: schema}
	return c.Record(desired)
}

func TestFieldSetText(t *testing.T) {
	cases := map[string]struct {
		reason  string
		of      resource.Type
		desired string
		want    string
	}{
		"Nothing": {
			reason:  "What isn't compared isn't recorded, and null sets nothing.",
			desired: `{apiVersion: v1, kind: A, status: {a: 1}, metadata: {name: a, uid: u}, a: null}`,
			want:    `metadata{}`,
		},
		"Objects": {
			reason:  "Fields come in order, without their values.",
			desired: `{spec: {b: {}, a: x, c: {d: 1}}, metadata: {labels: {a.b/c: d}}}`,
			want:    `metadata{labels{a.b/c}},spec{a,b{},c{d}}`,
		},
		"Deployment": {
			reason: "Items of keyed lists are recorded by their keys.",
			of:     k8s.Deployment,
			desired: `spec: {replicas: 1, template: {spec: {containers: [{name: app, image: a, args: [x], env: [{name: B, value: b}, {name: A, value: a}],
			  ports: [{containerPort: 53, name: dns}, {containerPort: 53, protocol: UDP}], volumeMounts: [{name: a, mountPath: /a b}]}]}}}`,
			want: `spec{replicas,template{spec{containers[name>app{args,env[name>B{value},A{value}],image,` +
				`ports[containerPort|protocol:#53|TCP{name},#53|UDP{}],volumeMounts[mountPath:"\"/a b\""{name}]}]}}}`,
		},
		"Lists": {
			reason:  "Lists compared whole are recorded by position as far as there are objects in them.",
			desired: `{a: [], b: [1, x], c: [1, {d: 1}, [{e: 1}], []], metadata: {finalizers: [b, a, null, 1]}}`,
			want:    `a[],b,c(,{d},({e}),[]),metadata{finalizers<#1,a,b>}`,
		},
		"ListByShape": {
			reason:  "Without schema, by unique names.",
			desired: `{a: [{name: x, b: 1}, {name: z}], c: [{name: x}, {name: x}], d: [{name: 1}]}`,
			want:    `a[name>x{b},z{}],c({name},{name}),d({name})`,
		},
		"SameKeysTwice": {
			reason:  "What items with the same keys set is taken together.",
			of:      k8s.Pod,
			desired: `spec: {volumes: [{name: a, x: 1, v: {a: 1}, w: {c: 1}}, {name: a, y1: 1, v: {b: 1}, w: 1}]}`,
			want:    `spec{volumes[name:a{v{a,b},w,x,y1}]}`,
		},
		"Names": {
			reason:  "Names with a meaning of their own are quoted.",
			desired: `{"": 1, "a,b": 1, "*": 1, "a|b": 1, "\n": 1, "é": 1, "#1": 1, "a:b": {"{": 1}}`,
			want:    `"","\n",#1,"*","a,b","a:b"{"{"},a|b,"é"`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set := newFieldSet(sample.YAML(t, tc.desired), schemaOf(t, tc.of))
			text := set.Encode(maxText)
			require.Equal(t, tc.want, text, tc.reason)
			decoded, err := ParseFieldSet(text)
			require.NoError(t, err)
			require.True(t, fieldSetCovers(decoded, set) && fieldSetCovers(set, decoded), "%s says the same", text)
			require.Equal(t, text, decoded.Encode(maxText))
		})
	}
}

func TestFieldSetFits(t *testing.T) {
	keys := func(prefix string, n int) map[string]any {
		out := map[string]any{}
		for i := range n {
			out[fmt.Sprint(prefix, i)] = "x"
		}
		return out
	}
	few := map[string]any{"labels": keys("l", 3)}
	items := map[string]any{}
	for i := range 3000 {
		items[fmt.Sprint("item", i)] = map[string]any{"a": 1, "b": 2}
	}
	var env []any
	for i := range 1000 {
		env = append(env, map[string]any{"name": fmt.Sprint("VARIABLE_", i), "value": "x"})
	}
	var rules []any
	for i := range 2000 {
		rules = append(rules, map[string]any{"host": fmt.Sprint(i), "http": map[string]any{}})
	}
	cases := map[string]struct {
		reason  string
		of      resource.Type
		desired map[string]any
		limit   int
		want    string
	}{
		"Fits": {
			reason:  "What fits is exact.",
			desired: map[string]any{"data": map[string]any{"a": 1}, "metadata": few},
			limit:   len("data{a},metadata{labels{l0,l1,l2}}"),
			want:    "data{a},metadata{labels{l0,l1,l2}}",
		},
		"OneBigMap": {
			reason:  "The biggest collapses, the rest stays exact.",
			of:      k8s.ConfigMap,
			desired: map[string]any{"data": keys("k", 19000), "binaryData": keys("b", 3), "metadata": few, "immutable": true},
			limit:   16 << 10,
			want:    "binaryData{b0,b1,b2},data*,immutable,metadata{labels{l0,l1,l2}}",
		},
		"BigValue": {
			reason:  "Values don't count.",
			of:      k8s.ConfigMap,
			desired: map[string]any{"data": map[string]any{"a": strings.Repeat("x", 900_000)}},
			limit:   16 << 10,
			want:    "data{a}",
		},
		"TwoBigMaps": {
			reason:  "As many collapse as it takes.",
			of:      k8s.ConfigMap,
			desired: map[string]any{"data": keys("k", 5000), "binaryData": keys("b", 4000), "metadata": few},
			limit:   16 << 10,
			want:    "binaryData*,data*,metadata{labels{l0,l1,l2}}",
		},
		"ManyObjects": {
			reason:  "Small things collapse with what they are in, if they are too many even so.",
			desired: map[string]any{"spec": map[string]any{"items": items, "a": 1}, "metadata": few},
			limit:   16 << 10,
			want:    "metadata{labels{l0,l1,l2}},spec{a,items*}",
		},
		"ManyItems": {
			reason:  "So do list items.",
			of:      k8s.Pod,
			desired: map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "a", "image": "b", "env": env}}}},
			limit:   10 << 10,
			want:    "spec{containers[name>a{env*,image}]}",
		},
		"ManyRules": {
			reason:  "And lists that are compared whole.",
			of:      k8s.Ingress,
			desired: map[string]any{"spec": map[string]any{"rules": rules, "ingressClassName": "a"}},
			limit:   1 << 10,
			want:    "spec{ingressClassName,rules*}",
		},
		"Some": {
			reason:  "No more collapses than needed.",
			desired: map[string]any{"spec": map[string]any{"list": []any{map[string]any{"a": 1, "bb": 1}, map[string]any{"cc": 1}}}},
			limit:   len("spec{list(*,{cc})}"),
			want:    "spec{list(*,{cc})}",
		},
		"Root": {
			reason:  "At last everything does.",
			desired: keys("k", 19000),
			limit:   16 << 10,
			want:    "*",
		},
		"NoRoom": {
			reason:  "Without any room nothing is recorded.",
			desired: keys("k", 1),
			limit:   0,
			want:    "",
		},
		"Metadata": {
			reason:  "Metadata doesn't collapse, since we'd own the labels of others: it is forgotten.",
			desired: map[string]any{"metadata": map[string]any{"labels": keys("l", 3), "annotations": keys("a", 4), "finalizers": []any{"f"}}, "a": 1},
			limit:   len("a,metadata{annotations{a3},finalizers<f>,labels{l0,l1,l2}}"),
			want:    "a,metadata{annotations{a3},finalizers<f>,labels{l0,l1,l2}}",
		},
		"MetadataAltogether": {
			reason:  "Up to all of it.",
			desired: map[string]any{"metadata": map[string]any{"annotations": keys("a", 4)}, "a": 1},
			limit:   len("metadata{}"),
			want:    "a",
		},
		"OddMetadata": {
			reason:  "Whatever is in it.",
			desired: map[string]any{"metadata": map[string]any{"labels": []any{map[string]any{"a": 1}}, "b": 1}},
			limit:   len("metadata{b}"),
			want:    "metadata{b}",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := maps.Clone(tc.desired)
			var text string
			requireCheap(t, func() { text = newFieldSet(tc.desired, schemaOf(t, tc.of)).Encode(tc.limit) })
			require.Equal(t, tc.want, text, tc.reason)
			require.LessOrEqual(t, len(text), tc.limit)
			require.Equal(t, before, tc.desired)
			require.Equal(t, text, newFieldSet(tc.desired, schemaOf(t, tc.of)).Encode(tc.limit), "always the same")
			_, err := ParseFieldSet(text)
			require.NoError(t, err)
		})
	}
}

func TestParseFieldSetErrors(t *testing.T) {
	cases := map[string]struct{ reason, text, want string }{
		"TooLong":    {"Bounded in size.", strings.Repeat("a", maxText+1), "field set: 262145 bytes, more than 262144"},
		"TooDeep":    {"Bounded in depth.", strings.Repeat("a{", 100_000), "field set: offset 403: nested too deeply"},
		"DeepLists":  {"In lists as well.", "a" + strings.Repeat("(", 100_000), "field set: offset 202: nested too deeply"},
		"OpenObject": {"Objects end.", "a{b", "field set: offset 3: '}' expected"},
		"OpenSet":    {"Sets end.", "a<b", "field set: offset 3: '>' expected"},
		"OpenList":   {"Lists end.", "a[b:c", "field set: offset 5: ']' expected"},
		"OpenItems":  {"Lists compared whole end.", "a(,", "field set: offset 3: ')' expected"},
		"NoKeys":     {"Keyed lists have keys.", "a[{", "field set: offset 2: name expected"},
		"NoColon":    {"After them a colon.", "a[b", "field set: offset 3: ':' expected"},
		"NoName":     {"Fields have names.", "a{b,,c}", "field set: offset 4: name expected"},
		"BadItem":    {"What is in items counts.", "a[b:c{]", "field set: offset 6: '}' expected"},
		"BadInner":   {"What is in objects counts.", "a{b{,}}", "field set: offset 4: name expected"},
		"BadSet":     {"What is in sets counts.", "a<,>", "field set: offset 2: name expected"},
		"BadInItems": {"What is in lists counts.", "a({,})", "field set: offset 3: name expected"},
		"BadList":    {"What is in keyed lists counts.", "a[b:,]", "field set: offset 4: name expected"},
		"OpenQuote":  {"Quoted names end.", `a,"b`, "field set: offset 2: name: invalid syntax"},
		"BadEscape":  {"Quotes are as in Go.", `"\z"`, "field set: offset 0: name: invalid syntax"},
		"OutOfOrder": {"Names are in order.", "b,a", "field set: offset 3: \"a\" is out of order"},
		"Twice":      {"Each name is there once.", "a,a", "field set: offset 3: \"a\" is out of order"},
		"ItemTwice":  {"So is each item that isn't in order of names.", "a[b>d,c,d]", "field set: offset 9: an item is there twice"},
		"BadOrdered": {"What is in such items counts.", "a[b>{]", "field set: offset 4: name expected"},
		"Trailing":   {"Nothing comes after the end.", "a}", "field set: offset 1: end expected"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set, err := ParseFieldSet(tc.text)
			require.EqualError(t, err, tc.want, tc.reason)
			require.Nil(t, set)
		})
	}
}

// requireCheap fails the test if something allocates more than a multiple of
// what it takes if that grows with its input, as it should. How long it takes
// depends on what else the machine does.
func requireCheap(t *testing.T, do func()) {
	t.Helper()
	const plenty = 64 << 20 // bytes; the largest input here takes some 13 MB, and with its square gigabytes
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(plenty))
}

func TestFieldSetDepth(t *testing.T) {
	deep := map[string]any{"end": int64(1)}
	var list any = []any{map[string]any{"end": int64(1)}}
	for range 10_000 {
		deep = map[string]any{"a": deep}
		list = []any{list}
	}
	desired := map[string]any{"spec": deep, "list": list}
	var c Comparison
	var merged map[string]any
	requireCheap(t, func() {
		a := newFieldSet(desired, nil)
		decoded, err := ParseFieldSet(a.Encode(16 << 10))
		require.NoError(t, err, "what is written can be read")
		require.True(t, fieldSetCovers(decoded, a))

		require.Len(t, c.Compare(map[string]any{}, desired, decoded), 2)
		merged = c.Merge(map[string]any{}, desired, decoded)
		require.Nil(t, c.Compare(merged, desired, decoded))
		require.Empty(t, c.Merge(merged, map[string]any{}, decoded), "all of it is ours")
	})

	other := map[string]any{"end": int64(2)}
	for range 10_000 {
		other = map[string]any{"a": other}
	}
	differences := c.Compare(merged, map[string]any{"spec": other}, nil)
	require.Len(t, differences, 1)
	require.Len(t, differences[0].Path, len("spec")+len(".a")*10_000+len(".end"))
}

// TestFieldSetNil shows that nil is the empty set.
func TestFieldSetNil(t *testing.T) {
	var set *FieldSet
	require.Nil(t, set.field("a"))
	require.Nil(t, set.item(map[string]any{}, 0, nil))
	require.False(t, set.ownsWhole())
	require.False(t, set.hasItem("a", nil))
	require.Empty(t, set.Encode(10))
}
