package plan

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// TestSplitOneWay: S211 to S214.
func TestSplitOneWay(t *testing.T) {
	diff := func(path string, live, desired any) merge.Difference {
		return merge.Difference{Path: path, Live: live, Desired: desired}
	}
	suspended, running := map[string]any{"spec": map[string]any{"suspend": true}}, map[string]any{"spec": map[string]any{}}
	for name, tc := range map[string]struct {
		reason string
		of     resource.Type
		live   map[string]any
		diff   merge.Difference
		same   bool // the desired value was accepted before
		want   bool
	}{
		"selector":           {"set when the Job was unsuspended", k8s.Job, running, diff(`spec.template.spec.nodeSelector.zone`, "b", "a"), true, true},
		"selector, changed":  {"the handler asks for another one", k8s.Job, running, diff(`spec.template.spec.nodeSelector.zone`, "b", "a"), false, false},
		"selector, suspend":  {"it can still be changed", k8s.Job, suspended, diff(`spec.template.spec.nodeSelector.zone`, "b", "a"), true, false},
		"affinity":           {"as a whole", k8s.Job, running, diff(`spec.template.spec.affinity`, map[string]any{}, nil), true, true},
		"pod affinity":       {"the API server allows no such change", k8s.Job, running, diff(`spec.template.spec.affinity.podAffinity`, nil, map[string]any{}), true, false},
		"resources":          {"of a container", k8s.Job, running, diff(`spec.template.spec.containers[name="a"].resources.requests.cpu`, "2", "1"), true, true},
		"labels":             {"of the template", k8s.Job, running, diff(`spec.template.metadata.labels["a/b"]`, "x", nil), true, true},
		"image":              {"it can't be changed by others", k8s.Job, running, diff(`spec.template.spec.containers[name="a"].image`, "x", "y"), true, false},
		"gate":               {"taken by its controller", k8s.Pod, running, diff(`spec.schedulingGates[name="a"]`, nil, map[string]any{"name": "a"}), false, true},
		"gates":              {"the last one, too", k8s.Pod, running, diff(`spec.schedulingGates`, nil, []any{}), false, true},
		"resized":            {"by the subresource", k8s.Pod, running, diff(`spec.containers[name="a"].resources.limits.cpu`, "2", "1"), true, true},
		"resized, changed":   {"the handler asks for another value", k8s.Pod, running, diff(`spec.containers[name="a"].resources.limits.cpu`, "2", "1"), false, false},
		"other":              {"a label of a Pod", k8s.Pod, running, diff(`metadata.labels.a`, "2", "1"), true, false},
		"grown":              {"a claim doesn't shrink", k8s.PersistentVolumeClaim, running, diff(`spec.resources.requests.storage`, "2Gi", "1024Mi"), false, true},
		"grows":              {"the handler asks for more", k8s.PersistentVolumeClaim, running, diff(`spec.resources.requests.storage`, "1Gi", "2Gi"), true, false},
		"odd":                {"no amount", k8s.PersistentVolumeClaim, running, diff(`spec.resources.requests.storage`, "much", "2Gi"), true, false},
		"of another kind":    {"it has rules of its own", k8s.Deployment, running, diff(`spec.template.spec.nodeSelector.zone`, "b", "a"), true, false},
		"of a foreign group": {"so has it", resource.Type{APIVersion: "example.com/v1", Kind: "Job"}, running, diff(`spec.template.spec.nodeSelector.zone`, "b", "a"), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			gone, others := splitOneWay(&catalog.Kind{Type: tc.of}, tc.live, []merge.Difference{tc.diff}, func(merge.Difference) bool { return tc.same })
			require.Equal(t, tc.want, len(gone) == 1, tc.reason)
			require.Equal(t, !tc.want, len(others) == 1)
		})
	}
}

// TestPlainPath: paths as the API server and a Difference spell them.
func TestPlainPath(t *testing.T) {
	for path, want := range map[string]string{
		`spec.containers[1].image`: "spec.containers.image", `spec.containers[name="a]b"].image`: "spec.containers.image",
		`spec.ports[port=53,protocol="UDP"].nodePort`: "spec.ports.nodePort", `metadata.labels["a.b/c"]`: "metadata.labels.a.b/c", `metadata.labels[a.b/c]`: "metadata.labels.a.b/c",
		`data`: "data", `data[`: "data.", `a["x]y"].b`: "a.x]y.b", `a[0][1].b`: "a.b",
	} {
		require.Equal(t, want, plainPath(path), path)
	}
}

// TestKept: differences are kept with their values, one by one or, of many, together.
func TestKept(t *testing.T) {
	many := make([]merge.Difference, 0, maxKept+1)
	for i := range maxKept + 1 {
		many = append(many, merge.Difference{Path: "p", Live: int64(i), Desired: "d"})
	}
	for name, rest := range map[string][]merge.Difference{"few": many[:3], "many": many} {
		k := newKept(rest)
		kept, others := k.split(rest)
		require.Len(t, kept, len(rest), name)
		require.Empty(t, others)
		reversed := append([]merge.Difference{}, rest[1:]...)
		kept, _ = k.split(append(reversed, rest[0]))
		require.Len(t, kept, len(rest), "in whatever order")
		other := append([]merge.Difference{{Path: "p", Live: "other", Desired: "d"}}, rest[1:]...)
		kept, others = k.split(other)
		require.NotEmpty(t, others)
		require.Equal(t, name == "few", len(kept) == len(rest)-1, "of many, all are sent again")
		require.Equal(t, name == "few", k.desires(rest[0]))
	}
	var none *keptDifferences
	kept, others := none.split(many[:1])
	require.Empty(t, kept)
	require.Len(t, others, 1)
	require.Nil(t, newKept(nil))
	require.False(t, none.desires(many[0]))
}
