package merge

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/roperator/roperator/internal/testing/sample"
)

func TestOwnershipApplied(t *testing.T) {
	for name, test := range map[string]struct {
		reason  string
		desired string
		left    []string // the paths of fields that are left to others
		before  []string
		after   []string
	}{
		"desired": {
			reason: "what is desired becomes ours by apply; a default stays that of our update", desired: `{spec: {a: 1}}`,
			before: []string{`us Update v1: {f:spec: {f:a: {}, f:b: {}}}`},
			after:  []string{`us Update v1: {f:spec: {f:b: {}}}`, `us Apply v1: {f:spec: {f:a: {}}}`},
		},
		"all": {
			reason: "an entry without fields goes", desired: `{spec: {a: 1}}`,
			before: []string{`us Update v1: {f:spec: {.: {}, f:a: {}}}`},
			after:  []string{`us Apply v1: {f:spec: {.: {}, f:a: {}}}`},
		},
		"no longer desired": {
			reason: "the API server may make it anew as it was, and then it isn't somebody else's", desired: `{spec: {a: 1}}`,
			before: []string{`us Apply v1: {f:spec: {f:a: {}, f:replicas: {}}}`},
			after:  []string{`us Apply v1: {f:spec: {f:a: {}}}`, `us Update v1: {f:spec: {f:replicas: {}}}`},
		},
		"no longer desired, and updated": {
			reason: "an Update entry gets it, with what it has", desired: `{spec: {a: 1}}`,
			before: []string{`us Update v2: {f:spec: {f:b: {}}}`, `us Apply v1: {f:spec: {f:a: {}, f:replicas: {}}}`},
			after:  []string{`us Update v2: {f:spec: {f:b: {}, f:replicas: {}}}`, `us Apply v1: {f:spec: {f:a: {}}}`},
		},
		"no longer desired, and another's": {
			reason: "the other one may remove it, as long as nobody else owns it", desired: `{spec: {a: 1}}`,
			before: []string{`us Apply v1: {f:spec: {f:a: {}, f:replicas: {}}}`, `other Apply v1: {f:spec: {f:replicas: {}}}`},
			after:  []string{`us Apply v1: {f:spec: {f:a: {}}}`, `other Apply v1: {f:spec: {f:replicas: {}}}`},
		},
		"left": {
			reason: "the next apply mustn't remove what is left to others now", desired: `{spec: {a: 1}}`, left: []string{"spec.replicas"},
			before: []string{`us Apply v1: {f:spec: {f:a: {}, f:replicas: {}}}`, `us Update v1: {f:spec: {f:b: {}, f:replicas: {}}}`},
			after:  []string{`us Apply v1: {f:spec: {f:a: {}}}`, `us Update v1: {f:spec: {f:b: {}}}`},
		},
		"nothing left": {
			reason: "an Apply entry without fields goes, too", desired: `{}`, left: []string{"spec"},
			before: []string{`us Apply v1: {f:spec: {f:a: {}}}`, `other Update v1: {f:b: {}}`},
			after:  []string{`other Update v1: {f:b: {}}`},
		},
		"nothing ours": {
			reason: "an object that we never wrote", desired: `{spec: {a: 1}}`,
			before: []string{`other Update v1: {f:spec: {f:a: {}}}`},
			after:  []string{`other Update v1: {f:spec: {f:a: {}}}`},
		},
		"null": {
			reason: "null is as good as nothing", desired: `{a: 1, b: null}`,
			before: []string{`us Update v1: {f:a: {}, f:b: {}}`},
			after:  []string{`us Update v1: {f:b: {}}`, `us Apply v1: {f:a: {}}`},
		},
		"items": {
			reason: "items are found by all of their keys, elements of a set by their value", desired: `{ports: [{port: 80, protocol: UDP}], finalizers: [b]}`,
			before: []string{`us Update v1: {f:finalizers: {'v:"a"': {}, 'v:"b"': {}}, f:ports: {'k:{"port":80,"protocol":"TCP"}': {.: {}, f:port: {}},
				'k:{"port":80,"protocol":"UDP"}': {.: {}, f:port: {}, f:nodePort: {}}}}`},
			after: []string{
				`us Update v1: {f:finalizers: {'v:"a"': {}}, f:ports: {'k:{"port":80,"protocol":"TCP"}': {.: {}, f:port: {}}, 'k:{"port":80,"protocol":"UDP"}': {f:nodePort: {}}}}`,
				`us Apply v1: {f:finalizers: {'v:"b"': {}}, f:ports: {'k:{"port":80,"protocol":"UDP"}': {.: {}, f:port: {}}}}`,
			},
		},
		"another version": {
			reason: "of two Apply entries the API server would drop one, and with it what we applied", desired: `{a: 1, b: 2}`,
			before: []string{`us Apply v1: {f:b: {}}`, `us Update v2: {f:a: {}}`},
			after:  []string{`us Apply v1: {f:a: {}, f:b: {}}`},
		},
		"others": {
			reason: "other managers and subresources keep what they have", desired: `{a: 1}`,
			before: []string{`other Update v1: {f:a: {}}`, `us Update v1 status: {f:a: {}}`, `other Apply v1: {f:a: {}}`, `us Apply v1 status: {f:a: {}}`, `us Update v1: {f:a: {}}`},
			after:  []string{`other Update v1: {f:a: {}}`, `us Update v1 status: {f:a: {}}`, `other Apply v1: {f:a: {}}`, `us Apply v1 status: {f:a: {}}`, `us Apply v1: {f:a: {}}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before, given := entries(t, test.before), entries(t, test.before)
			now := metav1.NewTime(writtenAt.Add(time.Hour))
			owned, err := ReadOwnership(given, "us")
			require.NoError(t, err)
			got, err := owned.Applied(map[string]any{"apiVersion": "v1"}, sample.YAML(t, test.desired), pathsOf(t, test.left...), now)
			require.NoError(t, err)
			require.Equal(t, before, given, "the given entries were changed")
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

func TestOwnershipKeepShared(t *testing.T) {
	for name, test := range map[string]struct {
		reason             string
		live, merged, want string
		entries            []string
	}{
		"field": {
			reason: "another one applies it, too", live: `{data: {a: x, b: y, c: z}}`, merged: `{data: {c: z}}`, want: `{data: {b: y, c: z}}`,
			entries: []string{`us Update v1: {f:data: {f:a: {}, f:b: {}, f:c: {}}}`, `other Apply v1: {f:data: {f:b: {}}}`},
		},
		"all of it": {
			reason: "the object around it comes back", live: `{data: {a: x, b: y}}`, merged: `{}`, want: `{data: {b: y}}`,
			entries: []string{`us Apply v1: {f:data: {.: {}, f:a: {}, f:b: {}}}`, `other Apply v1: {f:data: {f:b: {}}}`},
		},
		"item": {
			reason: "of an item that goes, what the other applies stays", live: `{env: [{name: a, value: x, more: y}, {name: b}]}`, merged: `{env: [{name: b}]}`,
			want: `{env: [{name: b}, {name: a, value: x}]}`,
			entries: []string{`us Update v1: {f:env: {'k:{"name":"a"}': {.: {}, f:name: {}, f:value: {}, f:more: {}}, 'k:{"name":"b"}': {.: {}, f:name: {}}}}`,
				`other Apply v1: {f:env: {'k:{"name":"a"}': {.: {}, f:name: {}, f:value: {}}}}`},
		},
		"element": {
			reason: "so it is with the elements of a set, and in an item that stays", live: `{tags: [a, b], env: [{name: a, value: x}]}`, merged: `{tags: [], env: [{name: a}]}`,
			want: `{tags: [b], env: [{name: a, value: x}]}`,
			entries: []string{`us Update v1: {f:tags: {'v:"a"': {}, 'v:"b"': {}}, f:env: {'k:{"name":"a"}': {.: {}, f:name: {}, f:value: {}}}}`,
				`other Apply v1: {f:tags: {'v:"b"': {}}, f:env: {'k:{"name":"a"}': {.: {}, f:name: {}, f:value: {}}}}`},
		},
		"only theirs": {
			reason: "what we never set goes for another reason: it contradicts what we want", live: `{strategy: {rolling: 1}}`, merged: `{strategy: {type: x}}`, want: `{strategy: {type: x}}`,
			entries: []string{`us Update v1: {f:strategy: {f:type: {}}}`, `other Apply v1: {f:strategy: {f:rolling: {}}}`},
		},
		"update": {
			reason: "an update takes what it changes, and claims nothing", live: `{a: 1}`, merged: `{}`, want: `{}`,
			entries: []string{`us Update v1: {f:a: {}}`, `other Update v1: {f:a: {}}`, `other Apply v1 status: {f:a: {}}`, `us Apply v1: {f:a: {}}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			owned, err := ReadOwnership(entries(t, test.entries), "us")
			require.NoError(t, err)
			live, merged := sample.YAML(t, test.live), sample.YAML(t, test.merged)
			require.Equal(t, sample.YAML(t, test.want), owned.KeepShared(live, merged), test.reason)
			require.Equal(t, sample.YAML(t, test.live), live, "inputs aren't modified")
			require.Equal(t, sample.YAML(t, test.merged), merged, "inputs aren't modified")
		})
	}
}

