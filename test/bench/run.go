package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/roperator/roperator/test/bench/measure"
	"github.com/roperator/roperator/testkit"
)

const (
	// patience is how long a phase may take.
	patience = 10 * time.Minute

	restarts = 5 // per run
)

// Figures are those of one phase of one run. Sizes are in bytes, times in
// nanoseconds.
type Figures struct {
	Wall      time.Duration  `json:"wall"`
	CPU       time.Duration  `json:"cpu"`     // of the operator, until it was at rest
	RSS       int64          `json:"rss"`     // at the end
	PeakRSS   int64          `json:"peakRSS"` // of the phase
	Requests  map[string]int `json:"requests"`
	Conflicts int            `json:"conflicts"`
	Failures  int            `json:"failures"` // other answers of 400 and above
	Handled   int            `json:"handled"`  // calls of the handler
}

// count adds up the requests that are of interest.
func (f Figures) count(of func(verb, resource string) bool) int {
	sum := 0
	for request, n := range f.Requests {
		if verb, resource, _ := strings.Cut(request, " "); of(verb, resource) {
			sum += n
		}
	}
	return sum
}

// writes is how many requests might have changed what the operator is about.
func (f Figures) writes() int {
	return f.count(func(verb, resource string) bool { return !reading(verb) && resource != "events" && resource != reviews })
}

func (f Figures) events() int {
	return f.count(func(verb, resource string) bool { return !reading(verb) && resource == "events" })
}

func (f Figures) reads() int {
	return f.count(func(verb, resource string) bool { return reading(verb) || resource == reviews })
}

// reviews are questions about the rights of a process, which store nothing.
const reviews = "selfsubjectaccessreviews"

func reading(verb string) bool { return verb == http.MethodGet || verb == measure.Watch }

// A result is one run of a variant.
type result struct {
	Variant string             `json:"variant"`
	Round   int                `json:"round"`
	Phases  map[string]Figures `json:"phases"`
	// Of the phase single, in the order of the changes: from the arrival of
	// the parent's event to the child's request, and to the child's event.
	Left []time.Duration `json:"left"`
	Seen []time.Duration `json:"seen"`
}

// runAll runs every variant in every round, and tells of each run. With an error
// it returns the runs before it.
func runAll(ctx context.Context, opts options, tell func(*result)) ([]*result, error) {
	var results []*result
	for round := range opts.rounds {
		order := slices.Clone(opts.variants)
		if round%2 == 1 { // so that nobody always follows the same one
			slices.Reverse(order)
		}
		for _, v := range order {
			r, err := runOne(ctx, opts, v, round)
			if err != nil {
				return results, fmt.Errorf("%s: %w", v.name, err)
			}
			tell(r)
			results = append(results, r)
		}
	}
	return results, nil
}

// A bench is one run under way.
type bench struct {
	opts    options
	variant variant
	world   *world
	config  string // path of a kubeconfig
	process *process
	last    measure.Stats
	result  *result
}

