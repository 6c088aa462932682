// Command catset is an operator: a CatSet is a StatefulSet, made of Pods, claims and a Service by
// one function.
package main

import (
	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
)

var parent = resource.Type{APIVersion: "example.roperator.com/v1alpha1", Kind: "CatSet"}

var operator = config.Operator{
	Name:   "catset",
	Parent: parent,
	Children: []config.Child{
		{Type: k8s.Service, Strategy: config.Replace},
		// A claim outlives its cat and its CatSet, and a later CatSet of that name has it again.
		{Type: k8s.PersistentVolumeClaim, Strategy: config.OnDelete, Retain: true, Adopt: true},
		// Little of a Pod can be changed, so another one takes its place, one at a time.
		{Type: k8s.Pod, Strategy: config.Recreate, Roll: &config.Roll{MaxUnavailable: "1"}},
	},
	ReadyCondition: true,
}

var catSets = handler.Typed(nil, handler.TypedFuncs[*CatSet]{SyncFunc: syncCats, FinalizeFunc: finalize})

func main() { runner.Main(operator, catSets) }
