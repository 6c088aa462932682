package gates

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/gate"
	"github.com/roperator/roperator/internal/testing/operatorproc"
	"github.com/roperator/roperator/testkit"
)

const (
	file = "allocations.txt"
	// slack is by how much a figure may differ from the table, as a share. Rounds differ by less than a third of it.
	slack = 0.03
	// parentCount keeps maps below the size at which their growth depends on the hash seed.
	parentCount = 200

	comment = `# What an operator allocates for each parent: 200 parents, three children each. "make gates" compares, "make gates-update" writes it.
# A commit that changes it gives the reason in its message: see docs/contributing.md. test/gates/doc.go says what the phases are.

`
)

var cluster *testkit.Cluster

func TestMain(m *testing.M) {
	if os.Getenv(operatorproc.Variable) != "" {
		beOperator()
	}
	testkit.Main(m, testkit.ClusterOptions{CRDPaths: []string{"testdata/crd.yaml"}}, &cluster)
}

// TestAllocations compares an operator with the table, or writes the table. Then it compares an operator that does more: the
// comparison must find that.
func TestAllocations(t *testing.T) {
	switch {
	case raced:
		t.Skip("the race detector allocates, and empties pools at random")
	case cluster == nil:
		t.Skip("needs an API server")
	}
	found := measure(t, plant{})
	figures := found.table()
	t.Logf("per parent:\n%s", text(figures))
	if update, _ := strconv.ParseBool(os.Getenv("GATES_UPDATE")); update {
		require.NoError(t, median(figures, measure(t, plant{}).table(), measure(t, plant{}).table()).Write(file, comment))
		return
	}
	table, err := gate.Read(file)
	require.NoError(t, err)
	problems, figures := compare(t, table, figures, plant{})
	if len(problems) > 0 {
		t.Fatalf("%s, medians of three rounds:\n%s\n\nFind the cause, or run make gates-update and give the reason in the commit's message: see docs/contributing.md. All figures:\n%s",
			file, strings.Join(problems, "\n"), text(figures))
	}

	more := planted(found)
	expected := []string{"edited allocations", "edited bytes", "edited handler calls", "edited reconciliations", "spec allocations", "spec bytes"}
	problems, grown := compare(t, figures, measure(t, more).table(), more, expected...)
	require.Equal(t, expected, namesOf(problems), "5 %% more in the phase spec, and one more reconciliation in the phase edited. All figures:\n%s", text(grown))
	for _, problem := range problems {
		require.Contains(t, problem, "has grown by")
	}
}

// compare compares the figures of a round with a table, and returns the problems and the figures. If other figures than the
// expected ones differ, it measures twice more, in case something has disturbed the round, and compares the medians.
func compare(t *testing.T, table, figures gate.Table, as plant, expected ...string) ([]string, gate.Table) {
	t.Helper()
	problems := table.Compare(figures, margin)
	if !slices.Equal(namesOf(problems), expected) {
		figures = median(figures, measure(t, as).table(), measure(t, as).table())
		problems = table.Compare(figures, margin)
	}
	return problems, figures
}

// namesOf returns the names of the figures that problems are about, sorted.
func namesOf(problems []string) []string {
	var names []string
	for _, problem := range problems {
		name, _, _ := strings.Cut(problem, ":")
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// planted returns what makes an operator allocate 5 % more in the phase spec: in objects and in bytes.
func planted(of round) plant {
	spec := of["spec"]
	objects := math.Ceil(0.05 * float64(spec.Allocations) / float64(spec.Calls))
	return plant{objects: int(objects), size: int(math.Ceil(0.05 * float64(spec.Bytes) / float64(spec.Calls) / objects))}
}

func margin(string) float64 { return slack }

// table returns the figures of a round, per parent.
func (r round) table() gate.Table {
	var t gate.Table
	for _, p := range phases() {
		if p.empty {
			continue
		}
		of := r[p.name]
		if p.starts {
			of = of.minus(r[emptyStart])
		}
		add := func(what string, total uint64, digits float64) {
			perParent := float64(int64(total)) / parentCount
			t = append(t, gate.Figure{Name: p.name + " " + what, Value: math.Round(perParent*digits) / digits})
		}
		add("allocations", of.Allocations, 10)
		add("bytes", of.Bytes, 1)
		add("reconciliations", of.Reconciliations, 1000)
		add("handler calls", of.Calls, 1000)
		add("requests", of.Requests, 1000)
	}
	return t
}

// median returns the median of each figure.
func median(a, b, c gate.Table) gate.Table {
	out := slices.Clone(a)
	for i := range out {
		values := []float64{a[i].Value, b[i].Value, c[i].Value}
		slices.Sort(values)
		out[i].Value = values[1]
	}
	return out
}

func text(t gate.Table) string {
	var out strings.Builder
	for _, f := range t {
		fmt.Fprintf(&out, "%-28s %10v\n", f.Name, f.Value)
	}
	return out.String()
}
