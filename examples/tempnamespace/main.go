// Command tempnamespace is an operator: for every TempNamespace it makes a
// Namespace, and deletes that when its time is up.
package main

import (
	"context"
	"time"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/handler/failable"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
)

var parent = resource.Type{APIVersion: "example.roperator.com/v1alpha1", Kind: "TempNamespace"}

var operator = config.Operator{
	Name:     "tempnamespace",
	Parent:   parent,
	Children: []config.Child{{Type: k8s.Namespace, Strategy: config.OnDelete}},
	// The API server knows this; the command manifests doesn't ask one.
	Mappings: []resource.Mapping{{Type: parent, Plural: "tempnamespaces", ClusterScoped: true}},
}

// Time passes without a watch event, so there is a look at the clock now and
// then. It is no request.
var options = failable.Options{RegularResync: 2 * time.Second}

func main() { runner.Main(operator, failable.Wrap(tempNamespaces{}, options)) }

// tempNamespaces decides about TempNamespaces, a step at a time.
type tempNamespaces struct {
	failable.NothingToFinalize // the Namespace goes with its owner
}

// Validate says what a TempNamespace asks for.
func (tempNamespaces) Validate(_ context.Context, req *handler.SyncRequest) (term, error) {
	temp, err := handler.ParentAs[TempNamespace](req)
	if err == nil {
		err = temp.validate()
	}
	return temp.term(), handler.Permanent(err)
}

// SyncChildren returns the Namespace, and nothing once its time is up.
func (tempNamespaces) SyncChildren(_ context.Context, t term, _ *handler.SyncRequest) ([]any, error) {
	if t.isUp() {
		return nil, nil
	}
	return []any{t.namespace()}, nil
}

// DetermineStatus says how the Namespace fares, or what is wrong with the spec.
func (tempNamespaces) DetermineStatus(_ context.Context, req *handler.SyncRequest, result failable.Result[term]) any {
	if err := result.Err(); err != nil {
		return TempNamespaceStatus{Phase: string(result.Outcome()), Message: err.Error()}
	}
	t, _ := result.Validated()
	return t.status(req.Children)
}
