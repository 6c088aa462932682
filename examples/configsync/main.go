// Command configsync is an operator: for every ConfigSync it copies a ConfigMap
// into the namespaces that a label selector matches, and keeps the copies as
// that ConfigMap is.
package main

import (
	"context"
	"time"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
)

var parent = resource.Type{APIVersion: "example.roperator.com/v1alpha1", Kind: "ConfigSync"}

var operator = config.Operator{
	Name:     "configsync",
	Parent:   parent,
	Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}},
	// What a ConfigSync refers to and doesn't own. ConfigMap is a type of
	// children too: the copies are children, their source isn't.
	Related: []config.Related{
		{Type: k8s.Namespace},
		{Type: k8s.ConfigMap, AnyNamespace: true},
	},
	// The API server knows this; the command manifests doesn't ask one.
	Mappings: []resource.Mapping{{Type: parent, Plural: "configsyncs", ClusterScoped: true}},
	// A copy whose name is taken is tried again and again. Nothing tells the
	// operator when the name is free, so no two tries are far apart.
	MaxErrorBackoff: time.Minute,
}

var configSyncs = handler.Funcs{SyncFunc: sync, ErrorFunc: explain, RelateFunc: relate}

func main() { runner.Main(operator, configSyncs) }

// relate says what a ConfigSync refers to: its source by a name, and Namespaces
// by a selector. With an invalid selector it refers to no Namespace. That is no
// error here: only an error of sync can be told in the status.
func relate(parent *resource.Resource) ([]handler.Ref, error) {
	c, err := resource.As[ConfigSync](parent)
	if err != nil {
		return nil, handler.Permanent(err)
	}
	refs := []handler.Ref{{Type: k8s.ConfigMap, Namespace: c.Spec.Source.Namespace, Name: c.Spec.Source.Name}}
	if selector, err := c.selector(); err == nil {
		refs = append(refs, handler.Ref{Type: k8s.Namespace, Selector: selector.String()})
	}
	return refs, nil
}

// sync says which copies there shall be, and how many there are.
func sync(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	c, err := handler.ParentAs[ConfigSync](req)
	if err == nil {
		err = c.validate(req.Children)
	}
	if err != nil {
		return nil, handler.Permanent(err) // until somebody edits it
	}
	source, err := c.source(req.Related)
	if err != nil {
		return nil, err
	}
	copies, status := c.copies(req, source)
	status.Message = c.message(req, source)
	return &handler.SyncResponse{Status: status, Children: copies}, nil
}

// explain says what goes into the status with an error of sync. The copies stay
// as they are.
func explain(_ context.Context, _ *handler.SyncRequest, err error) (any, time.Duration) {
	return map[string]any{"message": err.Error()}, 0
}
