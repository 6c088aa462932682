package storm

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/defaults"
	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/internal/recording"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/resource"
)

// A Config is what testkit.Storm is given.
type Config struct {
	Operator config.Operator
	Handler  handler.Handler // may be nil if Scenario.Handler is set
	Kinds    Kinds
	Seeds    int // 0: 200
	Scenario func(*Scenario)
	Live     *Live // nil: an API server in the process
}

const (
	defaultSeeds = 200
	liveSeeds    = 8
	liveWorkers  = 4
	seedEnv      = "ROPERATOR_STORM_SEED"
	seedsEnv     = "ROPERATOR_STORM_SEEDS"
)

// Run does what testkit.Storm says.
func Run(t testing.TB, cfg Config) {
	t.Helper()
	parent, ok := t.(interface {
		Run(name string, f func(t *testing.T)) bool
	})
	if !ok {
		t.Fatalf("testkit: storm: it needs a *testing.T, not a %T", t)
		return
	}
	s, err := newStorm(cfg)
	if err != nil {
		t.Fatalf("testkit: storm: %v", err)
		return
	}
	for _, e := range s.externals {
		if e.busy.Swap(true) {
			t.Fatalf("testkit: storm: an outside system is part of another Storm at the same time; give each its own")
			return
		}
		defer e.busy.Store(false)
	}
	if len(s.methods) > 0 {
		t.Logf("testkit: storm: all processes share the receiver of %s: a method value can't be copied. If it has state, have Scenario.Handler make the handler", some(s.methods))
	}
	begin := time.Now()
	ballast := make([]byte, 64<<20) // of which no page is ever touched; without it garbage is collected all the time
	found := s.search(parent.Run)
	runtime.KeepAlive(ballast)
	if found == nil {
		t.Logf("testkit: storm: %s, %s, nothing found, in %v", counted(int(s.ran.Load()), "seed"), counted(int(s.faults.Load()), "fault"), time.Since(begin).Round(time.Millisecond))
		if s.alone != nil {
			t.Logf("What has happened:\n  %s", strings.Join(shorten(s.alone.history), "\n  "))
		}
		return
	}
	t.Errorf("testkit: storm: %s", found.text(t.Name()))
}

// A storm is a scenario that is run under many seeds.
type storm struct {
	cfg        Config
	operator   config.Operator // with defaults
	pace       pace
	only       uint64 // the seed that is run alone; 0: all are
	seeds      uint64
	kinds      []fakeapi.Kind
	steps      int
	fails      []string // parents that are meant to
	late       []int
	newHandler func(s *Scenario) func() handler.Handler
	making     sync.Mutex // one handler of the author's at a time
	externals  []*External
	systems    []kept   // that are put back before each run
	builtIn    sync.Map // of schemas, by type
	methods    []string // method values of the handler, whose receivers all processes share
	ran        atomic.Int64
	faults     atomic.Int64
	alone      *outcome // of the seed that is run alone
}

// A kept system is an outside one, and what it was at first.
type kept struct{ system, was any }

func newStorm(cfg Config) (*storm, error) {
	s := &storm{cfg: cfg, operator: defaults.Apply(cfg.Operator), pace: bubblePace()}
	if cfg.Live != nil {
		s.pace = livePace()
	}
	if err := cfg.Operator.Validate(); err != nil {
		return nil, err
	}
	s.operator.MaxErrorBackoff = min(s.operator.MaxErrorBackoff, s.pace.maxBackoff)
	if err := s.readEnv(); err != nil {
		return nil, err
	}
	if cfg.Scenario == nil {
		return nil, errors.New("the scenario is nil")
	}
	first, err := s.scenario()
	if err != nil {
		return nil, err
	}
	if len(first.steps) == 0 {
		return nil, errors.New("scenario: it has no step: begin with Create")
	}
	if first.newHandler == nil && cfg.Handler == nil {
		return nil, errors.New("the handler is nil")
	}
	s.fails = first.failing
	s.steps, s.late = len(first.steps), first.late(cfg.Operator.Parent)
	s.externals = first.externals
	for _, system := range first.systems {
		s.systems = append(s.systems, kept{system, copyOf(newCopier(), system)})
	}
	c := newCopier(first.systems...)
	pristine := copyOf(c, cfg.Handler)
	if first.newHandler == nil {
		s.methods = c.methods
	}
	s.newHandler = func(of *Scenario) func() handler.Handler {
		if of.newHandler != nil {
			return func() handler.Handler {
				s.making.Lock()
				defer s.making.Unlock()
				return of.newHandler()
			}
		}
		return func() handler.Handler { return copyOf(newCopier(of.systems...), pristine) }
	}
	s.kinds, err = kindsOf(cfg.Operator, s.newHandler(first)(), first)
	if err == nil && cfg.Live != nil {
		s.kinds, err = cfg.Live.serve(s.kinds)
	}
	return s, err
}

