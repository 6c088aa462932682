package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

func phases() []string { return []string{"cold", "spec", "repair", "single", "quiet", "restart"} }

// summary is a line that tells of one run while others are still to come.
func (r *result) summary() string {
	parts := []string{fmt.Sprintf("round %d %-32s", r.Round+1, r.Variant)}
	for _, phase := range phases() {
		if f, ok := r.Phases[phase]; ok {
			parts = append(parts, fmt.Sprintf("%s %.2fs", phase, f.Wall.Seconds()))
		}
	}
	return strings.Join(parts, "  ")
}

// raw is the file with every figure.
type raw struct {
	Parents int       `json:"parents"`
	CPUs    int       `json:"cpus"`
	Go      string    `json:"go"`
	Time    time.Time `json:"time"`
	Runs    []*result `json:"runs"`
}

func writeJSON(path string, opts options, results []*result) error {
	data, err := json.MarshalIndent(raw{opts.parents, runtime.NumCPU(), runtime.Version(), time.Now(), results}, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o600)
}

// report writes the table and the ratios.
func report(w io.Writer, opts options, results []*result) {
	fmt.Fprintf(w, "\nN = %d, %d rounds, %d CPUs, %s; medians, least and most in parentheses\n\n", opts.parents, opts.rounds, runtime.NumCPU(), runtime.Version())
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "phase\tvariant\twall s\tCPU s\tRSS MB\tpeak MB\twrites\tevents\treads\tconflicts\tfailures\thandled")
	for _, phase := range phases() {
		for _, v := range opts.variants {
			s := sample{results, v.name, phase}
			if len(s.figures()) == 0 {
				continue
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", phase, v.name,
				s.spread("%.2f", wall), s.spread("%.2f", cpu), s.spread("%.0f", rss), s.spread("%.0f", peak),
				s.spread("%.0f", writes), s.spread("%.0f", events), s.spread("%.0f", reads), s.spread("%.0f", conflicts), s.spread("%.0f", failures), s.spread("%.0f", handled))
		}
	}
	_ = table.Flush() // of a terminal that is gone
	fmt.Fprintln(w)
	for _, v := range opts.variants {
		left, seen := singles(results, v.name)
		if len(left) > 0 {
			fmt.Fprintf(w, "single change, %s: request left after p50 %.2f ms, p95 %.2f ms; seen after p50 %.2f ms, p95 %.2f ms (%d changes)\n", v.name,
				milliseconds(left, 0.5), milliseconds(left, 0.95), milliseconds(seen, 0.5), milliseconds(seen, 0.95), len(left))
		}
		for _, f := range (sample{results, v.name, "quiet"}).figures() {
			fmt.Fprintf(w, "quiet, %s: %d requests, %.3f %% of a CPU, in %s\n", v.name, total(f.Requests), 100*f.CPU.Seconds()/f.Wall.Seconds(), f.Wall)
		}
	}
	fmt.Fprintln(w)
	for _, r := range ratios() {
		if a, b := r.of(results, ours), r.of(results, r.versus); a > 0 && b > 0 {
			fmt.Fprintf(w, "bench: %s %.2f\n", r.name, a/b)
		}
	}
}

// A ratio is one of two variants' medians.
type ratio struct {
	name   string
	versus string
	phase  string
	figure func(Figures) float64         // of a phase, or
	times  func(*result) []time.Duration // of the single changes: their 95th percentile
}

func (r ratio) of(results []*result, variant string) float64 {
	if r.times == nil {
		return median((sample{results, variant, r.phase}).values(r.figure))
	}
	var p95 []float64
	for _, result := range results {
		if times := r.times(result); result.Variant == variant && len(times) > 0 {
			p95 = append(p95, milliseconds(times, 0.95))
		}
	}
	return median(p95)
}

func ratios() []ratio {
	return []ratio{
		{name: "cold wall vs limit", versus: limit, phase: "cold", figure: wall},
		{name: "cold wall vs controller-runtime", versus: peer, phase: "cold", figure: wall},
		{name: "cold cpu vs controller-runtime", versus: peer, phase: "cold", figure: cpu},
		{name: "cold peak rss vs controller-runtime", versus: peer, phase: "cold", figure: peak},
		{name: "cold peak rss vs unstructured", versus: untyped, phase: "cold", figure: peak},
		{name: "spec change wall vs limit", versus: limit, phase: "spec", figure: wall},
		{name: "repair wall vs limit", versus: limit, phase: "repair", figure: wall},
		{name: "restart wall vs controller-runtime", versus: peer, phase: "restart", figure: wall},
		{name: "single change p95 vs controller-runtime", versus: peer, times: func(r *result) []time.Duration { return r.Left }},
		{name: "single change seen p95 vs controller-runtime", versus: peer, times: func(r *result) []time.Duration { return r.Seen }},
	}
}

// A sample is all runs of a variant in one phase.
type sample struct {
	results []*result
	variant string
	phase   string
}

func (s sample) figures() []Figures {
	var out []Figures
	for _, r := range s.results {
		if f, ok := r.Phases[s.phase]; ok && r.Variant == s.variant {
			out = append(out, f)
		}
	}
	return out
}

func (s sample) values(of func(Figures) float64) []float64 {
	var out []float64
	for _, f := range s.figures() {
		out = append(out, of(f))
	}
	return out
}

func (s sample) spread(format string, of func(Figures) float64) string {
	values := s.values(of)
	text := fmt.Sprintf(format, median(values))
	least, most := fmt.Sprintf(format, slices.Min(values)), fmt.Sprintf(format, slices.Max(values))
	if least == most {
		return text
	}
	return text + " (" + least + "–" + most + ")"
}

func wall(f Figures) float64      { return f.Wall.Seconds() }
func cpu(f Figures) float64       { return f.CPU.Seconds() }
func rss(f Figures) float64       { return float64(f.RSS) / 1e6 }
func peak(f Figures) float64      { return float64(f.PeakRSS) / 1e6 }
func writes(f Figures) float64    { return float64(f.writes()) }
func events(f Figures) float64    { return float64(f.events()) }
func reads(f Figures) float64     { return float64(f.reads()) }
func conflicts(f Figures) float64 { return float64(f.Conflicts) }
func failures(f Figures) float64  { return float64(f.Failures) }
func handled(f Figures) float64   { return float64(f.Handled) }

// singles returns the times of all single changes of a variant.
func singles(results []*result, variant string) (left, seen []time.Duration) {
	for _, r := range results {
		if r.Variant == variant {
			left, seen = append(left, r.Left...), append(seen, r.Seen...)
		}
	}
	return left, seen
}

// median returns 0 of nothing.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	switch {
	case n == 0:
		return 0
	case n%2 == 1:
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// milliseconds returns a quantile: the smallest time that so many of the times
// don't exceed.
func milliseconds(times []time.Duration, q float64) float64 {
	sorted := slices.Sorted(slices.Values(times))
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return float64(sorted[max(i, 0)]) / float64(time.Millisecond)
}

// requests prints a phase's requests, for people.
func requests(f Figures) string {
	var parts []string
	for _, request := range slices.Sorted(maps.Keys(f.Requests)) {
		parts = append(parts, fmt.Sprintf("%d %s", f.Requests[request], request))
	}
	return strings.Join(parts, ", ")
}
