package conformance

import (
	"errors"
	"fmt"
	"os"
	"testing"

	auditlog "github.com/roperator/roperator/internal/testing/audit"
	"github.com/roperator/roperator/internal/testing/budget"
	"github.com/roperator/roperator/internal/testing/operatorproc"
	"github.com/roperator/roperator/testkit"
)

// cluster is what all scenarios share; each has a namespace of its own there.
var cluster *testkit.Cluster

// audit lists the requests that reached the API server; nil on an existing
// cluster without auditlog.Variable.
var audit *auditLog

// rests are the silences of all scenarios.
var rests = &register{all: map[*silence]string{}}

func TestMain(m *testing.M) {
	if name := os.Getenv(operatorproc.Variable); name != "" {
		beOperator(name)
	}
	if err := budget.WaitTogether(24); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "roperator-conformance-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	flags, log, err := auditlog.ServerFlags(dir)
	if err != nil {
		return 1, err
	}
	cluster, err = testkit.Start(testkit.ClusterOptions{
		CRDPaths:          []string{"testdata/crds.yaml"},
		ControllerManager: true,
		CheckPlans:        checksPlans,
		APIServerFlags:    flags,
	})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	if os.Getenv("CI") == "true" && !cluster.HasControllerManager() {
		return 1, errors.New("conformance: kube-controller-manager is missing beside kube-apiserver, and CI=true: no scenario may be skipped")
	}
	if _, err := os.Stat(log); err != nil { // an existing cluster
		log = os.Getenv(auditlog.Variable)
	}
	if log != "" {
		if audit, err = openAuditLog(log); err != nil {
			return 1, err
		}
	}
	code = m.Run()
	if err := rests.finish(); err != nil {
		return 1, err
	}
	if testing.Verbose() {
		fmt.Println("conformance:", rests.summary())
	}
	return code, nil
}
