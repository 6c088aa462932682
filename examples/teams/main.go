// Command teams is a program made with controller-runtime that an operator has joined.
// Its controller labels the Namespaces of teams, its operator gives them a
// ResourceQuota. Both have one election, one log, one registry of metrics, and the same
// probes.
package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/roperator/roperator/runner"
)

func main() {
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil)))
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "teams:", err)
		os.Exit(1)
	}
}

func run() error {
	rc, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	m, _, err := newManager(rc, metrics.Registry, ctrl.Options{
		LeaderElection:         true,
		Metrics:                metricsserver.Options{BindAddress: ":8080"},
		HealthProbeBindAddress: ":8081",
	})
	if err != nil {
		return err
	}
	return m.Start(ctrl.SetupSignalHandler())
}

// newManager returns a manager with the controller and the operator.
func newManager(rc *rest.Config, registry prometheus.Registerer, opts ctrl.Options) (manager.Manager, *runner.Runner, error) {
	opts.LeaderElectionID = "teams"
	opts.LeaderElectionReleaseOnCancel = true
	// The operator lets running passes end for 30 seconds, and then handlers for 5.
	opts.GracefulShutdownTimeout = new(40 * time.Second)
	m, err := ctrl.NewManager(rc, opts)
	if err != nil {
		return nil, nil, err
	}
	if err := m.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, nil, err
	}
	if err := addLabeler(m); err != nil {
		return nil, nil, err
	}
	quotas, err := join(m, registry)
	return m, quotas, err
}

// join adds the operator to the manager. A replica that isn't elected mirrors what the
// operator watches, and is ready; it begins to work as soon as the manager leads.
func join(m manager.Manager, registry prometheus.Registerer) (*runner.Runner, error) {
	r, err := runner.New(operator, quotas, runner.Options{
		RESTConfig: m.GetConfig(),
		Elected:    m.Elected(),
		Logger:     slog.New(logr.ToSlogHandler(m.GetLogger())),
		Metrics:    registry,
	})
	if err != nil {
		return nil, err
	}
	if err := m.AddReadyzCheck(operator.Name, func(*http.Request) error { return r.Ready() }); err != nil {
		return nil, err
	}
	if err := m.AddHealthzCheck(operator.Name, func(*http.Request) error { return r.Healthy() }); err != nil {
		return nil, err
	}
	return r, m.Add(r)
}
