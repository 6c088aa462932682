package rig

import (
	"context"

	"github.com/roperator/roperator/handler"
)

// Copier is a handler's Sync. It gives each parent one ConfigMap, which has the
// parent's name and spec.value. The status has the value too, and how many
// children the parent has.
func Copier(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	value, _ := req.Parent.Field("spec", "value")
	status := map[string]any{"value": value, "children": req.Children.Len()}
	return &handler.SyncResponse{Status: status, Children: []any{Copied(req.Parent.Name(), value)}}, nil
}

// Copied returns the ConfigMap that Copier wants for a parent with this name and
// value.
func Copied(name string, value any) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name}, "data": map[string]any{"value": value},
	}
}
