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

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 crd paths=./api/... output:crd:dir=crd

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
// keeps what it has, and an Event tells why.
func sync(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	hello, err := handler.ParentAs[*v1.Hello](req)
	if err != nil {
		return nil, err
	}
	observed, err := status(req.Children)
	if err != nil {
		return nil, err
	}
	if text := problem(hello); text != "" {
		observed.Message = text
		return &handler.SyncResponse{
			Status:       observed,
			KeepChildren: true,
			Events:       []handler.Event{{Type: handler.EventWarning, Reason: "InvalidSpec", Message: text}},
		}, nil
	}
	return &handler.SyncResponse{Status: observed, Children: []any{deployment(hello)}}, nil
}

// finalize is where an operator cleans up what Kubernetes doesn't know of. The
// Deployment has the Hello as owner and goes by itself; this only says so.
func finalize(_ context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	text := fmt.Sprintf("%d Deployments go with it", req.Children.OfType(k8s.Deployment).Len())
	return &handler.FinalizeResponse{
		Finalized: true,
		Events:    []handler.Event{{Reason: "DeleteRequested", Message: text}},
	}, nil
}
