package merge

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/roperator/roperator/internal/testing/sample"
)

func TestTakeEntries(t *testing.T) {
	for name, test := range map[string]struct {
		reason       string
		live, merged string
		before       []string
		after        []string // nil: TakeEntries returns nil
	}{
		"field": {
			reason: "a field that merged lacks moves; one that has another value stays",
			live:   `{spec: {a: 1, b: 2}}`, merged: `{spec: {b: 3}}`,
			before: []string{`us Update v1: {f:spec: {.: {}, f:a: {}, f:b: {}}}`},
			after:  []string{`us Update v1: {f:spec: {.: {}, f:b: {}}}`, `us Apply v1: {f:spec: {f:a: {}}}`},
		},
		"nested object": {
			reason: "an object that goes takes along all that we own in it: its own path, what live hasn't, and what no lookup finds",
			live:   `{spec: {a: {b: {c: 1}}, z: 1}}`, merged: `{spec: {z: 1}}`,
			before: []string{`us Update v1: {f:spec: {.: {}, f:a: {.: {}, f:b: {.: {}, f:c: {}, f:d: {}}, f:list: {'i:0': {}}}, f:z: {}}}`},
			after: []string{
				`us Update v1: {f:spec: {.: {}, f:z: {}}}`,
				`us Apply v1: {f:spec: {f:a: {.: {}, f:b: {.: {}, f:c: {}, f:d: {}}, f:list: {'i:0': {}}}}}`,
			},
		},
		"parent stays": {
			reason: "an object that stays is still owned by its own path when all in it has moved",
			live:   `{data: {a: b}}`, merged: `{data: {}}`,
			before: []string{`us Update v1: {f:data: {.: {}, f:a: {}}}`},
			after:  []string{`us Update v1: {f:data: {}}`, `us Apply v1: {f:data: {f:a: {}}}`},
		},
		"already gone": {
			reason: "what live hasn't can't go",
			live:   `{data: {b: b}}`, merged: `{data: {}}`,
			before: []string{`us Update v1: {f:data: {f:a: {}, f:b: {}}, f:more: {f:c: {}}}`},
			after:  []string{`us Update v1: {f:data: {f:a: {}}, f:more: {f:c: {}}}`, `us Apply v1: {f:data: {f:b: {}}}`},
		},
		"null": {
			reason: "null is as good as nothing",
			live:   `{a: 1, b: null}`, merged: `{a: null}`,
			before: []string{`us Update v1: {f:a: {}, f:b: {}}`},
			after:  []string{`us Update v1: {f:b: {}}`, `us Apply v1: {f:a: {}}`},
		},
		"item": {
			reason: "an item that goes takes along its own path; an item that stays keeps it",
			live:   `{env: [{name: a, value: x}, {name: b, value: y}, {name: c, value: z}]}`, merged: `{env: [{name: c, value: z}, {name: a}]}`,
			before: []string{`us Update v1: {f:env: {.: {}, 'k:{"name":"a"}': {.: {}, f:name: {}, f:value: {}}, 'k:{"name":"b"}': {.: {}, f:name: {}, f:value: {}},
				'k:{"name":"c"}': {.: {}, f:name: {}, f:value: {}}}}`},
			after: []string{
				`us Update v1: {f:env: {.: {}, 'k:{"name":"a"}': {.: {}, f:name: {}}, 'k:{"name":"c"}': {.: {}, f:name: {}, f:value: {}}}}`,
				`us Apply v1: {f:env: {'k:{"name":"a"}': {f:value: {}}, 'k:{"name":"b"}': {.: {}, f:name: {}, f:value: {}}}}`,
			},
		},
		"item of another": {
			reason: "of an item whose own path isn't ours, our fields alone move",
			live:   `{env: [{name: a, value: x}]}`, merged: `{env: []}`,
			before: []string{`other Update v1: {f:env: {'k:{"name":"a"}': {.: {}, f:name: {}}}}`, `us Update v1: {f:env: {'k:{"name":"a"}': {f:value: {}}}}`},
			after:  []string{`other Update v1: {f:env: {'k:{"name":"a"}': {.: {}, f:name: {}}}}`, `us Apply v1: {f:env: {'k:{"name":"a"}': {f:value: {}}}}`},
		},
		"item as a leaf": {
			reason: "an item may be owned without any field in it",
			live:   `{env: [{name: a}, {name: b}]}`, merged: `{env: [{name: a}]}`,
			before: []string{`us Update v1: {f:env: {'k:{"name":"a"}': {}, 'k:{"name":"b"}': {}}}`},
			after:  []string{`us Update v1: {f:env: {'k:{"name":"a"}': {}}}`, `us Apply v1: {f:env: {'k:{"name":"b"}': {}}}`},
		},
		"equal keys": {
			reason: "of items with the same key the first counts",
			live:   `{env: [{name: a, value: x}, {name: a, more: y}]}`, merged: `{env: [{name: a, other: z}, {name: a, value: x}]}`,
			before: []string{`us Update v1: {f:env: {'k:{"name":"a"}': {f:more: {}, f:value: {}}}}`},
			after:  []string{`us Update v1: {f:env: {'k:{"name":"a"}': {f:more: {}}}}`, `us Apply v1: {f:env: {'k:{"name":"a"}': {f:value: {}}}}`},
		},
		"several keys": {
			reason: "all keys together name an item",
			live:   `{ports: [{port: 80, protocol: TCP, name: a}, {port: 80, protocol: UDP, name: b}, {port: 81, protocol: TCP}]}`,
			merged: `{ports: [{port: 80, protocol: UDP}, {port: 81, protocol: TCP}]}`,
			before: []string{`us Update v1: {f:ports: {.: {}, 'k:{"port":80,"protocol":"TCP"}': {.: {}, f:name: {}, f:port: {}},
				'k:{"port":80,"protocol":"UDP"}': {.: {}, f:name: {}, f:port: {}}, 'k:{"port":81,"protocol":"TCP"}': {.: {}, f:port: {}}}}`},
			after: []string{
				`us Update v1: {f:ports: {.: {}, 'k:{"port":80,"protocol":"UDP"}': {.: {}, f:port: {}}, 'k:{"port":81,"protocol":"TCP"}': {.: {}, f:port: {}}}}`,
				`us Apply v1: {f:ports: {'k:{"port":80,"protocol":"TCP"}': {.: {}, f:name: {}, f:port: {}}, 'k:{"port":80,"protocol":"UDP"}': {f:name: {}}}}`,
			},
		},
		"key with default": {
			reason: "the server's default of a key names the item though nobody owns it; an item without that key is another",
			live:   `{ports: [{port: 80, protocol: TCP, name: a}, {port: 81, protocol: TCP, name: b}]}`,
			merged: `{ports: [{port: 80, protocol: TCP}, {port: 81, name: b}]}`,
			before: []string{`us Update v1: {f:ports: {'k:{"port":80,"protocol":"TCP"}': {.: {}, f:name: {}, f:port: {}},
				'k:{"port":81,"protocol":"TCP"}': {.: {}, f:name: {}, f:port: {}}}}`},
			after: []string{
				`us Update v1: {f:ports: {'k:{"port":80,"protocol":"TCP"}': {.: {}, f:port: {}}}}`,
				`us Apply v1: {f:ports: {'k:{"port":80,"protocol":"TCP"}': {f:name: {}}, 'k:{"port":81,"protocol":"TCP"}': {.: {}, f:name: {}, f:port: {}}}}`,
			},
		},
		"keys of other types": {
			reason: "keys may be numbers, booleans and null; a key without fields names nothing",
			live:   `{list: [{flag: true, num: 1.5, a: 1}, {flag: false, num: null, a: 2}, {a: 3}]}`, merged: `{list: [{flag: true, num: 1.5}, {flag: false, num: null}, {b: 3}]}`,
			before: []string{`us Update v1: {f:list: {'k:{"num":1.5,"flag":true}': {f:a: {}}, 'k:{"num":null,"flag":false}': {f:a: {}}, 'k:{}': {f:a: {}}, 'k:{"flag":"true"}': {f:a: {}}}}`},
			after: []string{
				`us Update v1: {f:list: {'k:{}': {f:a: {}}, 'k:{"flag":"true"}': {f:a: {}}}}`,
				`us Apply v1: {f:list: {'k:{"num":1.5,"flag":true}': {f:a: {}}, 'k:{"num":null,"flag":false}': {f:a: {}}}}`,
			},
		},
		"large integer": {
			reason: "fieldpath reads a key as float64, which has no 2^53+1; the item is found all the same",
			live:   `{ids: [9007199254740993, 7]}`, merged: `{ids: [7]}`,
			before: []string{`us Update v1: {f:ids: {'v:7': {}, 'v:9007199254740993': {}}}`},
			after:  []string{`us Update v1: {f:ids: {'v:7': {}}}`, `us Apply v1: {f:ids: {'v:9007199254740993': {}}}`},
		},
		"set": {
			reason: "elements of a set move one by one; 1 isn't \"1\"",
			live:   `{finalizers: [a, b], numbers: [1, "1"]}`, merged: `{finalizers: [b], numbers: ["1"]}`,
			before: []string{`us Update v1: {f:finalizers: {.: {}, 'v:"a"': {}, 'v:"b"': {}}, f:numbers: {'v:1': {}, 'v:"1"': {}}}`},
			after: []string{
				`us Update v1: {f:finalizers: {.: {}, 'v:"b"': {}}, f:numbers: {'v:"1"': {}}}`,
				`us Apply v1: {f:finalizers: {'v:"a"': {}}, f:numbers: {'v:1': {}}}`,
			},
		},
		"atomic list": {
			reason: "a list without keys has one owner, who loses it as a whole or not at all",
			live:   `{rules: [{a: b}], args: [a, b]}`, merged: `{args: [a]}`,
			before: []string{`us Update v1: {f:rules: {}, f:args: {}}`},
			after:  []string{`us Update v1: {f:args: {}}`, `us Apply v1: {f:rules: {}}`},
		},
		"index": {
			reason: "an index alone doesn't tell which item is meant",
			live:   `{args: [{a: 1}, {a: 2}]}`, merged: `{args: [{a: 1}]}`,
			before: []string{`us Update v1: {f:args: {'i:0': {f:a: {}}, 'i:1': {}}}`},
		},
		"another type": {
			reason: "where live or merged isn't what the paths expect, nothing in it is found",
			live:   `{a: {b: 1}, c: [x], d: x}`, merged: `{a: [x], c: {x: 1}, d: x}`,
			before: []string{`us Update v1: {f:a: {.: {}, f:b: {}, 'v:"x"': {}}, f:c: {'v:"x"': {}, f:x: {}}, f:d: {f:e: {}, 'k:{"name":"a"}': {}}}`},
			after: []string{
				`us Update v1: {f:a: {.: {}, 'v:"x"': {}}, f:c: {f:x: {}}, f:d: {f:e: {}, 'k:{"name":"a"}': {}}}`,
				`us Apply v1: {f:a: {f:b: {}}, f:c: {'v:"x"': {}}}`,
			},
		},
		"versions": {
			reason: "of what moves, whatever its version, there is one Apply entry, in live's version; an Update entry without fields goes",
			live:   `{apiVersion: v2, a: 1, b: 2, c: 3, d: 4}`, merged: `{apiVersion: v2, d: 4}`,
			before: []string{`us Update v2: {f:a: {}}`, `us Update v1: {f:b: {}}`, `before-first-apply Update v1: {f:c: {}, f:d: {}}`, `us Update v3: {f:d: {}}`},
			after:  []string{`before-first-apply Update v1: {f:d: {}}`, `us Update v3: {f:d: {}}`, `us Apply v2: {f:a: {}, f:b: {}, f:c: {}}`},
		},
		"applied before": {
			reason: "our Apply entry grows, in its place",
			live:   `{data: {a: x, b: y}}`, merged: `{}`,
			before: []string{`us Apply v1: {f:data: {f:b: {}}, f:more: {}}`, `us Update v1: {f:data: {.: {}, f:a: {}}}`},
			after:  []string{`us Apply v1: {f:data: {.: {}, f:a: {}, f:b: {}}, f:more: {}}`},
		},
		"applied in another version": {
			reason: "the API server would drop the old one of two Apply entries, and with it what we applied",
			live:   `{apiVersion: v2, data: {a: x, b: y}}`, merged: `{apiVersion: v2}`,
			before: []string{`us Apply v1: {f:data: {f:b: {}}}`, `us Update v2: {f:data: {.: {}, f:a: {}}}`},
			after:  []string{`us Apply v1: {f:data: {.: {}, f:a: {}, f:b: {}}}`},
		},
		"leaf and parent": {
			reason: "what is owned as a leaf by one entry and as a parent by the other is both",
			live:   `{data: {a: x}, rules: [x]}`, merged: `{}`,
			before: []string{`us Apply v1: {f:data: {f:a: {}}, f:rules: {}}`, `us Update v1: {f:data: {}, f:rules: {'v:"x"': {}}}`},
			after:  []string{`us Apply v1: {f:data: {.: {}, f:a: {}}, f:rules: {.: {}, 'v:"x"': {}}}`},
		},
		"entries of others": {
			reason: "other managers, subresources and applies keep what they have",
			live:   `{a: 1}`, merged: `{}`,
			before: []string{`other Update v1: {f:a: {}}`, `us Update v1 status: {f:a: {}}`, `other Apply v1: {f:a: {}}`, `us Apply v1 status: {f:a: {}}`,
				`before-first-apply Apply v1: {f:a: {}}`, `us Update v1: {f:a: {}}`},
			after: []string{`other Update v1: {f:a: {}}`, `us Update v1 status: {f:a: {}}`, `other Apply v1: {f:a: {}}`, `us Apply v1 status: {f:a: {}}`,
				`before-first-apply Apply v1: {f:a: {}}`, `us Apply v1: {f:a: {}}`},
		},
		"nothing to take": {
			reason: "what goes is ours by apply already",
			live:   `{spec: {a: 1, b: 2}}`, merged: `{spec: {b: 3}}`,
			before: []string{`us Apply v1: {f:spec: {f:a: {}}}`, `us Update v1: {f:spec: {.: {}, f:b: {}}}`},
		},
		"nothing goes": {
			reason: "a merged object that has all that live has takes nothing",
			live:   `{spec: {a: 1}}`, merged: `{spec: {a: 1, b: 1}}`,
			before: []string{`us Update v1: {f:spec: {.: {}, f:a: {}, f:b: {}}}`, `us Update v2: {}`},
		},
		"nothing ours": {
			reason: "an object that we never wrote",
			live:   `{a: 1}`, merged: `{}`,
			before: []string{`other Update v1: {f:a: {}}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before, given := entries(t, test.before), entries(t, test.before)
			live, merged := inVersion1(sample.YAML(t, test.live)), inVersion1(sample.YAML(t, test.merged))
			now := metav1.NewTime(writtenAt.Add(time.Hour))
			got, err := TakeEntries(given, "us", live, merged, now)
			require.NoError(t, err)
			require.Equal(t, before, given, "the given entries were changed")
			if test.after == nil {
				require.Nil(t, got, test.reason)
				return
			}
			require.True(t, Lacks(merged, live), "takeFields wouldn't have been called: %s", test.reason)
			require.Equal(t, describeEntries(t, entries(t, test.after)), describeEntries(t, got), test.reason)
			for _, entry := range got {
				want := now
				for _, old := range before {
					if sameWriter(entry, old) {
						want = *old.Time
					}
				}
				require.Equal(t, want, *entry.Time, "%s of %s by %s", entry.Operation, entry.APIVersion, entry.Manager)
			}
		})
	}
}

func TestTakeEntriesOfMalformedFields(t *testing.T) {
	live, merged := map[string]any{"a": int64(1)}, map[string]any{}
	const a = `{"f:a":{}}`
	for name, test := range map[string]struct {
		reason        string
		other, update string
		apply         string
		err           string // nothing: TakeEntries returns nil and no error
	}{
		"empty":            {"no JSON at all", a, ``, a, "Update of v1 by us: "},
		"cut off":          {"JSON that ends too early", a, `{"f:a":{}`, a, "Update of v1 by us: "},
		"more":             {"something after the JSON", a, a + a, a, "Update of v1 by us: "},
		"list":             {"not an object", a, `["f:a"]`, a, "Update of v1 by us: "},
		"leaf":             {"a leaf that isn't an object", a, `{"f:a":true}`, a, "Update of v1 by us: "},
		"no type":          {"a path element without a type", a, `{"a":{}}`, a, "Update of v1 by us: "},
		"key":              {"a key that isn't JSON", a, `{"f:a":{"k:x":{}}}`, a, "Update of v1 by us: "},
		"index":            {"an index that isn't a number", a, `{"f:a":{"i:x":{}}}`, a, "Update of v1 by us: "},
		"apply entry":      {"fields can't be added to what can't be read", a, a, `{`, "Apply of v1 by us: "},
		"unused":           {"what isn't needed isn't read", `{`, `{"f:b":{}}`, `{`, ""},
		"unknown type":     {"an element of an unknown type names nothing", a, `{"x:a":{},"f:b":{}}`, a, ""},
		"nothing is owned": {"null owns nothing", a, `null`, a, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := TakeEntries([]metav1.ManagedFieldsEntry{
				{Manager: "other", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsV1: metav1.NewFieldsV1(test.other)},
				{Manager: "us", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v2"}, // without fields
				{Manager: "us", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsV1: metav1.NewFieldsV1(test.update)},
				{Manager: "us", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsV1: metav1.NewFieldsV1(test.apply)},
			}, "us", live, merged, metav1.Time{})
			require.Nil(t, got, test.reason)
			if test.err == "" {
				require.NoError(t, err, test.reason)
				return
			}
			require.ErrorContains(t, err, test.err, test.reason)
		})
	}
}

// inVersion1 sets the apiVersion of an object that has none.
func inVersion1(object map[string]any) map[string]any {
	if object["apiVersion"] == nil {
		object["apiVersion"] = "v1"
	}
	return object
}

// writtenAt is the time of entries that are there already.
var writtenAt = metav1.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// entries reads entries of managedFields: manager, operation, version and, if
// there is one, subresource; then a colon and the fields as YAML.
func entries(t *testing.T, texts []string) []metav1.ManagedFieldsEntry {
	t.Helper()
	var out []metav1.ManagedFieldsEntry
	for _, text := range texts {
		header, fields, _ := strings.Cut(text, ": ")
		words := append(strings.Fields(header), "")
		raw, err := json.Marshal(sample.YAML(t, fields))
		require.NoError(t, err)
		out = append(out, metav1.ManagedFieldsEntry{
			Manager: words[0], Operation: metav1.ManagedFieldsOperationType(words[1]), APIVersion: words[2], Subresource: words[3],
			Time: writtenAt.DeepCopy(), FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(raw)),
		})
	}
	return out
}

// describeEntries writes entries with a line for each path.
func describeEntries(t *testing.T, entries []metav1.ManagedFieldsEntry) []string {
	t.Helper()
	var out []string
	for _, e := range entries {
		require.Equal(t, "FieldsV1", e.FieldsType)
		out = append(out, strings.Join([]string{e.Manager, string(e.Operation), e.APIVersion, e.Subresource, fieldSet(t, e).String()}, "\n"))
	}
	return out
}

func fieldSet(t *testing.T, entry metav1.ManagedFieldsEntry) *fieldpath.Set {
	t.Helper()
	set := fieldpath.NewSet()
	require.NoError(t, set.FromJSON(entry.FieldsV1.GetRawReader()))
	return set
}

func sameWriter(a, b metav1.ManagedFieldsEntry) bool {
	return a.Manager == b.Manager && a.Operation == b.Operation && a.APIVersion == b.APIVersion && a.Subresource == b.Subresource
}

// An item that changed its key is another item, though the list looks alike.
func TestLacksItemUnderAnotherKey(t *testing.T) {
	live := sample.YAML(t, `{mounts: [{name: data, mountPath: /a}, {name: data, mountPath: /b}]}`)
	require.True(t, Lacks(sample.YAML(t, `{mounts: [{name: data, mountPath: /a}, {name: data, mountPath: /c}]}`), live))
	require.False(t, Lacks(sample.YAML(t, `{mounts: [{name: data, mountPath: /a}, {name: data, mountPath: /b}], more: x}`), live))
}

// managedSchema nests in itself through every kind of field.
const managedSchema = `
types:
- name: node
  map:
    fields:
    - {name: name, type: {scalar: string}}
    - {name: port, type: {scalar: numeric}}
    - {name: protocol, type: {scalar: string}}
    - {name: value, type: {scalar: untyped}}
    - {name: child, type: {namedType: node}}
    - {name: labels, type: {map: {elementType: {scalar: string}}}}
    - {name: env, type: {list: {elementRelationship: associative, keys: [name], elementType: {namedType: node}}}}
    - {name: ports, type: {list: {elementRelationship: associative, keys: [port, protocol], elementType: {namedType: node}}}}
    - {name: tags, type: {list: {elementRelationship: associative, elementType: {scalar: untyped}}}}
    - {name: args, type: {list: {elementRelationship: atomic, elementType: {scalar: string}}}}
`

// managedNode draws an object of managedSchema. Names are few, so that objects
// drawn apart from each other meet.
func managedNode(s *sample.ByteSource, depth int) map[string]any {
	names := []any{"a", "b", "c"}
	out := map[string]any{}
	if s.Below(2) == 0 {
		out["value"] = []any{int64(1), 1.5, "x", true}[s.Below(4)]
	}
	if s.Below(3) == 0 {
		out["args"] = []any{"a", "b"}[:1+s.Below(2)]
	}
	if s.Below(3) == 0 {
		labels := map[string]any{}
		for range s.Below(3) {
			labels[names[s.Below(3)].(string)] = "x"
		}
		out["labels"] = labels
	}
	if s.Below(3) == 0 {
		out["tags"] = distinct(s, []any{"a", "1", int64(1), 2.5, true})
	}
	if depth == 0 {
		return out
	}
	if s.Below(3) == 0 {
		out["child"] = managedNode(s, depth-1)
	}
	if s.Below(2) == 0 {
		out["env"] = distinct(s, names)
		for i, name := range out["env"].([]any) {
			item := managedNode(s, depth-1)
			item["name"] = name
			out["env"].([]any)[i] = item
		}
	}
	if s.Below(3) == 0 {
		list := distinct(s, []any{"TCP", "UDP", "SCTP"})
		for i, protocol := range list {
			item := managedNode(s, depth-1)
			item["port"], item["protocol"] = int64(80+s.Below(2)), protocol
			list[i] = item
		}
		out["ports"] = list
	}
	return out
}

// distinct draws at least one of the values, turned round somewhere: the field
// set of structured-merge-diff doesn't tell an empty list from none.
func distinct(s *sample.ByteSource, values []any) []any {
	out := []any{}
	first := s.Below(len(values))
	for i := range values {
		if i == 0 || s.Below(2) == 0 {
			out = append(out, values[(first+i)%len(values)])
		}
	}
	return out
}

// managedEntries draws entries that own some of the paths of objects, and some
// of the paths on the way to them.
func managedEntries(s *sample.ByteSource, t *testing.T, sets ...*fieldpath.Set) []metav1.ManagedFieldsEntry {
	t.Helper()
	var out []metav1.ManagedFieldsEntry
	for _, header := range []string{
		"us Update v1", "us Update v2", "before-first-apply Update v1", "us Apply v3", "us Update v1 status", "other Update v1", "other Apply v1",
	} {
		if s.Below(3) == 0 {
			continue
		}
		owned := fieldpath.NewSet()
		for _, set := range sets {
			set.Iterate(func(path fieldpath.Path) {
				if s.Below(3) == 0 {
					return
				}
				owned.Insert(path)
				owned.Insert(path[:s.Below(len(path)+1)]) // of length 0: not inserted
				if s.Below(16) == 0 {
					owned.Insert(append(path.Copy(), fieldpath.IndexElement(s.Below(2))))
				}
			})
		}
		entry, err := withOwnedFields(entries(t, []string{header + ": {}"})[0], owned)
		require.NoError(t, err)
		out = append(out, entry)
	}
	return out
}

// FuzzTakeEntries compares TakeEntries with what structured-merge-diff itself
// finds in live and merged by a schema, which TakeEntries doesn't know.
func FuzzTakeEntries(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // draws test data
	for range 200 {
		data := make([]byte, 600)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		f.Add(data)
	}
	parser, err := typed.NewParser(managedSchema)
	require.NoError(f, err)
	fields := func(t *testing.T, object map[string]any) *fieldpath.Set {
		t.Helper()
		value, err := parser.Type("node").FromUnstructured(object)
		require.NoError(t, err)
		set, err := value.ToFieldSet()
		require.NoError(t, err)
		return set
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &sample.ByteSource{Data: data}
		live, merged := managedNode(s, 2), managedNode(s, 2)
		inLive, inMerged := fields(t, live), fields(t, merged)
		before := managedEntries(s, t, inLive, inMerged, fields(t, managedNode(s, 2)))
		got, err := TakeEntries(before, "us", inVersion1(live), inVersion1(merged), metav1.Time{})
		require.NoError(t, err)

		want, moved, applied := map[string]*fieldpath.Set{}, 0, "us Apply v1"
		if slices.ContainsFunc(before, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == "us" && e.Operation == "Apply" }) {
			applied = "us Apply v3"
		}
		owns := func(entry metav1.ManagedFieldsEntry, header string, path fieldpath.Path) {
			if header == "" {
				header = strings.TrimSpace(strings.Join([]string{entry.Manager, string(entry.Operation), entry.APIVersion, entry.Subresource}, " "))
			}
			if want[header] == nil {
				want[header] = fieldpath.NewSet()
			}
			want[header].Insert(path.Copy())
		}
		for _, entry := range before {
			ours := entry.Operation == "Update" && entry.Subresource == "" && entry.Manager != "other"
			fieldSet(t, entry).Iterate(func(path fieldpath.Path) {
				if ours && goesAway(path, inLive, inMerged) {
					owns(entry, applied, path)
					moved++
					return
				}
				owns(entry, "", path)
			})
		}
		if moved == 0 {
			require.Nil(t, got)
			return
		}
		has := map[string]*fieldpath.Set{}
		all, allBefore := fieldpath.NewSet(), fieldpath.NewSet()
		for _, entry := range got {
			header := strings.TrimSpace(strings.Join([]string{entry.Manager, string(entry.Operation), entry.APIVersion, entry.Subresource}, " "))
			require.NotContains(t, has, header)
			set := fieldSet(t, entry)
			all = all.Union(set)
			if !set.Empty() {
				has[header] = set
			}
		}
		for _, entry := range before {
			allBefore = allBefore.Union(fieldSet(t, entry))
		}
		requireSameFields(t, allBefore, all, "all that is owned")
		require.Len(t, has, len(want))
		for header, set := range want {
			require.NotNil(t, has[header], header)
			requireSameFields(t, set, has[header], header)
		}
	})
}

func requireSameFields(t *testing.T, want, have *fieldpath.Set, message string) {
	t.Helper()
	if !want.Equals(have) {
		require.Failf(t, "other fields", "%s: missing:\n%s\nnot expected:\n%s", message, want.Difference(have), have.Difference(want))
	}
}

// goesAway says whether live has, and merged lacks, a field or something that
// it is in.
func goesAway(path fieldpath.Path, live, merged *fieldpath.Set) bool {
	for n := range path {
		if hasPath(live, path[:n+1]) && !hasPath(merged, path[:n+1]) {
			return true
		}
	}
	return false
}

// hasPath says whether something is at a path of an object with these fields.
func hasPath(fields *fieldpath.Set, path fieldpath.Path) bool {
	for _, element := range path[:len(path)-1] {
		fields = fields.WithPrefix(element)
	}
	last := path[len(path)-1]
	return fields.Members.Has(last) || !fields.WithPrefix(last).Empty()
}
