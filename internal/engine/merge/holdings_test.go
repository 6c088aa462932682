package merge

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/resource/k8s"
)

// TestHolds: managedFields tell of a difference whether the field is still ours.
func TestHolds(t *testing.T) {
	const deployment = `{"f:metadata":{"f:annotations":{".":{},"f:example.com/a":{}},"f:labels":{".":{},"f:app":{}},"f:finalizers":{".":{},"v:\"a/b\"":{}}},
		"f:spec":{"f:replicas":{},"f:selector":{},"f:strategy":{"f:rollingUpdate":{".":{},"f:maxSurge":{}},"f:type":{}},"f:template":{"f:spec":{"f:containers":{
			"k:{\"name\":\"app\"}":{".":{},"f:args":{},"f:image":{},"f:name":{},"f:env":{".":{},"k:{\"name\":\"A\"}":{".":{},"f:name":{}}},
				"f:ports":{".":{},"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:name":{}}}}},
			"f:tolerations":{},"f:volumes":{".":{},"k:{\"name\":\"a\"}":{".":{},"f:emptyDir":{},"f:name":{}}}}}}}`
	const template = "spec.template.spec."
	for name, tc := range map[string]struct {
		reason  string
		schema  *listkeys.Node
		entries []string
		d       Difference
		want    bool
	}{
		"scalar":              {reason: "its path is in the entry", d: Difference{Path: "spec.replicas", Live: int64(2), Desired: int64(1)}, want: true},
		"of others":           {reason: "its path isn't", d: Difference{Path: "spec.minReadySeconds", Live: int64(2), Desired: int64(1)}},
		"label":               {reason: "a key of a map", d: Difference{Path: "metadata.labels.app", Live: "a", Desired: "b"}, want: true},
		"label of others":     {reason: "another key of it", d: Difference{Path: "metadata.labels.tier", Live: "a", Desired: "b"}},
		"removed annotation":  {reason: "the map is ours, the key was removed", d: Difference{Path: `metadata.annotations["example.com/b"]`, Desired: "b"}},
		"in a keyed item":     {reason: "items are found by their keys", d: Difference{Path: template + `containers[name="app"].image`, Live: "a", Desired: "b"}, want: true},
		"in another item":     {reason: "somebody else's, or renamed", d: Difference{Path: template + `containers[name="b"].image`, Live: "a", Desired: "b"}},
		"by a default key":    {reason: "the path names keys that are defaults", d: Difference{Path: template + `containers[name="app"].ports[containerPort=80,protocol="TCP"].name`, Live: "a", Desired: "b"}, want: true},
		"by another key":      {reason: "another protocol", d: Difference{Path: template + `containers[name="app"].ports[containerPort=80,protocol="UDP"].name`, Live: "a", Desired: "b"}},
		"atomic list":         {reason: "args have one owner", d: Difference{Path: template + `containers[name="app"].args`, Live: []any{"a"}, Desired: []any{"b", "c"}}, want: true},
		"in an atomic list":   {reason: "so have its items", d: Difference{Path: template + `tolerations[0].operator`, Live: "Equal", Desired: "Exists"}, want: true},
		"absent there":        {reason: "and what they lack", d: Difference{Path: template + `tolerations[0].operator`, Desired: "Exists"}, want: true},
		"in an atomic struct": {reason: "a selector has one owner", d: Difference{Path: `spec.selector.matchLabels.app`, Live: "a", Desired: "b"}, want: true},
		"below a leaf":        {reason: "an emptyDir isn't atomic: its size was removed", d: Difference{Path: template + `volumes[name="a"].emptyDir.sizeLimit`, Desired: "1Gi"}},
		"never stored":        {reason: "the server drops an empty value, or somebody has removed it", d: Difference{Path: template + `containers[name="app"].env[name="A"].value`, Desired: ""}},
		"order":               {reason: "managedFields know no order", d: Difference{Path: template + `containers[name="app"].env`, Live: []any{map[string]any{"name": "A"}}, Desired: []any{map[string]any{"name": "A"}}}},
		"emptied":             {reason: "all items came at our request", d: Difference{Path: template + `containers[name="app"].env`, Live: []any{map[string]any{"name": "A"}}, Desired: []any{}}, want: true},
		"emptied, others":     {reason: "one is somebody else's", d: Difference{Path: template + `containers[name="app"].env`, Live: []any{map[string]any{"name": "A"}, map[string]any{"name": "B"}}, Desired: []any{}}},
		"emptied ports":       {reason: "keys that are defaults", d: Difference{Path: template + `containers[name="app"].ports`, Live: []any{map[string]any{"containerPort": int64(80)}}, Desired: []any{}}, want: true},
		"emptied set":         {reason: "elements of a set", d: Difference{Path: "metadata.finalizers", Live: []any{"a/b"}, Desired: []any{}}, want: true},
		"a set":               {reason: "an element is missing", d: Difference{Path: "metadata.finalizers", Live: []any{"a/b"}, Desired: []any{"c/d"}}},
		"a set without ours":  {reason: "that there is a list is all that is left of it", entries: []string{`{"f:metadata":{"f:finalizers":{".":{}}}}`}, d: Difference{Path: "metadata.finalizers", Live: []any{"a/b"}, Desired: []any{"c/d"}}},
		"by index":            {reason: "one of two with the same key", d: Difference{Path: template + `containers[1].image`, Live: "a", Desired: "b"}},
		"malformed path":      {reason: "nothing is known", d: Difference{Path: "spec..replicas", Live: "a", Desired: "b"}},
		"no entry":            {reason: "managedFields were dropped", entries: []string{}, d: Difference{Path: "spec.replicas", Live: int64(2), Desired: int64(1)}},
		"two entries":         {reason: "an update's and an apply's", entries: []string{`{"f:spec":{"f:a":{}}}`, `{"f:spec":{"f:b":{}}}`}, d: Difference{Path: "spec.b", Live: "a", Desired: "b"}, want: true},
		"no schema, in a list": {
			reason: "lists without schema have one owner", schema: &listkeys.Node{}, entries: []string{`{"f:spec":{"f:l":{}}}`}, d: Difference{Path: `spec.l[name="a"].v`, Live: "a", Desired: "b"}, want: true,
		},
		"no schema, absent": {
			reason: "the list may have keys that aren't known", schema: &listkeys.Node{}, entries: []string{`{"f:spec":{"f:l":{}}}`}, d: Difference{Path: `spec.l[name="a"]`, Desired: "b"},
		},
		"no schema, in a map": {
			reason: "objects without schema are owned key by key", schema: &listkeys.Node{}, entries: []string{`{"f:spec":{"f:m":{}}}`}, d: Difference{Path: `spec.m.a`, Live: "a", Desired: "b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			entries, schema := tc.entries, tc.schema
			if entries == nil {
				entries = []string{deployment}
			}
			if schema == nil {
				schema = listkeys.For(k8s.Deployment)
			}
			h, err := ParseHoldings(entries)
			require.NoError(t, err)
			require.Equal(t, tc.want, (&Comparison{Schema: schema}).Holds(h, tc.d), tc.reason)
		})
	}
	_, err := ParseHoldings([]string{`{`})
	require.Error(t, err)
}
