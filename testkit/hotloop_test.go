package testkit

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

func res(t *testing.T, obj map[string]any) *resource.Resource {
	t.Helper()
	r, err := resource.New(obj)
	require.NoError(t, err)
	return r
}

// states are successive writes of one object with these fields.
func states(t *testing.T, typ resource.Type, fields ...map[string]any) []Write {
	t.Helper()
	var writes []Write
	for i, f := range fields {
		object := map[string]any{
			"apiVersion": typ.APIVersion, "kind": typ.Kind,
			"metadata": map[string]any{
				"name": "one", "namespace": "ns", "uid": "u", "resourceVersion": string(rune('1' + i)), "generation": i + 1,
				"annotations": map[string]any{"roperator.com/applied": string(rune('a' + i))},
			},
		}
		maps.Copy(object, f)
		writes = append(writes, Write{Verb: "update", Type: typ, Key: types.NamespacedName{Namespace: "ns", Name: "one"}, Object: res(t, object)})
	}
	return writes
}

func TestChanging(t *testing.T) {
	t.Parallel()
	data := func(pairs ...string) map[string]any {
		m := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return map[string]any{"data": m}
	}
	cases := map[string]struct {
		reason string
		typ    resource.Type
		writes []map[string]any
		path   string
		values []string
	}{
		"a timestamp": {
			reason: "the field that differs from write to write, with its values in order",
			typ:    k8s.ConfigMap, writes: []map[string]any{data("a", "1", "time", "x"), data("a", "1", "time", "y"), data("a", "1", "time", "z")},
			path: "data.time", values: []string{`"x"`, `"y"`, `"z"`},
		},
		"two fields": {
			reason: "the one that differs more often",
			typ:    k8s.ConfigMap, writes: []map[string]any{data("a", "1", "b", "1"), data("a", "2", "b", "2"), data("a", "2", "b", "3")},
			path: "data.b", values: []string{`"1"`, `"2"`, `"3"`},
		},
		"many values": {
			reason: "enough is enough", typ: k8s.ConfigMap,
			writes: []map[string]any{data("a", "1"), data("a", "2"), data("a", "3"), data("a", "4"), data("a", "5"), data("a", "6")},
			path:   "data.a", values: []string{`"1"`, `"2"`, `"3"`, `"4"`, `"5"`},
		},
		"a value that comes and goes": {
			reason: "absent is a value", typ: k8s.ConfigMap, writes: []map[string]any{data("a", "1"), data(), data("a", "1")},
			path: "data.a", values: []string{`"1"`, "absent"},
		},
		"a Secret": {
			reason: "its values are nobody's business", typ: k8s.Secret, writes: []map[string]any{data("a", "c2VjcmV0"), data("a", "aHVudGVyMg==")},
			path: "data.a", values: []string{"(not shown)"},
		},
		"the same again and again": {
			reason: "what the server and the engine count up is nobody's change", typ: k8s.ConfigMap,
			writes: []map[string]any{data("a", "1"), data("a", "1"), data("a", "1")},
		},
		"a list item": {
			reason: "the path leads to the item", typ: k8s.Pod,
			writes: []map[string]any{
				{"spec": map[string]any{"containers": []any{map[string]any{"name": "a", "image": "x"}}}},
				{"spec": map[string]any{"containers": []any{map[string]any{"name": "a", "image": "y"}}}},
			},
			path: "spec.containers[0].image", values: []string{`"x"`, `"y"`},
		},
		"a list that grows": {
			reason: "without the same items there is only the whole", typ: k8s.Pod,
			writes: []map[string]any{{"spec": map[string]any{"l": []any{"x"}}}, {"spec": map[string]any{"l": []any{"x", "y"}}}},
			path:   "spec.l", values: []string{`["x"]`, `["x","y"]`},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, values := changing(c.typ, states(t, c.typ, c.writes...), "roperator.com/applied")
			require.Equal(t, c.path, path, c.reason)
			require.Equal(t, c.values, values, c.reason)
		})
	}
}

func TestHotLoopErrorText(t *testing.T) {
	t.Parallel()
	object := types.NamespacedName{Namespace: "ns", Name: "one"}
	cases := map[string]struct {
		reason string
		err    HotLoopError
		want   string
	}{
		"a field": {
			reason: "object, field and values",
			err: HotLoopError{
				Type: k8s.ConfigMap, Object: object, Path: "data.time", Values: []string{`"1"`, `"2"`}, Passes: 9, Writes: 8, Within: time.Second,
			},
			want: `not settled after 1s: 9 passes, 8 writes of ConfigMap ns/one, whose data.time keeps changing: "1", "2"`,
		},
		"no field": {
			reason: "the same state, again and again",
			err:    HotLoopError{Type: k8s.ConfigMap, Object: object, Passes: 9, Writes: 8, Within: time.Second},
			want: "not settled after 1s: 9 passes, 8 writes of ConfigMap ns/one: no field changes from one to the next; " +
				"is it deleted and created in turn, or changed by someone else in between?",
		},
		"no write": {
			reason: "a handler that asks to be called",
			err:    HotLoopError{Passes: 9, Within: time.Second},
			want: "not settled after 1s: 9 passes, 0 writes, of no object twice: a handler that asks for a short Resync, " +
				"fails, or doesn't return?",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.EqualError(t, &c.err, c.want, c.reason)
		})
	}
}

func TestFormatDifferences(t *testing.T) {
	t.Parallel()
	differences := []merge.Difference{
		{Path: "data.a", Live: "hunter1", Desired: "hunter2"},
		{Path: "data.b", Desired: "hunter2"},
		{Path: "type", Live: "Opaque", Desired: "other"},
	}
	require.Equal(t, `  data.a: live "hunter1", want "hunter2"
  data.b: live absent, want "hunter2"
  type: live "Opaque", want "other"`, formatDifferences(k8s.ConfigMap, differences))
	require.Equal(t, `  data.a: live (not shown), want (not shown)
  data.b: live absent, want (not shown)
  type: live "Opaque", want "other"`, formatDifferences(k8s.Secret, differences))
	long := formatDifferences(k8s.ConfigMap, []merge.Difference{{Path: "data.a", Live: strings.Repeat("x", 5000)}})
	require.Less(t, len(long), 700)
	require.Contains(t, long, "(5002 bytes)")
}
