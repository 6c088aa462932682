// Package live looks at operators on a real API server through the window, in a browser.
package live

import (
	"fmt"
	"os"
	"testing"

	"github.com/roperator/roperator/testkit"
)

// cluster is what all tests share; each has a namespace of its own there.
var cluster *testkit.Cluster

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	var err error
	cluster, err = testkit.Start(testkit.ClusterOptions{CRDPaths: []string{"../../conformance/testdata/crds.yaml"}})
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
