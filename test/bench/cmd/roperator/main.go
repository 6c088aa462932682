// Command roperator is the measured operator of this library.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/test/bench/app"
	"github.com/roperator/roperator/test/bench/measure"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "roperator:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	measured, rest, err := measure.Start()
	if err != nil {
		return err
	}
	operator := config.Operator{
		Name:   "bench",
		Parent: resource.TypeFor(app.GroupVersion().WithKind("App")),
		Children: []config.Child{
			{Type: k8s.ConfigMap, Strategy: config.Replace},
			{Type: k8s.Service, Strategy: config.Replace},
			{Type: k8s.Deployment, Strategy: config.Replace},
		},
	}
	apps := handler.Funcs{
		SyncFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			measured.Handled(req.Parent.Name())
			return sync(req)
		},
		FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
			return &handler.FinalizeResponse{Finalized: true}, nil
		},
	}
	return runner.Run(ctx, operator, apps, runner.Options{RESTConfig: rest})
}

func sync(req *handler.SyncRequest) (*handler.SyncResponse, error) {
	parent, err := handler.ParentAs[app.App](req)
	if err != nil {
		return nil, err
	}
	children := []any{parent.Service(), parent.Deployment()}
	for _, suffix := range app.Suffixes() {
		children = append(children, parent.ConfigMap(suffix))
	}
	return &handler.SyncResponse{Status: app.Status{Children: len(children)}, Children: children}, nil
}
