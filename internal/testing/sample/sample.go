package sample

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// TrackingLabel is the label of a child that has the parent's UID, as it is named by
// default.
const TrackingLabel = "roperator.com/parent-uid"

// ParentType returns the type of the parents in tests.
func ParentType() resource.Type {
	return resource.Type{APIVersion: "example.com/v1", Kind: "Parent"}
}

// Object returns an observed object in the namespace ns. owner is the UID of the
// object's controller, a parent, and the value of its tracking label. If owner is "",
// the object has neither a controller nor labels.
func Object(t testing.TB, typ resource.Type, name, uid string, version int, owner string) *resource.Resource {
	t.Helper()
	meta := map[string]any{"name": name, "namespace": "ns", "uid": uid, "resourceVersion": strconv.Itoa(version)}
	if owner != "" {
		meta["labels"] = map[string]any{TrackingLabel: owner, "roperator.com/operator": "op"}
		meta["ownerReferences"] = []any{map[string]any{
			"apiVersion": "example.com/v1", "kind": "Parent", "name": "p", "uid": owner, "controller": true,
		}}
	}
	res, err := resource.New(map[string]any{"apiVersion": typ.APIVersion, "kind": typ.Kind, "metadata": meta})
	require.NoError(t, err)
	return res
}

// DiscardLog returns a logger that drops everything.
func DiscardLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

// YAML returns an object that is written in YAML. Tabs count as four spaces. Invalid
// YAML fails the test.
func YAML(tb testing.TB, text string) map[string]any {
	tb.Helper()
	object := map[string]any{}
	text = strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\t", "    ")
	require.NoError(tb, yaml.Unmarshal([]byte(text), &object), text)
	return object
}

// Operator returns an operator that has a child of every strategy.
func Operator() config.Operator {
	hello := resource.Type{APIVersion: "example.com/v1", Kind: "Hello"}
	return config.Operator{
		Name: "hello", Parent: hello,
		Children: []config.Child{
			{Type: k8s.ConfigMap, Strategy: config.Replace},
			{Type: k8s.Pod, Strategy: config.Recreate},
			{Type: k8s.PersistentVolumeClaim, Strategy: config.OnDelete},
			{Type: k8s.Deployment, Strategy: config.Apply},
		},
		Mappings: []resource.Mapping{{Type: hello, Plural: "hellos"}},
	}
}