// readEnv reads which seeds are run.
func (s *storm) readEnv() (err error) {
	read := func(name string, otherwise uint64) uint64 {
		text := os.Getenv(name)
		if text == "" || err != nil {
			return otherwise
		}
		n, parseErr := strconv.ParseUint(text, 10, 32)
		if parseErr != nil || n == 0 {
			err = fmt.Errorf("%s: %q isn't a number above 0", name, text)
		}
		return n
	}
	seeds := uint64(defaultSeeds)
	if s.cfg.Live != nil {
		seeds = liveSeeds
	}
	if s.cfg.Seeds > 0 {
		seeds = uint64(s.cfg.Seeds)
	}
	s.only, s.seeds = read(seedEnv, 0), read(seedsEnv, seeds)
	return err
}

func (s *storm) scenario() (*Scenario, error) {
	out := &Scenario{}
	s.cfg.Scenario(out)
	return out, out.err
}

// reset puts the outside systems back to what they were at first.
func (s *storm) reset() {
	for _, k := range s.systems {
		was := copyOf(newCopier(), k.was)
		reflect.ValueOf(k.system).Elem().Set(reflect.ValueOf(was).Elem())
	}
	for _, e := range s.externals {
		e.busy.Store(true) // it still is
	}
}

// play lets a script happen in a bubble of its own.
func (s *storm) play(t *testing.T, sc script, d *dice, calm bool) *outcome {
	s.reset()
	scenario, err := s.scenario()
	if err == nil && len(scenario.steps) != s.steps {
		err = fmt.Errorf("scenario: it had %s when it was first called, and %d now", counted(s.steps, "step"), len(scenario.steps))
	}
	if err != nil {
		return &outcome{script: sc, violations: []Violation{{Kind: "scenario", Text: err.Error()}}}
	}
	w := &world{
		scenario: scenario, operator: s.operator, namespace: "default", pace: s.pace, script: sc, dice: d, calm: calm, kinds: s.kinds,
		newHandler: s.newHandler(scenario), builtIn: s.builtInSchema, hide: recording.ByKey("storm"),
	}
	if s.cfg.Live != nil {
		return s.playLive(t, w)
	}
	return s.playInBubble(t, w)
}

// playInBubble runs a world in a bubble. A bubble that can't end panics.
func (s *storm) playInBubble(t *testing.T, w *world) (out *outcome) {
	defer func() {
		if v := recover(); v != nil {
			out = &outcome{script: w.script, violations: []Violation{{Kind: "goroutines", Text: fmt.Sprintf("a goroutine that the handler has started doesn't end when the process does: %v", v)}}}
		}
	}()
	synctest.Test(t, func(*testing.T) {
		w.server = newInProcess(s.kinds)
		out = w.run()
	})
	return out
}

// playLive runs a world on the real API server, in a namespace of its own.
func (s *storm) playLive(t *testing.T, w *world) *outcome {
	server, err := s.cfg.Live.open(t.Context(), s.kinds)
	if err != nil {
		return &outcome{script: w.script, violations: []Violation{{Kind: "scenario", Text: err.Error()}}}
	}
	defer server.close()
	w.server, w.namespace, w.managed = server, server.namespace, s.cfg.Live.Managed
	w.operator.Namespaces = []string{server.namespace}
	return w.run()
}

// mayFail says whether a parent is meant to fail.
func (s *storm) mayFail(name string) bool {
	return slices.Contains(s.fails, name)
}

