package observe

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// collected returns the metrics of single parents, by the text of their labels.
func collected(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err, "no series may be there twice")
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			text := f.GetName()
			for _, l := range m.GetLabel() {
				text += " " + l.GetValue()
			}
			out[text] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return out
}

func TestParentMetrics(t *testing.T) {
	m, reg := NewMetrics(), prometheus.NewRegistry()
	m.OfParents(2)
	now := Gauges{Leading: true, Parents: 3}
	_, err := m.Register(reg, "op", "", nil, func() Gauges { return now })
	require.NoError(t, err)
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }
	m.PassedParent("1", key("a"), false)
	m.PassedParent("1", key("a"), true)
	m.PassedParent("2", key("b"), false)
	m.PassedParent("3", key("c"), false)
	got := collected(t, reg)
	require.InDelta(t, 1, got["roperator_parent_syncs_total op a ns success"], 0)
	require.InDelta(t, 1, got["roperator_parent_syncs_total op a ns error"], 0)
	require.InDelta(t, 1, got["roperator_parent_failing op a ns"], 0)
	require.InDelta(t, float64(time.Now().Unix()), got["roperator_parent_last_success_timestamp_seconds op a ns"], 60)
	require.NotContains(t, got, "roperator_parent_failing op c ns")
	require.InDelta(t, 1, got["roperator_parents_without_metrics op"], 0)

	// A parent that has the name of one that is gone begins anew, and the end of the old
	// one, which is heard of late, isn't its own.
	m.PassedParent("4", key("a"), true)
	m.ForgetParent("1")
	got = collected(t, reg)
	require.Zero(t, got["roperator_parent_syncs_total op a ns success"])
	require.InDelta(t, 1, got["roperator_parent_syncs_total op a ns error"], 0)
	require.NotContains(t, got, "roperator_parent_last_success_timestamp_seconds op a ns", "it never had one")

	m.ForgetParent("4")
	m.ForgetParent("3") // it had none
	m.PassedParent("3", key("c"), false)
	require.Contains(t, collected(t, reg), "roperator_parent_failing op c ns")
	now.Parents = 1 // fewer than are shown, since one that has just gone isn't forgotten yet
	require.Zero(t, collected(t, reg)["roperator_parents_without_metrics op"])
	for i := range 1000 {
		m.PassedParent(types.UID(fmt.Sprint("uid", i)), key(fmt.Sprint("n", i)), false)
	}
	require.Len(t, m.parents.mu.series, 2)
	require.Len(t, m.parents.mu.keys, 2)

	now = Gauges{Parents: 100}
	require.Zero(t, collected(t, reg)["roperator_parents_without_metrics op"], "a replica that waits")
	var none *Metrics
	none.ForgetParent("1")
}
