package recording

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// observed returns an object as the API server has it.
func observed(t testing.TB, kind, name string, fields map[string]any) *resource.Resource {
	t.Helper()
	version := "v1"
	if kind == "Site" {
		version = "example.com/v1"
	}
	object := map[string]any{"apiVersion": version, "kind": kind}
	metadata := map[string]any{"name": name, "namespace": "ns", "uid": "u-" + name, "resourceVersion": "1"}
	for field, value := range fields {
		if field == "annotations" {
			metadata[field] = value
			continue
		}
		object[field] = value
	}
	object["metadata"] = metadata
	res, err := resource.New(object)
	require.NoError(t, err)
	return res
}

// about returns a request about a parent of this name.
func about(t testing.TB, name string) *handler.SyncRequest {
	t.Helper()
	return &handler.SyncRequest{Parent: observed(t, "Site", name, map[string]any{"spec": map[string]any{"text": "hello"}})}
}

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

// answering is a handler that returns the same whatever it is asked.
func answering(resp *handler.SyncResponse, err error) handler.Handler {
	return handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) { return resp, err })
}

// read returns a line that was encoded.
func read(t testing.TB, text []byte) line {
	t.Helper()
	var out line
	require.NoError(t, json.Unmarshal(text, &out))
	return out
}
