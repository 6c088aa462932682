package merge

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smd "sigs.k8s.io/structured-merge-diff/v6/merge"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	paths "github.com/roperator/roperator/internal/fieldpath"
	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/internal/testing/sample"
)

// appliedSchema is a schema for structured-merge-diff, whose objects nest through
// every kind of field.
const appliedSchema = `
types:
- name: root
  map:
    fields:
    - {name: apiVersion, type: {scalar: string}}
    - {name: kind, type: {scalar: string}}
    - {name: spec, type: {namedType: node}}
- name: node
  map:
    fields:
    - {name: name, type: {scalar: string}}
    - {name: port, type: {scalar: numeric}}
    - {name: protocol, type: {scalar: string}, default: TCP}
    - {name: value, type: {scalar: untyped}}
    - {name: child, type: {namedType: node}}
    - {name: labels, type: {map: {elementType: {scalar: string}}}}
    - {name: selector, type: {map: {elementRelationship: atomic, elementType: {scalar: string}}}}
    - {name: env, type: {list: {elementRelationship: associative, keys: [name], elementType: {namedType: node}}}}
    - {name: ports, type: {list: {elementRelationship: associative, keys: [port, protocol], elementType: {namedType: node}}}}
    - {name: tags, type: {list: {elementRelationship: associative, elementType: {scalar: untyped}}}}
    - {name: args, type: {list: {elementRelationship: atomic, elementType: {scalar: string}}}}
    - {name: free, type: {namedType: __untyped_deduced_}}
- name: __untyped_atomic_
  scalar: untyped
  list: {elementRelationship: atomic, elementType: {namedType: __untyped_atomic_}}
  map: {elementRelationship: atomic, elementType: {namedType: __untyped_atomic_}}
- name: __untyped_deduced_
  scalar: untyped
  list: {elementRelationship: atomic, elementType: {namedType: __untyped_atomic_}}
  map: {elementRelationship: separable, elementType: {namedType: __untyped_deduced_}}
`

// appliedNode is the same schema for a Comparison.
func appliedNode() *listkeys.Node {
	scalar := &listkeys.Node{Kind: listkeys.Scalar}
	node := &listkeys.Node{Kind: listkeys.Struct}
	node.Fields = map[string]*listkeys.Node{
		"name": scalar, "port": scalar, "protocol": scalar, "value": scalar, "child": node,
		"labels":   {Kind: listkeys.Map, Elem: scalar},
		"selector": {Kind: listkeys.Map, Elem: scalar, Atomic: true},
		"env":      {Kind: listkeys.List, Keys: []string{"name"}, Elem: node},
		"ports":    {Kind: listkeys.List, Keys: []string{"port", "protocol"}, KeyDefaults: map[string]any{"protocol": "TCP"}, Elem: node},
		"tags":     {Kind: listkeys.List, Set: true, Elem: scalar},
		"args":     {Kind: listkeys.List, Elem: scalar, Atomic: true},
	}
	return &listkeys.Node{Kind: listkeys.Struct, Fields: map[string]*listkeys.Node{"spec": node}}
}

