package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/testkit"
)

// timeout only bounds a hang.
const timeout = 2 * time.Minute

// recording is what the handler was asked, and what it answered.
const recording = "testdata/recording.jsonl"

var cluster *testkit.Cluster // nil with -short

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.ClusterOptions{CRDPaths: []string{"deploy/example.com_sites.yaml"}}, &cluster)
}

// The operator on a real API server. There are no nodes, so the test plays what
// Kubernetes does with a Deployment.
func TestSite(t *testing.T) {
	var h handler.Handler = sites
	if os.Getenv("RECORD") != "" {
		file, err := os.Create(recording)
		require.NoError(t, err)
		defer file.Close()
		h = testkit.Record(file, sites)
	}
	kit := testkit.New(t, cluster, operator, h)
	site := example(2)
	site.Namespace = kit.Namespace
	kit.Create(site)
	kit.EventuallyExists(service(site), timeout)
	kit.Eventually(deployment(site), timeout)

	live := deployment(site)
	live.Namespace = kit.Namespace
	live.Status = serving(kit.Get(live).Generation(), 2)
	kit.UpdateStatus(live)
	ready := example(2)
	ready.Namespace = kit.Namespace
	ready.Status = with(metav1.ConditionTrue, "Serving")
	kit.Eventually(ready, timeout)

	// The operator has come to rest: it doesn't write for ever.
	require.NoError(t, kit.Settle(timeout))
}

// What an earlier build was asked is answered as it was then. `make record` records
// anew.
func TestReplay(t *testing.T) {
	file, err := os.Open(recording)
	require.NoError(t, err)
	defer file.Close()
	testkit.Replay(t, file, sites)
}
