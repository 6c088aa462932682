package runner_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

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

// titled returns a handler that reads what it needs by a client of its own.
func titled(*kubernetes.Clientset, string) handler.Handler { return sync }

// The whole main function of an operator, with flags and subcommands.
//
//nolint:testableexamples // it needs an API server
func ExampleMain() {
	runner.Main(pages, sync)
}

// Two operators, of which one has a client of its own, and a flag.
//
//nolint:testableexamples // it needs an API server
func ExampleProgram() {
	var title string
	runner.Program{
		OperatorsFor: func(rc *rest.Config) ([]runner.Spec, error) {
			client, err := kubernetes.NewForConfig(rc)
			return []runner.Spec{{pages, sync}, {sites, titled(client, title)}}, err
		},
		Flags: func(fs *flag.FlagSet) { fs.StringVar(&title, "title", "", "of every site") },
	}.Main()
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
