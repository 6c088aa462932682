package uninstall

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/lead"
	"github.com/roperator/roperator/internal/engine/leave"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

func remnants(t resource.Type, names ...string) []leave.Remnant {
	var out []leave.Remnant
	for _, name := range names {
		out = append(out, leave.Remnant{Ref: object.Ref{Type: t, Key: types.NamespacedName{Namespace: "ns", Name: name}}})
	}
	return out
}

// departure is one of an operator with three parents.
func departure(standing lead.Standing, holder string) *leave.Departure {
	parents := remnants(sample.ParentType(), "a", "b", "c")
	parents[0].Holds = true
	children := append(remnants(k8s.ConfigMap, "a", "b"), remnants(k8s.Secret, "s")...)
	return &leave.Departure{Standing: standing, Holder: holder, Surveys: []leave.Survey{{
		Operator: "op", Parents: parents, Children: children,
		Parent: &catalog.Kind{Type: sample.ParentType(), GVR: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "parents"}},
	}}}
}

// retaining is a departure whose children have Retain, from the given one on.
func retaining(from int) *leave.Departure {
	d := departure(lead.Claimed, "one")
	for i := from; i < len(d.Surveys[0].Children); i++ {
		d.Surveys[0].Children[i].Retained = true
	}
	return d
}

func TestPrintPlan(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		of     *leave.Departure
		how    leave.How
		want   string
	}{
		"Everything": {"who finalizes, and what goes", departure(lead.Claimed, "one"), leave.How{}, `op:
  deletes 3 parents: ns/a, ns/b, ns/c
  1 of them has the operator's finalizer: the operator in the cluster finalizes them, one
  with them go 3 children
    2 ConfigMaps: ns/a, ns/b
    1 Secret: ns/s
`},
		"Kept": {"what stays", departure(lead.Free, ""), leave.How{KeepParents: true, KeepChildren: true}, `op:
  keeps and releases 3 parents: ns/a, ns/b, ns/c
  1 of them has the operator's finalizer: it is taken off, and Finalize isn't called
  keeps, as nobody's, 3 children
    2 ConfigMaps: ns/a, ns/b
    1 Secret: ns/s
`},
		"Retained": {"what outlives its parent", retaining(2), leave.How{}, `op:
  deletes 3 parents: ns/a, ns/b, ns/c
  1 of them has the operator's finalizer: the operator in the cluster finalizes them, one
  with them go 2 children
    2 ConfigMaps: ns/a, ns/b
  keeps, as nobody's, for their types have Retain, 1 child
    1 Secret: ns/s
`},
		"All retained": {"none goes", retaining(0), leave.How{}, `op:
  deletes 3 parents: ns/a, ns/b, ns/c
  1 of them has the operator's finalizer: the operator in the cluster finalizes them, one
  keeps, as nobody's, for their types have Retain, 3 children
    2 ConfigMaps: ns/a, ns/b
    1 Secret: ns/s
`},
		"Retained with parents": {"they stay their parents'", retaining(2), leave.How{KeepParents: true}, `op:
  keeps and releases 3 parents: ns/a, ns/b, ns/c
  1 of them has the operator's finalizer: it is taken off, and Finalize isn't called
  keeps, with their parents, 3 children
    2 ConfigMaps: ns/a, ns/b
    1 Secret: ns/s
`},
		"Nothing": {"there may be none", &leave.Departure{Surveys: []leave.Survey{{Operator: "op"}}}, leave.How{}, "op:\n  there are no parents and no children\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			PrintPlan(&out, tc.of, tc.how)
			require.Equal(t, tc.want, out.String(), tc.reason)
		})
	}
	for standing, want := range map[lead.Standing]string{lead.Free: "see --finalize", lead.Missing: "there is no Lease"} {
		var out strings.Builder
		PrintPlan(&out, departure(standing, ""), leave.How{})
		require.Contains(t, out.String(), want)
	}
}