// builtInSchema is listkeys.For, which takes its time.
func (s *storm) builtInSchema(t resource.Type) *listkeys.Node {
	known, ok := s.builtIn.Load(t)
	if !ok {
		known, _ = s.builtIn.LoadOrStore(t, listkeys.For(t))
	}
	return known.(*listkeys.Node)
}

// calmly runs some steps without faults.
func (s *storm) calmly(t *testing.T, steps []int) *outcome {
	sc := script{Replicas: 1, Order: steps, Gaps: make([]time.Duration, s.steps)}
	for i := range sc.Gaps {
		sc.Gaps[i] = s.pace.calmGap
	}
	return s.play(t, sc, played(nil), true)
}

func (s *storm) allSteps() []int {
	out := make([]int, s.steps)
	for i := range out {
		out[i] = i
	}
	return out
}

// A finding is a run that has failed.
type finding struct {
	seed       uint64 // 0: without faults
	began      script // the script before it was made shorter
	outcome    *outcome
	violations []Violation
}

// search runs the seeds, and returns what it has found, nil if nothing.
func (s *storm) search(run func(name string, f func(t *testing.T)) bool) (found *finding) {
	var ought *outcome
	run("without faults", func(t *testing.T) {
		ought = s.calmly(t, s.allSteps())
		if found = s.judgeCalm(t, ought, s.allSteps()); found != nil {
			found = s.shrinkCalm(t, found)
		}
	})
	if found != nil || ought == nil {
		return found
	}
	workers := runtime.GOMAXPROCS(0)
	if s.cfg.Live != nil {
		workers = liveWorkers // they wait most of the time
	}
	if len(s.systems) > 0 || s.only > 0 {
		workers = 1
	}
	var next atomic.Uint64
	var mu sync.Mutex // guards found
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			run(fmt.Sprint("seeds ", i+1), func(t *testing.T) {
				for seed := s.next(&next); seed > 0; seed = s.next(&next) {
					if one := s.try(t, seed, ought); one != nil {
						next.Store(s.seeds)
						mu.Lock()
						if found == nil || one.seed < found.seed {
							found = one
						}
						mu.Unlock()
					}
				}
			})
		})
	}
	wg.Wait()
	if found != nil {
		run("shorter", func(t *testing.T) { s.shrink(t, found, ought) })
	}
	return found
}

// next returns the next seed, 0 if there is none.
func (s *storm) next(count *atomic.Uint64) uint64 {
	n := count.Add(1)
	switch {
	case s.only > 0 && n == 1:
		return s.only
	case s.only > 0 || n > s.seeds:
		return 0
	}
	return n
}

// judgeCalm looks at a run without faults, and whether another one ends in the same way.
func (s *storm) judgeCalm(t *testing.T, ought *outcome, steps []int) *finding {
	out := &finding{outcome: ought, violations: slices.Clone(ought.violations)}
	for _, name := range slices.Sorted(maps.Keys(ought.failing)) {
		if !s.mayFail(name) {
			out.violations = append(out.violations, Violation{Kind: "failing", Subject: name, Text: name + " fails: " + ought.failing[name] + "; say so by Scenario.Fails, if it is meant to"})
		}
	}
	if len(out.violations) > 0 {
		return out
	}
	again := s.calmly(t, steps)
	for _, v := range again.against(ought) {
		if v.Kind == "state" {
			v.Text = strings.NewReplacer("and without faults it isn't", "and in another run it isn't", "and without faults it is", "and in another run it is", "and without faults", "and in another run").Replace(v.Text)
		}
		out.violations = append(out.violations, v)
	}
	if len(out.violations) == 0 {
		return nil
	}
	out.outcome = again
	return out
}

// try runs a seed.
func (s *storm) try(t *testing.T, seed uint64, ought *outcome) *finding {
	sc := s.pace.at(write(seed, s.cfg.Kinds, s.late, len(s.systems) > 0))
	out := s.play(t, sc, newDice(seed, s.cfg.Kinds, s.pace.divisor), false)
	s.ran.Add(1)
	s.faults.Add(int64(len(out.script.Faults) + len(out.script.Acts)))
	if s.only > 0 {
		s.alone = out
	}
	violations := out.against(ought)
	if len(violations) == 0 {
		return nil
	}
	return &finding{seed: seed, began: out.script, outcome: out, violations: violations}
}
