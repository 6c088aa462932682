package security

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/testing/budget"
	"github.com/roperator/roperator/internal/testing/operatorproc"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// patience only bounds a hang: it is for what takes an idle machine a small
// fraction of it.
const patience = 5 * time.Minute

// cluster is what all tests share; each has a namespace of its own there.
var cluster *testkit.Cluster

var parentType = resource.Type{APIVersion: "conformance.roperator.com/v1", Kind: "Parent"}

func TestMain(m *testing.M) {
	if os.Getenv(operatorproc.Variable) != "" {
		beOperator()
	}
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	err := budget.WaitTogether(8)
	if err == nil {
		cluster, err = testkit.Start(testkit.ClusterOptions{CRDPaths: []string{"../conformance/testdata/crds.yaml"}})
	}
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

func operator(name string) config.Operator {
	return config.Operator{
		Name: name, Parent: parentType, MaxErrorBackoff: time.Second,
		Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}, {Type: k8s.Secret, Strategy: config.Replace}},
	}
}

func parent(name string, spec any) map[string]any {
	return map[string]any{"apiVersion": parentType.APIVersion, "kind": parentType.Kind, "metadata": map[string]any{"name": name}, "spec": spec}
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, patience, 20*time.Millisecond, what)
}
