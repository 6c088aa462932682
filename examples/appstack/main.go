// Command appstack is an operator: an AppStack is an app with a database, which comes up in order and
// goes in the reverse order.
package main

import (
	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
)

var parent = resource.Type{APIVersion: "example.roperator.com/v1alpha1", Kind: "AppStack"}

var operator = config.Operator{
	Name:   "appstack",
	Parent: parent,
	// In this order they are written, and in the reverse order they go.
	Children: []config.Child{
		{Type: k8s.Service, Strategy: config.Replace},
		{Type: k8s.StatefulSet, Strategy: config.Replace},
		{Type: k8s.Job, Strategy: config.Recreate},
		{Type: k8s.Deployment, Strategy: config.Replace},
	},
	Teardown:       config.TeardownOrdered,
	ReadyCondition: true,
}

var appStacks = handler.Typed(nil, handler.TypedFuncs[*AppStack]{SyncFunc: syncAppStack})

func main() { runner.Main(operator, appStacks) }
