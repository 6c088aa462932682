// Command bluegreen is an operator: a BlueGreen is a Deployment of which a new version is rolled
// out beside the old one, and gets the traffic all at once when it is ready.
package main

import (
	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
)

var parent = resource.Type{APIVersion: "example.roperator.com/v1alpha1", Kind: "BlueGreen"}

var operator = config.Operator{
	Name:   "bluegreen",
	Parent: parent,
	Children: []config.Child{
		{Type: k8s.Deployment, Strategy: config.Replace},
		{Type: k8s.Service, Strategy: config.Replace},
	},
	ReadyCondition: true,
}

var blueGreens = handler.Typed(nil, handler.TypedFuncs[*BlueGreen]{SyncFunc: syncBlueGreen})

func main() { runner.Main(operator, blueGreens) }