func TestApplied(t *testing.T) {
	for name, tc := range map[string]struct {
		reason        string
		ignore        string
		former        string // what an earlier object had set; nothing: it isn't known
		live, desired string
		want          string // the spec of the body; nothing: no apply does it
		unsure        bool
	}{
		"scalar":     {reason: "what is desired is said", live: `{value: 1, port: 1}`, desired: `{value: 2}`, want: `{value: 2}`},
		"added":      {reason: "what is added is said whole", live: `{}`, desired: `{child: {value: 1, labels: {}}}`, want: `{child: {value: 1, labels: {}}}`},
		"others":     {reason: "the fields of others aren't said", live: `{labels: {a: x}, env: [{name: x, value: 1}]}`, desired: `{labels: {b: x}, env: [{name: a}]}`, want: `{labels: {b: x}, env: [{name: a}]}`},
		"null":       {reason: "null says nothing", live: `{value: 1}`, desired: `{value: null, port: 1}`, want: `{port: 1}`},
		"dropped":    {reason: "an apply removes nothing that an update has set", former: `{labels: {a: x, b: x}}`, live: `{labels: {a: x, b: x}}`, desired: `{labels: {a: x}}`},
		"emptied":    {reason: "an apply would leave null", former: `{labels: {a: x}}`, live: `{labels: {a: x}}`, desired: `{labels: {}}`},
		"empty list": {reason: "an apply would leave the items", live: `{args: [a]}`, desired: `{args: []}`, want: `{args: []}`},
		"empty keyed list": {
			reason: "an apply would leave the items", live: `{env: [{name: a}]}`, desired: `{env: []}`,
		},
		"still empty":  {reason: "what is empty stays so", live: `{labels: {}, env: []}`, desired: `{labels: {}, env: [], value: 1}`, want: `{labels: {}, env: [], value: 1}`},
		"atomic list":  {reason: "a list with one owner is said whole", live: `{args: [a, b]}`, desired: `{args: [c]}`, want: `{args: [c]}`},
		"changed item": {reason: "an item that stays is changed in its place", live: `{env: [{name: x}, {name: a, value: 1, port: 2}]}`, desired: `{env: [{name: a, value: 2}]}`, want: `{env: [{name: a, value: 2}]}`},
		"reordered":    {reason: "an apply orders items in its own way", live: `{env: [{name: a}, {name: b}]}`, desired: `{env: [{name: b}, {name: a}]}`},
		"another port": {
			reason: "the item is the same, and keeps what was allocated for it", former: `{ports: [{port: 80}]}`,
			live: `{ports: [{port: 80, protocol: TCP, value: 30000}]}`, desired: `{ports: [{port: 81}]}`,
		},
		"twins":         {reason: "the API server refuses twins", live: `{env: [{name: a}]}`, desired: `{env: [{name: a, value: 1}, {name: a}]}`},
		"default key":   {reason: "the item is found by the default", live: `{ports: [{port: 80, protocol: TCP}]}`, desired: `{ports: [{port: 80, value: 1}]}`, want: `{ports: [{port: 80, value: 1}]}`},
		"set":           {reason: "others' elements aren't said", live: `{tags: [x, a]}`, desired: `{tags: [a, b]}`, want: `{tags: [a, b]}`},
		"less of a set": {reason: "an apply removes nothing that an update has set", former: `{tags: [x, a]}`, live: `{tags: [x, a]}`, desired: `{tags: [a]}`},
		"free":          {reason: "where there is no schema, a list is said with the items of others", live: `{free: {l: [{name: x}, {name: a}]}}`, desired: `{free: {l: [{name: a, v: 1}]}}`, want: `{free: {l: [{name: x}, {name: a, v: 1}]}}`},
		"others in a free object": {
			reason: "without a schema nobody knows whether the object has one owner", live: `{free: {theirs: 1}}`, desired: `{free: {a: 1}}`,
		},
		"ignored": {reason: "an ignored field has the live value", ignore: "spec.value", live: `{value: 5}`, desired: `{value: 2, port: 1}`, want: `{value: 5, port: 1}`},
		"ignored, absent": {
			reason: "somebody has removed it: it isn't put back", ignore: "spec.value", live: `{port: 2}`, desired: `{value: 2, port: 1}`, want: `{port: 1}`,
		},
		"ignored item": {
			reason: "items are found by their keys", ignore: "spec.env[*].value", live: `{env: [{name: x}, {name: a, value: 5}]}`, desired: `{env: [{name: a, value: 1}, {name: b, value: 1}]}`,
			want: `{env: [{name: a, value: 5}, {name: b, value: 1}]}`, unsure: true,
		},
		"ignored, by place": {reason: "a list without keys goes by its places", ignore: "spec.args[0]", live: `{args: [theirs, b]}`, desired: `{args: [a, c]}`, want: `{args: [theirs, c]}`},
		"left to others": {
			reason: "an apply would remove what an earlier one had said", ignore: "spec.value", live: `{value: 5}`, desired: `{port: 1}`, want: `{port: 1}`, unsure: true,
		},
		"left in an object": {
			reason: "so it is below the objects that nobody says any more", ignore: "spec.child.value", former: `{child: {value: 1}}`, live: `{child: {value: 5}}`, desired: `{port: 1}`, want: `{port: 1}`, unsure: true,
		},
		"left in a set": {
			reason: "so it is with elements", ignore: "spec.tags[*]", former: `{tags: [a]}`, live: `{tags: [a]}`, desired: `{tags: []}`, want: `{tags: []}`, unsure: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := func(text string) map[string]any { return map[string]any{"spec": sample.YAML(t, text)} }
			c := Comparison{Schema: appliedNode()}
			if tc.ignore != "" {
				path, err := paths.Parse(tc.ignore)
				require.NoError(t, err)
				c.Ignore = []paths.Path{path}
			}
			var former *FieldSet
			if tc.former != "" {
				former = newFieldSet(spec(tc.former), c.Schema)
			}
			live, desired := spec(tc.live), spec(tc.desired)
			got := c.Applied(live, desired, c.Merge(live, desired, former), former)
			if tc.want == "" {
				require.Nil(t, got, tc.reason)
			} else {
				require.NotNil(t, got, tc.reason)
				require.Equal(t, spec(tc.want), got.Body, tc.reason)
				require.Equal(t, !tc.unsure, got.Sure, tc.reason)
			}
			require.Equal(t, spec(tc.live), live, "inputs aren't modified")
			require.Equal(t, spec(tc.desired), desired, "inputs aren't modified")
			require.Nil(t, (&Comparison{}).Applied(live, desired, desired, nil), "without a schema nobody knows what an apply does")
		})
	}
}

