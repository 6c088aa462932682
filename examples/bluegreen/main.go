// Command bluegreen is an operator: a BlueGreen is an app whose versions take
// turns. A new one comes up beside the one that serves, and gets the traffic once
// all of its Pods are ready.
package main

import (
	"context"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
)

var operator = config.Operator{
	Name:   "bluegreen",
	Parent: resource.Type{APIVersion: "example.roperator.com/v1alpha1", Kind: "BlueGreen"},
	Children: []config.Child{
		{Type: k8s.Deployment, Strategy: config.Replace},
		{Type: k8s.Service, Strategy: config.Replace},
	},
	ReadyCondition: true,
}

var blueGreens = handler.SyncFunc(sync)

func main() { runner.Main(operator, blueGreens) }

// sync decides by what is there alone: the spec, the colour that the Service
// points to, and what each colour's Deployment runs. It remembers nothing.
func sync(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	app, err := handler.ParentAs[BlueGreen](req)
	if err != nil {
		return nil, handler.Permanent(err)
	}
	live, err := app.observe(req.Children)
	if err != nil {
		return nil, err
	}
	next := app.decide(live)

	var children []any
	for _, c := range colours() {
		if image, wanted := next.images[c]; wanted {
			children = append(children, app.deployment(c, image))
		}
	}
	// The first Service waits for a Deployment that can answer.
	service := handler.After(app.service(next.serves), app.deployment(next.serves, ""))
	return &handler.SyncResponse{Status: app.status(live), Children: append(children, service)}, nil
}