func TestPrintLeft(t *testing.T) {
	in := Installation{Program: "op", Namespace: "op-system", Lease: "op"}
	held := remnants(sample.ParentType(), "a", "b")
	held[0].Deleting, held[0].Finalizers = true, []string{"x/y", "roperator.com/op"}
	late := remnants(sample.ParentType(), "late")
	late[0].New = true
	for name, tc := range map[string]struct {
		reason string
		left   leave.Left
		change func(d *leave.Departure)
		how    leave.How
		done   bool
		want   []string
		not    []string
	}{
		"Nothing": {"what is next", leave.Left{Operator: "op"}, nil, leave.How{}, true, []string{
			"op: nothing is left.\n", "op manifests … | kubectl delete -f -", "kubectl delete lease op -n op-system", "kubectl delete crd parents.example.com",
		}, []string{"was looked at"}},
		"Kept parents": {"their definition stays", leave.Left{Operator: "op"}, func(d *leave.Departure) { d.Paused = true }, leave.How{KeepParents: true}, true, []string{
			"op: nothing is left but parents that were to stay, and their children.\n", "stay paused, since an operator works: one. Remove its Deployment, and run this once more",
		}, []string{"delete crd"}},
		"Retained": {"what stays is told, and is no error", leave.Left{Operator: "op"}, func(d *leave.Departure) { d.Surveys = retaining(2).Surveys }, leave.How{}, true, []string{
			"op: nothing is left but children that were to stay, since their types have Retain.\n", "kubectl delete crd",
		}, nil},
		"Held": {"each, and why", leave.Left{Operator: "op", Parents: held}, func(d *leave.Departure) { d.Stuck = true }, leave.How{}, false, []string{
			"op: left are 2 parents: ns/a, ns/b", "Parent ns/a is being deleted; held by the finalizers x/y, roperator.com/op", "Parent ns/b isn't being deleted",
			"Nobody holds the Lease op-system/op", "--finalize",
		}, []string{"nothing is left", "Remove next"}},
		"Created": {"they are left alone", leave.Left{Operator: "op", Parents: late}, nil, leave.How{}, false, []string{"created meanwhile, and left alone: 1 parent: ns/late; stop what creates them"}, []string{"left are"}},
		"Unknown": {"an error isn't nothing", leave.Left{Operator: "op", Unknown: true}, nil, leave.How{}, false, []string{"couldn't be looked for"}, []string{"nothing is left"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := departure(lead.Renewed, "one")
			d.Left = []leave.Left{tc.left}
			if tc.change != nil {
				tc.change(d)
			}
			var out strings.Builder
			require.Equal(t, tc.done, PrintLeft(&out, d, tc.how, in), tc.reason)
			for _, want := range tc.want {
				require.Contains(t, out.String(), want, tc.reason)
			}
			for _, not := range tc.not {
				require.NotContains(t, out.String(), not, tc.reason)
			}
		})
	}
}

// Other namespaces than the one that was looked at may need what is to be removed next.
func TestPrintLeft_Within(t *testing.T) {
	d := departure(lead.Renewed, "one")
	d.Left = []leave.Left{{Operator: "op"}}
	var out strings.Builder
	require.True(t, PrintLeft(&out, d, leave.How{}, Installation{Program: "op", Namespace: "op-system", Lease: "op", Within: "team"}))
	require.Less(t, strings.Index(out.String(), "Only the namespace team was looked at"), strings.Index(out.String(), "Remove next"))
	require.Contains(t, out.String(), "Only the namespace team was looked at")
}

// Whoever may write a Lease says who holds it, and nothing to the terminal.
func TestHostileHolder(t *testing.T) {
	d := departure(lead.Claimed, "one\x1b[2J")
	d.Left, d.Paused = []leave.Left{{Operator: "op"}}, true
	var out strings.Builder
	PrintPlan(&out, d, leave.How{})
	PrintLeft(&out, d, leave.How{KeepParents: true}, Installation{Program: "op", Namespace: "op-system", Lease: "op"})
	require.Equal(t, 2, strings.Count(out.String(), "one"), out.String())
	require.NotContains(t, out.String(), "\x1b")
}

// TestNamed: a cluster with thousands of parents doesn't fill the terminal.
func TestNamed(t *testing.T) {
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprint("p", i))
	}
	text := named(remnants(sample.ParentType(), names...), "parent")
	require.True(t, strings.HasSuffix(text, "ns/p9 and 990 more"), text)
}
