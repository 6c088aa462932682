// Command appstack is an operator: for every AppStack it runs a database, then
// the migration of its schema, then the app, and takes them down in the reverse
// order.
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
	Name:   "appstack",
	Parent: resource.Type{APIVersion: "example.roperator.com/v1alpha1", Kind: "AppStack"},
	// Written in this order, and torn down from the last to the first.
	Children: []config.Child{
		{Type: k8s.Service, Strategy: config.Replace},
		{Type: k8s.StatefulSet, Strategy: config.Replace},
		// What a Job runs can't be changed. One whose image has been corrected is made anew.
		{Type: k8s.Job, Strategy: config.Replace, RecreateImmutable: true},
		{Type: k8s.Deployment, Strategy: config.Replace},
	},
	Teardown:       config.TeardownOrdered,
	ReadyCondition: true,
}

var appStacks = handler.SyncFunc(sync)

func main() { runner.Main(operator, appStacks) }

// sync returns all children at each call, whatever is there of them by now, and
// says which wait for which.
func sync(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	stack, err := handler.ParentAs[AppStack](req)
	if err != nil {
		return nil, handler.Permanent(err)
	}
	seen, err := stack.observe(req.Children)
	if err != nil {
		return nil, err
	}

	service, database, migration := stack.service(), stack.database(), stack.migration()
	children := []any{service, database}
	for _, job := range seen.unfinished {
		children = append(children, handler.Keep(job)) // a migration isn't stopped halfway
	}
	children = append(children,
		handler.When(handler.After(migration, service, database), len(seen.unfinished) == 0),
		handler.When(handler.After(stack.app(seen), service, migration), seen.address != ""),
	)
	return &handler.SyncResponse{Status: seen.status(), Children: children}, nil
}