// A history is an object as an API server keeps it, with the fields that each
// manager owns.
type history struct {
	t        *testing.T
	schema   typed.ParseableType
	updater  *smd.Updater
	live     map[string]any
	managers fieldpath.ManagedFields
}

// oneVersion converts between the versions of a type that has one.
type oneVersion struct{}

func (oneVersion) Convert(object *typed.TypedValue, _ fieldpath.APIVersion) (*typed.TypedValue, error) {
	return object, nil
}
func (oneVersion) IsMissingVersionError(error) bool { return false }

func (h *history) typed(object map[string]any) *typed.TypedValue {
	h.t.Helper()
	v, err := h.schema.FromUnstructured(object, typed.AllowDuplicates)
	require.NoError(h.t, err)
	return v
}

func (h *history) update(manager string, object map[string]any) {
	h.t.Helper()
	_, managers, err := h.updater.Update(h.typed(h.live), h.typed(object), "v1", h.managers, manager)
	require.NoError(h.t, err)
	h.live, h.managers = object, managers
}

func (h *history) apply(manager string, object map[string]any) {
	h.t.Helper()
	made, managers, err := h.updater.Apply(h.typed(h.live), h.typed(object), "v1", h.managers, manager, true)
	require.NoError(h.t, err)
	h.managers = managers
	if made != nil {
		h.live, _ = made.AsValue().Unstructured().(map[string]any)
	}
}

// entries returns the managedFields of the object. The name of a manager ends with
// the operation.
func (h *history) entries() []metav1.ManagedFieldsEntry {
	h.t.Helper()
	var out []metav1.ManagedFieldsEntry
	for _, name := range slices.Sorted(maps.Keys(h.managers)) {
		manager, operation := name[:len(name)-1], metav1.ManagedFieldsOperationUpdate
		if h.managers[name].Applied() {
			operation = metav1.ManagedFieldsOperationApply
		}
		entry, err := withOwnedFields(metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, APIVersion: "v1"}, h.managers[name].Set())
		require.NoError(h.t, err)
		out = append(out, entry)
	}
	return out
}

func (h *history) setEntries(entries []metav1.ManagedFieldsEntry) {
	h.t.Helper()
	h.managers = fieldpath.ManagedFields{}
	for _, e := range entries {
		set, err := ownedFields(e)
		require.NoError(h.t, err)
		applied := e.Operation == metav1.ManagedFieldsOperationApply
		h.managers[e.Manager+map[bool]string{true: "A", false: "U"}[applied]] = fieldpath.NewVersionedSet(set, "v1", applied)
	}
}

// appliedValue draws an object of appliedSchema. Names are few, so that objects
// drawn apart from each other meet.
func appliedValue(s *sample.ByteSource, depth int) map[string]any {
	names := []any{"a", "b", "c"}
	out := map[string]any{}
	labels := func() map[string]any {
		m := map[string]any{}
		for range s.Below(3) {
			m[names[s.Below(3)].(string)] = []any{"x", "y"}[s.Below(2)]
		}
		return m
	}
	items := func(keys []any, key string) []any {
		list := someOf(s, keys)
		for i, k := range list {
			item := appliedValue(s, depth-1)
			item[key] = k
			if key == "port" && s.Below(2) == 0 {
				item["protocol"] = []any{"TCP", "UDP"}[s.Below(2)]
			}
			list[i] = item
		}
		return list
	}
	if s.Below(2) == 0 {
		out["value"] = []any{int64(1), int64(2), "x"}[s.Below(3)]
	}
	if s.Below(3) == 0 {
		out["args"] = someOf(s, names)
	}
	if s.Below(3) == 0 {
		out["labels"] = labels()
	}
	if s.Below(4) == 0 {
		out["selector"] = labels()
	}
	if s.Below(3) == 0 {
		out["tags"] = someOf(s, []any{"a", "1", int64(1)})
	}
	if depth == 0 {
		return out
	}
	if s.Below(3) == 0 {
		out["child"] = appliedValue(s, depth-1)
	}
	if s.Below(2) == 0 {
		out["env"] = items(names, "name")
	}
	if s.Below(3) == 0 {
		out["ports"] = items([]any{int64(80), int64(81), int64(82)}, "port")
	}
	if s.Below(3) == 0 {
		free := any(labels())
		if s.Below(3) == 0 {
			free = map[string]any{"a": labels(), "list": items(names, "name")}
		}
		out["free"] = free
	}
	return out
}

