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

const TrackingLabel = "roperator.com/parent-uid"

// ParentType is what tests of this package have as parent.
func ParentType() resource.Type {
	return resource.Type{APIVersion: "example.com/v1", Kind: "Parent"}
}

// Object returns an observed object; owner, if there is one, is the UID of
// its controller and the value of its tracking label.
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

func DiscardLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

func YAML(tb testing.TB, text string) map[string]any {
	tb.Helper()
	object := map[string]any{}
	text = strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\t", "    ")
	require.NoError(tb, yaml.Unmarshal([]byte(text), &object), text)
	return object
}

// Operator has a child of every strategy.
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
