package merge

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/internal/testing/sample"
)

func TestTakeEntries(t *testing.T) {
	for name, test := range map[string]struct {
		reason       string
		live, merged string
		applied      string // what is ours by apply already
		updated      string
		goes, stays  string
	}{
		"field": {
			"what is to go is taken", `{spec: {a: 1, b: 2}}`, `{spec: {b: 3}}`, ``,
			`{f:spec: {.: {}, f:a: {}, f:b: {}}}`, `{f:spec: {f:a: {}}}`, `{f:spec: {.: {}, f:b: {}}}`,
		},
		"nothing": {
			"there may be nothing to take", `{spec: {a: 1, b: 2}}`, `{spec: {b: 3}}`, `{f:spec: {f:a: {}}}`, `{f:spec: {f:b: {}}}`, ``, ``,
		},
		"all": {
			"an empty entry goes", `{data: {a: b}}`, `{}`, `{f:data: {f:b: {}}}`, `{f:data: {.: {}, f:a: {}}}`, `{f:data: {.: {}, f:a: {}, f:b: {}}}`, ``,
		},
		"gone": {
			"what isn't there can't go", `{data: {b: b}}`, `{data: {}}`, ``, `{f:data: {f:a: {}, f:b: {}}}`, `{f:data: {f:b: {}}}`, `{f:data: {f:a: {}}}`,
		},
		"item": {
			"an item with its defaults, and a field of one", `{ports: [{port: 80, protocol: TCP, targetPort: 80}, {port: 80, protocol: UDP, name: a, targetPort: 1}]}`,
			`{ports: [{port: 80, protocol: UDP, targetPort: 1}]}`, ``,
			`{f:ports: {.: {}, 'k:{"port":80,"protocol":"TCP"}': {.: {}, f:port: {}, f:targetPort: {}}, 'k:{"port":80,"protocol":"UDP"}': {.: {}, f:name: {}, f:targetPort: {}}}}`,
			`{f:ports: {'k:{"port":80,"protocol":"TCP"}': {.: {}, f:port: {}, f:targetPort: {}}, 'k:{"port":80,"protocol":"UDP"}': {f:name: {}}}}`,
			`{f:ports: {.: {}, 'k:{"port":80,"protocol":"UDP"}': {.: {}, f:targetPort: {}}}}`,
		},
		"set": {
			"elements of sets", `{finalizers: [a, b]}`, `{finalizers: [b]}`, ``,
			`{f:finalizers: {.: {}, 'v:"a"': {}, 'v:"b"': {}}}`, `{f:finalizers: {'v:"a"': {}}}`, `{f:finalizers: {.: {}, 'v:"b"': {}}}`,
		},
		"atomic": {
			"a list with one owner", `{rules: [{a: b}], args: [a, b]}`, `{args: [a]}`, ``, `{f:rules: {}, f:args: {}}`, `{f:rules: {}}`, `{f:args: {}}`,
		},
		"null": {
			"null is as good as nothing", `{a: 1, b: null}`, `{a: null}`, ``, `{f:a: {}, f:b: {}}`, `{f:a: {}}`, `{f:b: {}}`,
		},
		"unreadable": {
			"what has no meaning yet stays", `{a: [1]}`, `{}`, ``, `{f:b: {'i:0': {}, 'k:x': {}}}`, ``, ``,
		},
	} {
		t.Run(name, func(t *testing.T) {
			entries := []metav1.ManagedFieldsEntry{
				entry(t, "other", metav1.ManagedFieldsOperationUpdate, "", test.updated),
				entry(t, "us", metav1.ManagedFieldsOperationUpdate, "status", test.updated),
				entry(t, "us", metav1.ManagedFieldsOperationUpdate, "", test.updated),
			}
			want := entries[:2:2]
			if test.applied != "" {
				entries = append(entries, entry(t, "us", metav1.ManagedFieldsOperationApply, "", test.applied))
			}
			got, err := TakeEntries(entries, "us", sample.YAML(t, test.live), sample.YAML(t, test.merged))
			require.NoError(t, err)
			require.Equal(t, test.goes != "", Lacks(sample.YAML(t, test.merged), sample.YAML(t, test.live)) && got != nil, test.reason)
			if test.goes == "" {
				require.Nil(t, got, test.reason)
				return
			}
			if test.stays != "" {
				want = append(want, entry(t, "us", metav1.ManagedFieldsOperationUpdate, "", test.stays))
			}
			want = append(want, entry(t, "us", metav1.ManagedFieldsOperationApply, "", test.goes))
			require.Len(t, got, len(want), test.reason)
			for i := range want {
				require.Equal(t, want[i].Operation, got[i].Operation, test.reason)
				require.JSONEq(t, want[i].FieldsV1.GetRawString(), got[i].FieldsV1.GetRawString(), test.reason)
			}
		})
	}
}

func entry(t *testing.T, manager string, operation metav1.ManagedFieldsOperationType, subresource, fields string) metav1.ManagedFieldsEntry {
	t.Helper()
	raw, err := json.Marshal(sample.YAML(t, fields))
	require.NoError(t, err)
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: operation, Subresource: subresource, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(raw)),
	}
}

// An item that changed its key is another item, though the list looks alike.
func TestLacksItemUnderAnotherKey(t *testing.T) {
	live := sample.YAML(t, `{mounts: [{name: data, mountPath: /a}, {name: data, mountPath: /b}]}`)
	require.True(t, Lacks(sample.YAML(t, `{mounts: [{name: data, mountPath: /a}, {name: data, mountPath: /c}]}`), live))
	require.False(t, Lacks(sample.YAML(t, `{mounts: [{name: data, mountPath: /a}, {name: data, mountPath: /b}], more: x}`), live))
}