func TestReadOwnershipOfMalformedFields(t *testing.T) {
	const a = `{"f:a":{}}`
	for name, test := range map[string]struct {
		reason string
		fields string
		err    string
	}{
		"empty":            {"no JSON at all", ``, "Update of v1 by us: "},
		"cut off":          {"JSON that ends too early", `{"f:a":{}`, "Update of v1 by us: "},
		"more":             {"something after the JSON", a + a, "Update of v1 by us: "},
		"list":             {"not an object", `["f:a"]`, "Update of v1 by us: "},
		"leaf":             {"a leaf that isn't an object", `{"f:a":true}`, "Update of v1 by us: "},
		"no type":          {"a path element without a type", `{"a":{}}`, "Update of v1 by us: "},
		"key":              {"a key that isn't JSON", `{"f:a":{"k:x":{}}}`, "Update of v1 by us: "},
		"index":            {"an index that isn't a number", `{"f:a":{"i:x":{}}}`, "Update of v1 by us: "},
		"unknown type":     {"an element of an unknown type names nothing", `{"x:a":{},"f:b":{}}`, ""},
		"nothing is owned": {"null owns nothing", `null`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadOwnership([]metav1.ManagedFieldsEntry{
				{Manager: "us", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v2"}, // without fields
				{Manager: "us", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsV1: metav1.NewFieldsV1(test.fields)},
			}, "us")
			if test.err == "" {
				require.NoError(t, err, test.reason)
				return
			}
			require.ErrorContains(t, err, test.err, test.reason)
		})
	}
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
