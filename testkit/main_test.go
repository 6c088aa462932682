package testkit

import (
	"os"
	"testing"
)

// cluster is what the tests of the Kit run on.
var cluster *Cluster

func TestMain(m *testing.M) {
	if os.Getenv(victimVariable) != "" {
		victim()
	}
	start := func() (*Cluster, error) { // with -short, too
		return Start(ClusterOptions{CRDPaths: []string{"testdata/crds.yaml"}, ControllerManager: true})
	}
	os.Exit(runTests(m.Run, start, &cluster, os.Stderr))
}
