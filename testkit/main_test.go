package testkit

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/roperator/roperator/internal/testing/childprocess"
)

// cluster is what the tests of the Kit run on.
var cluster *Cluster

func TestMain(m *testing.M) {
	if what := os.Getenv(victimVariable); what != "" {
		if err := victim(what); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	_ = os.Unsetenv("ROPERATOR_STORM_SEEDS") // for the storms of other packages: these must find something
	start := func() (*Cluster, error) {      // with -short, too
		return Start(ClusterOptions{CRDPaths: []string{"testdata/crds.yaml"}, ControllerManager: true})
	}
	code := runTests(m.Run, start, &cluster, os.Stderr)
	if err := nothingIsLeft(cluster); err != nil {
		fmt.Fprintln(os.Stderr, "testkit:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// nothingIsLeft returns an error if Stop has left a process or a file of a cluster.
func nothingIsLeft(c *Cluster) error {
	if c == nil || c.plane == nil || c.keep.Load() {
		return nil
	}
	left, err := childprocess.Find(c.dir)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("Stop has left the processes %v", left)
	}
	if _, statErr := os.Stat(c.dir); !errors.Is(statErr, os.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("Stop has left %s", c.dir))
	}
	return errors.Join(err, c.Stop()) // stopping twice is stopping once
}