func runOne(ctx context.Context, opts options, v variant, round int) (r *result, err error) {
	cluster, err := testkit.Start(testkit.ClusterOptions{CRDPaths: []string{opts.crd}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	w, err := newWorld(cluster.RESTConfig(), opts.parents)
	if err != nil {
		return nil, err
	}
	b := &bench{
		opts: opts, variant: v, world: w, config: cluster.Kubeconfig(),
		result: &result{Variant: v.name, Round: round, Phases: map[string]Figures{}},
	}
	if err := w.populate(ctx); err != nil {
		return nil, fmt.Errorf("populate: %w", err)
	}
	defer func() {
		if b.process != nil {
			err = errors.Join(err, b.process.stop())
		}
	}()
	for _, phase := range []struct {
		name string
		do   func(context.Context) error
		skip bool
	}{
		{name: "cold", do: b.cold},
		{name: "spec", do: b.spec},
		{name: "repair", do: b.repair},
		{name: "single", do: b.single, skip: opts.singles == 0},
		{name: "quiet", do: b.quiet, skip: opts.quiet == 0 || round > 0},
		{name: "restart", do: b.restart},
	} {
		if phase.skip || phase.name != "cold" && !slices.Contains(opts.phases, phase.name) {
			continue
		}
		if err := phase.do(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", phase.name, err)
		}
	}
	return b.result, nil
}

// begin starts an operator.
func (b *bench) begin(ctx context.Context) error {
	p, err := start(ctx, b.opts, b.variant, b.config)
	b.process, b.last = p, measure.Stats{}
	return err
}

// end notes the figures of a phase that took so long.
func (b *bench) end(ctx context.Context, phase string, wall time.Duration) error {
	stats, err := b.process.rest(ctx)
	if err != nil {
		return err
	}
	f := Figures{
		Wall: wall, CPU: stats.CPU - b.last.CPU, Requests: map[string]int{},
		Conflicts: stats.Conflicts - b.last.Conflicts, Failures: stats.Failures - b.last.Failures,
		Handled: stats.Handled - b.last.Handled,
	}
	for request, n := range stats.Requests {
		if n -= b.last.Requests[request]; n > 0 {
			f.Requests[request] = n
		}
	}
	if f.RSS, f.PeakRSS, err = b.process.memory(); err != nil {
		return err
	}
	b.result.Phases[phase], b.last = f, stats
	return b.process.forgetPeak()
}

func (b *bench) cold(ctx context.Context) error {
	settled := b.world.settled(ctx, 1)
	if err := b.begin(ctx); err != nil {
		return err
	}
	at, err := settled.wait(ctx, patience)
	if err != nil {
		return err
	}
	if err := b.end(ctx, "cold", at.Sub(b.process.started)); err != nil {
		return err
	}
	return b.world.verify(ctx, "first")
}

func (b *bench) spec(ctx context.Context) error {
	settled := b.world.settled(ctx, 2)
	from := time.Now()
	err := b.world.each(ctx, func(ctx context.Context, i int) error { return b.world.change(ctx, i, "second") })
	if err != nil {
		return err
	}
	at, err := settled.wait(ctx, patience)
	if err != nil {
		return err
	}
	if err := b.end(ctx, "spec", at.Sub(from)); err != nil {
		return err
	}
	return b.world.verify(ctx, "second")
}

func (b *bench) repair(ctx context.Context) error {
	ready, restored := b.world.restored(ctx)
	<-ready
	from := time.Now()
	if err := b.world.deleteConfigMaps(ctx); err != nil {
		return err
	}
	at, err := restored.wait(ctx, patience)
	if err != nil {
		return err
	}
	if err := b.end(ctx, "repair", at.Sub(from)); err != nil {
		return err
	}
	return b.world.verify(ctx, "second")
}

func (b *bench) quiet(ctx context.Context) error {
	select {
	case <-time.After(b.opts.quiet):
	case <-ctx.Done():
		return ctx.Err()
	}
	return b.end(ctx, "quiet", b.opts.quiet)
}

// restart restarts the operator several times, as that takes less than a second
// and depends on what else the machine does in it, and keeps the figures of the
// one that took the median time, with the requests of the one that wrote most.
func (b *bench) restart(ctx context.Context) error {
	var all []Figures
	for range restarts {
		if err := b.restartOnce(ctx); err != nil {
			return err
		}
		all = append(all, b.result.Phases["restart"])
	}
	slices.SortFunc(all, func(x, y Figures) int { return cmp.Compare(x.Wall, y.Wall) })
	median := all[len(all)/2]
	most := slices.MaxFunc(all, func(x, y Figures) int { return cmp.Compare(x.writes(), y.writes()) })
	if most.writes() > median.writes() {
		median.Requests = most.Requests
	}
	b.result.Phases["restart"] = median
	return b.world.verify(ctx, "")
}

func (b *bench) restartOnce(ctx context.Context) error {
	if err := b.process.stop(); err != nil {
		return err
	}
	b.process = nil
	if err := b.begin(ctx); err != nil {
		return err
	}
	var all time.Time
	if err := b.process.get(ctx, "/all", &all); err != nil {
		return err
	}
	return b.end(ctx, "restart", all.Sub(b.process.started))
}
