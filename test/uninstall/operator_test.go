package uninstall

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/budget"
	"github.com/roperator/roperator/internal/testing/operatorproc"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

var cluster *testkit.Cluster

func TestMain(m *testing.M) {
	if name := os.Getenv(operatorproc.Variable); name != "" {
		beOperator(name)
	}
	if err := budget.WaitTogether(8); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testkit.Main(m, testkit.ClusterOptions{CRDPaths: []string{"../conformance/testdata/crds.yaml", "testdata"}, ControllerManager: true}, &cluster)
}

func parentType() resource.Type {
	return resource.Type{APIVersion: "conformance.roperator.com/v1", Kind: "Parent"}
}

// beOperator is the main function of an operator's process. A parent has a ConfigMap, and is
// finalized unless it has the annotation "held". In the program "retains" the ConfigMaps outlive their parents. The
// program "both" has a second operator, whose children are the first one's parents.
func beOperator(name string) {
	first := runner.Spec{
		Config: config.Operator{Name: "leaver", Parent: parentType(), Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace, Retain: name == "retains"}}},
		Handler: handler.Funcs{
			SyncFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
				return &handler.SyncResponse{Children: []any{object("v1", "ConfigMap", req.Parent.Name())}}, nil
			},
			FinalizeFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
				_, held := req.Parent.Annotation("held")
				return &handler.FinalizeResponse{Finalized: !held, Retry: time.Second}, nil
			},
		},
	}
	program := runner.Program{Name: "leaver", Operators: []runner.Spec{first}}
	if name == "both" {
		program.Operators = append(program.Operators, runner.Spec{
			Config: config.Operator{
				Name: "above", Parent: resource.Type{APIVersion: "uninstall.roperator.com/v1", Kind: "Above"},
				Children: []config.Child{{Type: parentType(), Strategy: config.Replace}},
			},
			Handler: handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
				return &handler.SyncResponse{Children: []any{object(parentType().APIVersion, parentType().Kind, "made")}}, nil
			}),
		})
	}
	program.Main()
}

func object(apiVersion, kind, name string) map[string]any {
	return map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}}
}
