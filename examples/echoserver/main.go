// Command echoserver is an operator: for every EchoServer it runs a Pod and a
// Service that finds it, and says in the EchoServer's status how they fare.
package main

import (
	"context"
	"time"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
)

var operator = config.Operator{
	Name:   "echoserver",
	Parent: resource.Type{APIVersion: "example.roperator.com/v1alpha1", Kind: "EchoServer"},
	Children: []config.Child{
		{Type: k8s.Pod, Strategy: config.Recreate},
		{Type: k8s.Service, Strategy: config.Replace},
	},
}

var echoServers = handler.Funcs{SyncFunc: sync, ErrorFunc: explain}

func main() { runner.Main(operator, echoServers) }

// sync says which children an EchoServer shall have, and what its status is.
func sync(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	echo, err := handler.ParentAs[EchoServer](req)
	if err == nil {
		err = echo.validate()
	}
	if err != nil {
		return nil, handler.Permanent(err) // until somebody edits it
	}
	return &handler.SyncResponse{
		Status:   EchoServerStatus{Message: message(req.Children)},
		Children: []any{echo.pod(), echo.service()},
	}, nil
}

// explain says what goes into the status with an error of sync. The pass fails
// all the same, and is retried as the engine thinks best.
func explain(_ context.Context, _ *handler.SyncRequest, err error) (any, time.Duration) {
	return EchoServerStatus{Message: err.Error()}, 0
}
