package rollouts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/roperator/roperator/internal/testing/kubelet"
	"github.com/roperator/roperator/testkit"
)

// cluster has a kube-controller-manager, a kube-scheduler, and a node on which Pods run. It is nil
// where one of the programs is missing.
var cluster *testkit.Cluster

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	started, err := testkit.Start(testkit.ClusterOptions{CRDPaths: []string{"testdata/crds.yaml"}, ControllerManager: true})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, started.Stop()) }()
	k, err := kubelet.Start(context.Background(), started.Kubeconfig())
	switch {
	case errors.Is(err, os.ErrNotExist) && os.Getenv("CI") != "true":
		return m.Run(), nil
	case err != nil:
		return 1, err
	}
	defer func() { err = errors.Join(err, k.Stop()) }()
	cluster = started
	return m.Run(), nil
}
