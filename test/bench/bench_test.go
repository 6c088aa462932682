package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/test/bench/app"
)

// TestSmoke runs the benchmark with few parents and looks at what it counted,
// never at times: the writes are those that are needed and no others.
func TestSmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("needs an API server")
	}
	const parents = 50
	opts, err := parse([]string{"-n=50", "-rounds=1", "-singles=20", "-quiet=2s", "-variants=limit,roperator,controller-runtime"})
	require.NoError(t, err)
	opts.dir, opts.crd = t.TempDir(), "app/crd.yaml"
	opts.bin = filepath.Join(opts.dir, "bin")
	require.NoError(t, build(t.Context(), opts.bin))
	results, err := runAll(t.Context(), opts, func(r *result) { t.Log(r.summary()) })
	require.NoError(t, err)
	require.Len(t, results, 3)

	expected := map[string]struct {
		requests map[string]int
		handled  int // of this library; at most
	}{
		"cold": {map[string]int{
			"PATCH apps": parents, "POST configmaps": 2 * parents, "POST services": parents, "POST deployments": parents, "PUT apps/status": parents,
		}, 3 * parents},
		"spec": {map[string]int{"PUT configmaps": 2 * parents, "PUT apps/status": parents}, 3 * parents},
		// The events of the two deletions may come one by one.
		"repair":  {map[string]int{"POST configmaps": 2 * parents}, 4 * parents},
		"single":  {map[string]int{"PUT configmaps": 2 * opts.singles, "PUT apps/status": opts.singles}, 3 * opts.singles},
		"quiet":   {nil, 0},
		"restart": {nil, parents},
	}
	for _, r := range results {
		for phase, want := range expected {
			f := r.Phases[phase]
			if r.Variant == peer {
				require.GreaterOrEqual(t, f.writes(), total(want.requests), "%s, %s: %s", r.Variant, phase, requests(f))
				continue
			}
			require.Equal(t, total(want.requests), f.writes(), "%s, %s: %s", r.Variant, phase, requests(f))
			for request, n := range want.requests {
				require.Equal(t, n, f.Requests[request], "%s, %s: %s", r.Variant, phase, request)
			}
			require.Zero(t, f.Conflicts, "%s, %s", r.Variant, phase)
			require.Zero(t, f.Failures, "%s, %s", r.Variant, phase)
			if r.Variant == ours {
				require.LessOrEqual(t, f.Handled, want.handled, "%s, %s", r.Variant, phase)
			}
		}
		require.Len(t, r.Left, opts.singles, r.Variant)
		require.Len(t, r.Seen, opts.singles, r.Variant)
		require.Equal(t, parents, r.Phases["restart"].Handled, r.Variant)
	}
}

func TestParse(t *testing.T) {
	cases := map[string]struct {
		reason string
		args   []string
		want   string // of the error
	}{
		"Defaults": {"All variants.", nil, ""},
		"Some":     {"Those that are named.", []string{"-variants=limit,roperator"}, ""},
		"Unknown":  {"A typing error is told, with the names there are.", []string{"-variants=rust"}, `-variants: "rust" is none; there are limit, roperator`},
		"None":     {"There must be something to measure.", []string{"-n=0"}, "at least 1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			opts, err := parse(tc.args)
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want, tc.reason)
				return
			}
			require.NoError(t, err, tc.reason)
			require.NotEmpty(t, opts.variants)
		})
	}
}

// TestReport: medians of each variant's runs, and their ratios.
func TestReport(t *testing.T) {
	var results []*result
	for round, factor := range []int64{3, 1, 2} {
		for variant, wall := range map[string]time.Duration{limit: 10 * time.Second, ours: 11 * time.Second, peer: 20 * time.Second} {
			f := Figures{Wall: time.Duration(factor * int64(wall)), CPU: wall, PeakRSS: int64(wall), Requests: map[string]int{"PUT apps/status": 7, "GET apps": 2, "POST events": 5}}
			results = append(results, &result{
				Variant: variant, Round: round, Phases: map[string]Figures{"cold": f},
				Left: []time.Duration{wall / 1000, wall / 500}, Seen: []time.Duration{wall / 100},
			})
		}
	}
	opts, err := parse([]string{"-rounds=3"})
	require.NoError(t, err)
	var out bytes.Buffer
	report(&out, opts, results)
	require.Contains(t, out.String(), "bench: cold wall vs limit 1.10\n")
	require.Contains(t, out.String(), "bench: cold wall vs controller-runtime 0.55\n")
	require.Contains(t, out.String(), "bench: single change p95 vs controller-runtime 0.55\n")
	require.NotContains(t, out.String(), "unstructured 0", "nothing was measured of it")
	require.Regexp(t, `cold +roperator +22\.00 \(11\.00–33\.00\) .* 7 +5 +2 +0 `, out.String())

	path := filepath.Join(t.TempDir(), "bench.json")
	require.NoError(t, writeJSON(path, opts, results))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var back raw
	require.NoError(t, json.Unmarshal(data, &back))
	require.Len(t, back.Runs, len(results))
	require.Equal(t, results[0].Phases, back.Runs[0].Phases)
}

func TestQuantiles(t *testing.T) {
	times := make([]time.Duration, 100)
	for i := range times {
		times[i] = time.Duration(100-i) * time.Millisecond
	}
	require.InDelta(t, 50, milliseconds(times, 0.5), 0.001)
	require.InDelta(t, 95, milliseconds(times, 0.95), 0.001)
	require.InDelta(t, 1, milliseconds(times, 0), 0.001)
	require.InDelta(t, 2.5, median([]float64{4, 1, 2, 3}), 0.001)
	require.Zero(t, median(nil))
}

func TestApp(t *testing.T) {
	parent := &app.App{}
	parent.Name, parent.Labels = "one", map[string]string{"a": "b"}
	twin, ok := parent.DeepCopyObject().(*app.App)
	require.True(t, ok)
	twin.Labels["a"] = "c"
	require.Equal(t, "b", parent.Labels["a"], "a copy of its own")
	list := &app.List{Items: []app.App{*parent}}
	copied, ok := list.DeepCopyObject().(*app.List)
	require.True(t, ok)
	copied.Items[0].Labels["a"] = "c"
	require.Equal(t, "b", list.Items[0].Labels["a"])
	require.Len(t, app.Suffixes(), app.Children-2, "and the Service and the Deployment")
}
