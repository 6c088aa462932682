// Package manifests proves that the RBAC rules which the subcommand manifests
// prints are enough for an operator's work, and that none of them is too much.
package manifests

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

// cluster is one that asks who makes children for the right to set the
// finalizers of their parent, as OpenShift does.
var cluster *testkit.Cluster

// asOperator in the environment makes the test binary the program of the
// operator of that name.
const asOperator = "ROPERATOR_TEST_AS_OPERATOR"

func TestMain(m *testing.M) {
	if name := os.Getenv(asOperator); name != "" {
		runner.Main(operator(name), &story{})
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	cluster, err = testkit.Start(testkit.ClusterOptions{
		CRDPaths:          []string{"../conformance/testdata/crds.yaml"},
		ControllerManager: true,
		APIServerFlags:    map[string]string{"enable-admission-plugins": "OwnerReferencesPermissionEnforcement"},
	})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	return m.Run(), nil
}
