package explain

import (
	"testing"

	"github.com/roperator/roperator/testkit"
)

var cluster *testkit.Cluster

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.ClusterOptions{CRDPaths: []string{"testdata/crds.yaml"}}, &cluster)
}
