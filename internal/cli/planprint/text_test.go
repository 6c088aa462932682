package planprint

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

func samplePlan() []plan.Change {
	p, child := types.NamespacedName{Namespace: "ns", Name: "p"}, types.NamespacedName{Namespace: "ns", Name: "c"}
	return []plan.Change{
		{Parent: p, Object: p, Type: sample.ParentType(), Verb: "update", Fields: []plan.FieldChange{{Path: "status.ready", Live: nil, Desired: true}}},
		{Parent: p, Object: child, Type: k8s.Deployment, Verb: "update", Fields: []plan.FieldChange{
			{Path: "metadata.labels.gone", Live: "x", Desired: nil},
			{Path: "spec.replicas", Live: int64(1), Desired: int64(3)},
			{Path: "spec.text", Live: nil, Desired: "<&>"},
			{Path: `spec.template.spec.containers[name="b"]`, Live: nil, Desired: map[string]any{"name": "b", "image": "i"}},
			{Path: "spec.template.spec.tolerations", Live: []any{}, Desired: nil},
		}},
		{Parent: p, Object: child, Type: k8s.ConfigMap, Verb: "recreate", Fields: []plan.FieldChange{
			{Path: "data.conf", Live: "one\ntwo\nthree\nfour\n", Desired: "one\ntwo\n3\nIII\nfour\n"},
			{Path: "data.end", Live: "a\nb", Desired: "a\nb\n"},
			{Path: "data.places", Live: "one\ntwo\nthree\nfour\nfive\nsix\n", Desired: "1\ntwo\nthree\nfour\nfive\n5½\nsix\n"},
			{Path: "data.escape", Live: "x", Desired: "\x1b[2J"},
		}},
		{Parent: p, Object: types.NamespacedName{Name: "made"}, Type: k8s.Namespace, Verb: "create", Fields: []plan.FieldChange{
			{Path: "", Live: nil, Desired: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "made"}}},
		}},
		{Parent: types.NamespacedName{Namespace: "ns", Name: "q"}, Object: child, Type: k8s.Service, Verb: "delete"},
	}
}

// one returns the report of an operator.
func one(changes []plan.Change) Report {
	return Report{Plans: []Plan{{Operator: "op", Parent: "Parent", Changes: changes}}}
}

func TestPrintPlan(t *testing.T) {
	var b strings.Builder
	require.NoError(t, Text(&b, one(samplePlan())))
	require.Equal(t, `Parent ns/p: update
  + status.ready: true

Deployment ns/c: update (for Parent ns/p)
  - metadata.labels.gone: "x"
  - spec.replicas: 1
  + spec.replicas: 3
  + spec.text: "<&>"
  + spec.template.spec.containers[name="b"]:
  +   image: i
  +   name: b
  - spec.template.spec.tolerations: []

ConfigMap ns/c: recreate (for Parent ns/p)
    data.conf: from line 3
      two
  -   three
  +   3
  +   III
      four
    data.end: from line 3
      b
  -   (no newline at the end)
    data.places: from line 1
  -   one
  +   1
      two
    data.places: from line 6
      five
  +   5½
      six
  - data.escape: "x"
  + data.escape: "\u001b[2J"

Namespace made: create (for Parent ns/p)
  + apiVersion: v1
  + kind: Namespace
  + metadata:
  +   name: made

Service ns/c: delete (for Parent ns/q)

5 changes for 2 parents: 1 to create, 2 to update, 1 to recreate, 1 to delete.
`, b.String())
	b.Reset()
	require.NoError(t, Text(&b, one(nil)))
	require.Equal(t, "Nothing to do.\n", b.String())
}

func TestPrintPlanEscapes(t *testing.T) {
	var b strings.Builder
	key := types.NamespacedName{Namespace: "ns", Name: "c"}
	require.NoError(t, Text(&b, one([]plan.Change{{Parent: key, Object: key, Type: k8s.ConfigMap, Verb: "update", Fields: []plan.FieldChange{
		{Path: "data.text", Live: "a\n\x1b[2Jb\r\n", Desired: "ä\tc\n"},
	}}})))
	require.NotContains(t, b.String(), "\x1b", "a terminal would obey")
	require.NotContains(t, b.String(), "\r")
	require.Contains(t, b.String(), "  -   \\x1b[2Jb\\r\n")
	require.Contains(t, b.String(), "  +   ä\tc\n")
}

func TestPrintPlanJSON(t *testing.T) {
	var b strings.Builder
	require.NoError(t, JSON(&b, one(samplePlan())))
	require.True(t, strings.HasPrefix(b.String(), `[
  {
    "parent": {
      "namespace": "ns",
      "name": "p"
    },
    "object": {
      "namespace": "ns",
      "name": "p"
    },
    "type": {
      "apiVersion": "example.com/v1",
      "kind": "Parent"
    },
    "verb": "update",
    "fields": [
      {
        "path": "status.ready",
        "live": null,
        "desired": true
      }
    ]
  },
`), b.String())
	var back []plan.Change
	require.NoError(t, json.Unmarshal([]byte(b.String()), &back))
	require.Equal(t, samplePlan()[4].Object, back[4].Object)
	require.Equal(t, samplePlan()[1].Fields[0], back[1].Fields[0])
	b.Reset()
	require.NoError(t, JSON(&b, one(nil)))
	require.Equal(t, "[]\n", b.String())
}
