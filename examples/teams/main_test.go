package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

// timeout only bounds a hang: it is for what takes an idle machine a second.
const timeout = 5 * time.Minute

var cluster *testkit.Cluster // nil with -short

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		os.Exit(m.Run())
	}
	var err error
	if cluster, err = testkit.Start(testkit.ClusterOptions{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// A replica is a manager of the test's own, that takes part in the election.
type replica struct {
	*runner.Runner
	registry *prometheus.Registry
	elected  <-chan struct{}
	stop     func() // returns once the manager has ended
}

func start(t *testing.T) *replica {
	t.Helper()
	registry := prometheus.NewRegistry()
	m, r, err := newManager(cluster.RESTConfig(), registry, ctrl.Options{
		Logger: logr.Discard(), LeaderElection: true, LeaderElectionNamespace: "default", Metrics: metricsserver.Options{BindAddress: "0"},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	stopped := false
	stop := func() {
		cancel()
		if !stopped {
			require.NoError(t, <-ended)
		}
		stopped = true
	}
	t.Cleanup(stop)
	return &replica{Runner: r, registry: registry, elected: m.Elected(), stop: stop}
}

// works waits until a new Namespace of a team has what the program is for.
func works(t *testing.T, clients kubernetes.Interface) {
	t.Helper()
	ns, err := clients.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-", Labels: map[string]string{"team": "red"}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		ns, err := clients.CoreV1().Namespaces().Get(t.Context(), ns.Name, metav1.GetOptions{})
		return err == nil && ns.Labels[enforce] == "baseline"
	}, timeout, 50*time.Millisecond, "the controller")
	require.Eventually(t, func() bool {
		_, err := clients.CoreV1().ResourceQuotas(ns.Name).Get(t.Context(), "team", metav1.GetOptions{})
		return err == nil
	}, timeout, 50*time.Millisecond, "the operator")
}

// syncs returns how many passes the operator of a replica has made.
func (r *replica) syncs(t *testing.T) (sum float64) {
	t.Helper()
	families, err := r.registry.Gather()
	require.NoError(t, err)
	found := false
	for _, f := range families {
		if f.GetName() == "roperator_syncs_total" {
			found = true
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	require.True(t, found, "the operator's metrics are in the registry of the program")
	return sum
}

// One replica of both works. The other one is ready for that, and takes over.
func TestReplicas(t *testing.T) {
	if cluster == nil {
		t.Skip("needs an API server")
	}
	clients, err := kubernetes.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	leader := start(t)
	<-leader.elected
	works(t, clients)

	standby := start(t)
	require.Eventually(t, func() bool { return standby.Ready() == nil }, timeout, 10*time.Millisecond, "so that a rolling update goes on")
	require.NoError(t, standby.Healthy())
	works(t, clients)
	require.Zero(t, standby.syncs(t), "only one works")
	require.NotZero(t, leader.syncs(t))
	leases, err := clients.CoordinationV1().Leases("default").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	ours := slices.DeleteFunc(leases.Items, func(l coordinationv1.Lease) bool { return l.Name != "teams" && !strings.Contains(l.Name, "quotas") })
	require.Len(t, ours, 1, "one election for controller and operator")

	leader.stop()
	<-standby.elected
	works(t, clients)
	require.NotZero(t, standby.syncs(t))
	require.NoError(t, standby.Ready())
}