// someOf draws some of the values, maybe none, turned round somewhere.
func someOf(s *sample.ByteSource, values []any) []any {
	out := []any{}
	first := s.Below(len(values))
	for i := range values {
		if s.Below(3) > 0 {
			out = append(out, values[(first+i)%len(values)])
		}
	}
	return out
}

// overlaid returns live with the changes of somebody else in it.
func overlaid(live, change any) any {
	have, isObject := live.(map[string]any)
	more, ok := change.(map[string]any)
	if !isObject || !ok {
		return change
	}
	out := maps.Clone(have)
	for key, v := range more {
		out[key] = overlaid(have[key], v)
	}
	return out
}

// inKeyOrder returns a value without nulls, and with the items of its keyed lists and the elements of
// its sets in the order of their text: what the API server makes of their order
// isn't ours to say.
func inKeyOrder(v any, schema *listkeys.Node) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			if value != nil {
				out[key] = inKeyOrder(value, schema.Field(key))
			}
		}
		return out
	case []any:
		out := []any{}
		for _, item := range v {
			out = append(out, inKeyOrder(item, itemSchema(schema)))
		}
		if schema != nil && (schema.Set || len(schema.Keys) > 0) {
			slices.SortFunc(out, func(a, b any) int { return cmp.Compare(text(a), text(b)) })
		}
		return out
	}
	return v
}

// FuzzApplied makes a child go through desired states under server-side apply, as
// structured-merge-diff does it, which is what the API server uses. Other managers
// update and apply in between. Whatever was before, the child becomes what an
// update would make of it.
func FuzzApplied(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 600 {
		data := make([]byte, 900)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		f.Add(data)
	}
	parser, err := typed.NewParser(appliedSchema)
	require.NoError(f, err)
	applies := 0
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &sample.ByteSource{Data: data}
		c := &Comparison{Schema: appliedNode()}
		if s.Below(3) == 0 {
			path, err := paths.Parse([]string{"spec.value", "spec.env[*].value", "spec.labels", `spec.child`, "spec.tags"}[s.Below(5)])
			require.NoError(t, err)
			c.Ignore = []paths.Path{path}
		}
		object := func(depth int) map[string]any {
			return map[string]any{"apiVersion": "v1", "kind": "Node", "spec": appliedValue(s, depth)}
		}
		h := &history{t: t, schema: parser.Type("root"), managers: fieldpath.ManagedFields{}, live: map[string]any{}}
		h.updater = (&smd.UpdaterBuilder{Converter: oneVersion{}, ReturnInputOnNoop: true}).BuildUpdater()
		desired := object(2)
		h.update("usU", desired)
		shared := false // somebody has applied, too, and may want what we drop
		for round := range 4 {
			switch s.Below(4) {
			case 0:
				theirs, _ := overlaid(h.live, object(1)).(map[string]any)
				h.update("otherU", theirs)
			case 1:
				shared = true
				h.apply("otherA", object(1))
			}
			former := newFieldSet(desired, c.Schema)
			if s.Below(3) > 0 {
				desired = object(2)
			} else {
				former = nil // the same is desired as before
			}
			live := h.live
			merged := c.Merge(live, desired, former)
			var body map[string]any
			got := c.Applied(live, desired, merged, former)
			owned, err := ReadOwnership(h.entries(), "us")
			require.NoError(t, err)
			ok := got != nil && (got.Sure || !owned.Removes(got.Body, merged))
			if ok {
				applies++
				body = got.Body
				h.apply("usA", body)
			} else {
				merged = owned.KeepShared(live, merged)
				entries, err := owned.Applied(live, desired, nil, metav1.Time{})
				require.NoError(t, err)
				h.setEntries(entries)
				h.update("usU", merged)
			}
			context := fmt.Sprintf("round %d, an apply: %v\nlive:    %s\ndesired: %s\nbody:    %s", round, ok, text(live), text(desired), text(body))
			require.Equal(t, inKeyOrder(merged, c.Schema), inKeyOrder(h.live, c.Schema), context)
			if !shared {
				require.Empty(t, c.Compare(h.live, desired, former), context)
			}
		}
	})
	if f.Failed() || flag.Lookup("test.fuzz").Value.String() != "" { // a fuzzer's processes count for themselves
		return
	}
	require.NotZero(f, applies)
}

func text(v any) string {
	raw, err := jsonvalue.Append(nil, v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}
