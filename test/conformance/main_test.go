package conformance

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
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
	if err := errors.Join(budget.WaitTogether(24), fewWithRace()); err != nil {
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

// busy are scenarios in which much of an operator happens at once.
const busy = "TestC7[0-9]|TestC89_|TestC92_|TestC170_"

// fewWithRace has a build with -race run the scenarios of make test-quick and those of busy, unless
// -run says which: the race detector looks for races of the library, which hundreds of scenarios
// meet in the same places.
func fewWithRace() error {
	run := flag.Lookup("test.run")
	if !budget.Raced || run.Value.String() != "" {
		return nil
	}
	text, err := os.ReadFile("../quick/scenarios.txt")
	if err != nil {
		return err
	}
	names := []string{busy}
	for _, found := range regexp.MustCompile(`(?m)^(Test\w+):`).FindAllStringSubmatch(string(text), -1) {
		names = append(names, found[1]+"$")
	}
	return run.Value.Set("^(" + strings.Join(names, "|") + ")")
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
