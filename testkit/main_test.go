package testkit

import (
	"fmt"
	"os"
	"testing"
)

// cluster is what the tests of the Kit run on.
var cluster *Cluster

func TestMain(m *testing.M) {
	if os.Getenv(victimVariable) != "" {
		victim()
	}
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	var err error
	cluster, err = Start(ClusterOptions{CRDPaths: []string{"testdata/crds.yaml"}, ControllerManager: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	return m.Run()
}
