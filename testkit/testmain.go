package testkit

import (
	"flag"
	"fmt"
	"io"
	"os"
	"testing"
)

// Main is the TestMain of a package whose tests run on a cluster. It starts one, sets *cluster
// to it, runs the tests, stops the cluster, and exits with the code of the tests: 1 as well
// if the cluster can't be started, which is told on the standard error, or can't be stopped.
//
//	var cluster *testkit.Cluster
//
//	func TestMain(m *testing.M) {
//		testkit.Main(m, testkit.ClusterOptions{CRDPaths: []string{"crd.yaml"}}, &cluster)
//	}
//
// With go test -short no cluster is started, and *cluster stays as it is: [New] skips a test
// whose cluster is nil then. Nor is one started for go test -list.
func Main(m *testing.M, opts ClusterOptions, cluster **Cluster) {
	if !flag.Parsed() {
		flag.Parse()
	}
	start := func() (*Cluster, error) { return Start(opts) }
	if list := flag.Lookup("test.list"); testing.Short() || list != nil && list.Value.String() != "" {
		start = nil
	}
	os.Exit(runTests(m.Run, start, cluster, os.Stderr))
}

// runTests returns the code to exit with. A nil start starts no cluster.
func runTests(run func() int, start func() (*Cluster, error), cluster **Cluster, stderr io.Writer) int {
	if start == nil {
		return run()
	}
	started, err := start()
	if err != nil {
		fmt.Fprintf(stderr, "testkit: %v\n", err)
		return 1
	}
	*cluster = started
	code := run()
	if err := started.Stop(); err != nil {
		fmt.Fprintf(stderr, "testkit: %v\n", err)
		return max(code, 1)
	}
	return code
}
