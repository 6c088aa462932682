package rollouts

import (
	"os"
	"testing"

	"github.com/roperator/roperator/internal/testing/kubelet/kubelettest"
	"github.com/roperator/roperator/testkit"
)

// cluster has a kube-controller-manager, a kube-scheduler, and a node on which Pods run. It is nil
// where one of the programs is missing.
var cluster *testkit.Cluster

func TestMain(m *testing.M) {
	opts := testkit.ClusterOptions{CRDPaths: []string{"testdata/crds.yaml"}}
	os.Exit(kubelettest.RunTests(m.Run, opts, func(c *testkit.Cluster) { cluster = c }))
}
