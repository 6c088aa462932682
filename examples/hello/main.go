// Command hello is an operator: for every Hello it runs a Deployment of servers
// that say hello.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/roperator/roperator/config"
	v1 "github.com/roperator/roperator/examples/hello/api/v1"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
)

//go:generate go tool controller-gen crd paths=./api/... output:crd:dir=crd

var operator = config.Operator{
	Name:     "hello",
	Parent:   resource.Type{APIVersion: "fraim.co.jp/v1", Kind: "Hello"},
	Children: []config.Child{{Type: k8s.Deployment, Strategy: config.Apply}},
}

var hellos = handler.Funcs{SyncFunc: sync, FinalizeFunc: finalize}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is what runner.Main does, with spans, which are sent before the process ends.
// It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	tracing, err := newTracing(ctx)
	if err != nil {
		fmt.Fprintln(stderr, "hello:", err)
		return 1
	}
	defer shutdown(tracing)
	return runner.Program{
		Operators: []runner.Spec{{Config: operator, Handler: hellos}},
		Options:   runner.Options{TracerProvider: tracing},
	}.Execute(ctx, args, stdout, stderr)
}

// sync says which Deployment a Hello shall have. A Hello that asks for too much
// is an error: it keeps what it has, and status and Event say why. Trying again
// wouldn't help, so that is left until somebody edits it.
func sync(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	hello, err := handler.ParentAs[*v1.Hello](req)
	if err != nil {
		return nil, err
	}
	observed, err := status(req.Children)
	if err != nil {
		return nil, err
	}
	if err := validate(hello); err != nil {
		observed.Message = err.Error()
		return &handler.SyncResponse{
			Status: observed,
			Events: []handler.Event{{Type: handler.EventWarning, Reason: "InvalidSpec", Message: err.Error()}},
		}, handler.Permanent(err)
	}
	return &handler.SyncResponse{Status: observed, Children: []any{deployment(hello)}}, nil
}

// finalize has the Deployment deleted before the Hello goes. Kubernetes would
// delete it afterwards, since the Hello is its owner: this is for what has to be
// over by then. It is called again when the Deployment is gone.
func finalize(_ context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	left := req.Children.OfType(k8s.Deployment).Len()
	if left == 0 {
		return &handler.FinalizeResponse{Finalized: true}, nil
	}
	return &handler.FinalizeResponse{
		Children: []any{}, // none shall exist
		Events:   []handler.Event{{Reason: "DeleteRequested", Message: fmt.Sprintf("%d Deployments go first", left)}},
	}, nil
}
