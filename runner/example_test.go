package runner_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
)

var (
	pages = config.Operator{
		Name:     "pages",
		Parent:   resource.Type{APIVersion: "example.com/v1", Kind: "Page"},
		Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}},
	}
	sites = config.Operator{
		Name:     "sites",
		Parent:   resource.Type{APIVersion: "example.com/v1", Kind: "Site"},
		Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}},
	}
	sync = handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Children: []any{
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: req.Parent.Name()}},
		}}, nil
	})
)

// The whole main function of an operator, with flags and subcommands.
//
//nolint:testableexamples // it needs an API server
func ExampleMain() {
	runner.Main(pages, sync)
}

// An operator in a program of one's own.
//
//nolint:testableexamples // it needs an API server
func ExampleRun() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	err := runner.Run(ctx, pages, sync, runner.Options{
		Logger:         slog.New(slog.NewJSONHandler(os.Stderr, nil)),
		LeaderElection: &runner.LeaderElection{},
		MetricsAddress: ":8080",
		HealthAddress:  ":8081",
	})
	if err != nil {
		fmt.Println(err)
	}
}

// Several operators in one process.
//
//nolint:testableexamples // it needs an API server
func ExampleRunAll() {
	err := runner.RunAll(context.Background(), runner.Options{},
		runner.Spec{Config: pages, Handler: sync},
		runner.Spec{Config: sites, Handler: sync},
	)
	if err != nil {
		fmt.Println(err)
	}
}

// What this build would do, before it is deployed.
//
//nolint:testableexamples // it needs an API server
func ExamplePlan() {
	changes, err := runner.Plan(context.Background(), pages, sync, runner.Options{})
	if err != nil {
		fmt.Println(err)
	}
	for _, c := range changes {
		fmt.Println(c.Verb, c.Type.Kind, c.Object)
		for _, f := range c.Fields {
			fmt.Printf("  %s: %v -> %v\n", f.Path, f.Live, f.Desired)
		}
	}
}
