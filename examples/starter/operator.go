package main

import (
	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// operator says which type the operator serves, and which children it may make. Its
// rights follow from it: see `make manifests`.
var operator = config.Operator{
	Name:   "sites",
	Parent: resource.Type{APIVersion: "example.com/v1", Kind: "Site"},
	Children: []config.Child{
		{Type: k8s.Deployment, Strategy: config.Replace},
		{Type: k8s.Service, Strategy: config.Replace},
	},
	ReadyCondition: true,
	// The API server knows this; `make manifests` doesn't ask one.
	Mappings: []resource.Mapping{{Type: resource.Type{APIVersion: "example.com/v1", Kind: "Site"}, Plural: "sites"}},
}

var sites = handler.SyncFunc(sync)
