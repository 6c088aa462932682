// Package kubelettest runs the tests of a package on a cluster on which Pods run.
package kubelettest

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/roperator/roperator/internal/testing/kubelet"
	"github.com/roperator/roperator/testkit"
)

// RunTests runs the tests of a package, which is what TestMain is for, and returns the exit code.
// use is called before with a cluster on which Pods run, or with nil if one of the programs for
// that is missing, or the cluster has nodes of its own, and the variable CI isn't "true".
func RunTests(run func() int, opts testkit.ClusterOptions, use func(*testkit.Cluster)) int {
	code, err := runTests(run, opts, use)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

func runTests(run func() int, opts testkit.ClusterOptions, use func(*testkit.Cluster)) (code int, err error) {
	opts.ControllerManager = true
	cluster, err := testkit.Start(opts)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	k, err := kubelet.Start(context.Background(), cluster.Kubeconfig())
	switch {
	case (errors.Is(err, os.ErrNotExist) || errors.Is(err, kubelet.ErrForeignNodes)) && os.Getenv("CI") != "true":
		use(nil)
		return run(), nil
	case err != nil:
		return 1, err
	}
	defer func() { err = errors.Join(err, k.Stop()) }()
	use(cluster)
	return run(), nil
}
