package storm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/explain"
	"github.com/roperator/roperator/internal/engine/view"
	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/internal/recording"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/faults"
	"github.com/roperator/roperator/resource"
)

// A world is one run.
type world struct {
	scenario   *Scenario
	operator   config.Operator // with defaults
	script     script
	dice       *dice
	calm       bool // there are no faults: everything is checked
	newHandler func() handler.Handler
	builtIn    func(t resource.Type) *listkeys.Node
	hide       recording.Hider
	kinds      []fakeapi.Kind
	server     server
	namespace  string // of objects that name none
	managed    bool   // the cluster has controllers of its own
	pace       pace
	begin      time.Time
	checked    atomic.Int64 // calls that may be checked
	env        environment
	healed     chan struct{}  // closed when the faults end
	undone     sync.WaitGroup // what others put back
	started    sync.WaitGroup // processes
	looking    sync.Mutex     // one check at a time

	mu struct {
		sync.Mutex
		history    []event
		violations []Violation
		processes  map[int]*process // running ones, by replica
		failing    map[string]string
		down       time.Time       // the API server can't be reached before
		silent     time.Time       // outside systems don't answer before
		disturbed  map[string]bool // related objects that others will put back as they were
		writes     []string
		uids       map[types.UID]types.UID // of objects, by those that they had where they were recorded
	}
}

// An event is something that has happened.
type event struct {
	at      time.Duration
	text    string
	process string // who has done it; empty: somebody else
	weight  int    // how much it tells: 0 is left out first
}

// A Violation is something that must not be. Of one kind and subject only the first is told.
type Violation struct{ Kind, Subject, Text string }

// An outcome is what has become of a run.
type outcome struct {
	script     script
	violations []Violation
	history    []event
	state      state
	failing    map[string]string // parents, with their last error
}

// run lets a script happen. Without a real API server it must be called in a bubble.
func (w *world) run() *outcome {
	w.begin, w.healed = time.Now(), make(chan struct{})
	w.mu.processes = map[int]*process{}
	w.mu.failing, w.mu.disturbed, w.mu.uids = map[string]string{}, map[string]bool{}, map[types.UID]types.UID{}
	w.env.start(w)
	for _, e := range w.scenario.externals {
		e.world.Store(w)
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { w.env.run(ctx) })
	wg.Go(func() { w.server.run(ctx) })
	for i := range w.script.Replicas {
		wg.Go(func() { w.replica(ctx, i) })
	}
	acting := make(chan struct{})
	go func() { defer close(acting); w.act() }()
	for _, i := range w.script.Order {
		w.pauseBefore(i)
		w.take(w.scenario.steps[i])
	}
	<-acting
	<-time.After(w.pace.lastFaults)
	w.heal()
	w.settle()
	out := &outcome{state: w.stateOf()}
	w.check(ctx)
	stop()
	wg.Wait()
	w.started.Wait()
	<-time.After(w.pace.leftovers)
	for _, e := range w.scenario.externals {
		e.world.Store(nil)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	out.script, out.violations, out.history, out.failing = w.script, w.mu.violations, w.mu.history, w.mu.failing
	out.script.Faults = w.dice.Met()
	return out
}

// pauseBefore waits for the time of a step.
func (w *world) pauseBefore(step int) {
	gap := w.script.Gaps[step]
	if gap > 0 {
		<-time.After(gap)
	}
}

// act does what others do, each at its time.
func (w *world) act() {
	for _, a := range w.script.Acts {
		<-time.After(time.Until(w.begin.Add(a.At)))
		switch a.Verb {
		case "kill", "stop", "outage", "silence", "cut-lease", "compact", "break-watches":
			w.note("%s", map[string]string{
				"kill": "a process is killed", "stop": "a process is told to stop", "outage": "the API server can't be reached for " + a.For.String(),
				"silence":   "no outside system answers for " + a.For.String(),
				"cut-lease": "a process can't reach the lease for " + a.For.String(), "compact": "the API server forgets what was before",
				"break-watches": "all watches end",
			}[a.Verb])
		}
		w.perform(a)
	}
}

func (w *world) heal() {
	w.dice.Heal()
	close(w.healed)
	w.undone.Wait()
	w.mu.Lock()
	w.mu.down, w.mu.silent = time.Time{}, time.Time{}
	w.mu.Unlock()
	for _, p := range w.running() {
		p.Cut(0)
	}
	if !w.calm {
		w.note("the faults end")
	}
}

// settle waits until nobody writes any more, and no call of the handler is under way.
func (w *world) settle() {
	window := w.pace.window
	if w.calm {
		window = w.pace.calmWindow
	}
	var writes, calls []string
	for range w.pace.maxWindows {
		w.mu.Lock()
		w.mu.writes = nil
		w.mu.Unlock()
		_, resync := w.underWay()
		<-time.After(window + min(resync, w.pace.maxResync))
		w.mu.Lock()
		writes = slices.Clone(w.mu.writes)
		w.mu.Unlock()
		calls, _ = w.underWay()
		if len(writes) == 0 && len(calls) == 0 && !w.isThrottled() {
			return
		}
	}
	if len(calls) > 0 {
		w.violated("silence", "", "the operator doesn't come to rest: %s doesn't return", some(calls))
		return
	}
	if len(writes) > 0 {
		w.violated("silence", "", "the operator doesn't fall silent: in the last %v it has written %d times: %s", window, len(writes), some(writes))
	}
}

// underWay returns which calls of handlers are under way, and the longest Resync.
func (w *world) underWay() (calls []string, resync time.Duration) {
	for _, p := range w.running() {
		if p.proxy != nil && !p.Killed() {
			some, longest := p.proxy.underWay()
			calls, resync = append(calls, some...), max(resync, longest)
		}
	}
	return calls, resync
}

// isThrottled says whether a parent waits since its children were written again and again, which
// others may have done: that ends by itself.
func (w *world) isThrottled() bool {
	for _, p := range w.running() {
		if e := p.engine(); e != nil && slices.ContainsFunc(e.Survey(), func(row view.Parent) bool { return row.State == explain.Throttled }) {
			return true
		}
	}
	return false
}

// some names the different ones of some texts, the first of them.
func some(texts []string) string {
	var out []string
	for _, text := range texts {
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	if len(out) > 3 {
		out = append(out[:3], "…")
	}
	return strings.Join(out, ", ")
}

func (w *world) clusterScoped(t resource.Type) bool {
	at := slices.IndexFunc(w.kinds, func(k fakeapi.Kind) bool { return k.Type == t })
	return at >= 0 && w.kinds[at].ClusterScoped
}

// checksCall says whether a call is to be made again.
func (w *world) checksCall() bool {
	return w.calm || w.checked.Add(1)%4 == 0
}

// ownership is the label that tells whose child an object is.
func (w *world) ownership() string { return w.operator.OwnershipLabel }

func (w *world) setDown(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.down = time.Now().Add(d)
}

func (w *world) isDown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Before(w.mu.down)
}

func (w *world) setSilent(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.silent = time.Now().Add(d)
}

// areSilent says whether the outside systems answer nothing.
func (w *world) areSilent() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Before(w.mu.silent)
}

// changed lets the controllers of the cluster look.
func (w *world) changed() { w.env.wake() }

// asked notes a request.
func (w *world) asked(p *process, x *faults.Exchange, f faults.Fault) {
	switch {
	case f.Outcome != "":
		w.met(p, x.Name, f)
	case x.Write && !isLease(x):
		w.say(event{text: x.Name, process: p.Name})
	}
}

// told notes a call of an outside system.
func (w *world) told(p *process, what string, f faults.Fault) {
	if f.Outcome != "" {
		what += ": " + f.String()
	}
	w.say(event{text: what, process: p.Name, weight: weightOf(f)})
}

// met notes what something has met.
func (w *world) met(p *process, what string, f faults.Fault) {
	if f.Outcome != "" {
		w.say(event{text: what + ": " + f.String(), process: p.Name, weight: weightOf(f)})
	}
}

func weightOf(f faults.Fault) int {
	if f.Outcome == "" || f.Outcome == faults.Late {
		return 0
	}
	return 2
}

// wrote notes that the operator has written.
func (w *world) wrote(p *process, x *faults.Exchange) {
	if isLease(x) {
		return
	}
	w.mu.Lock()
	w.mu.writes = append(w.mu.writes, x.Name)
	w.mu.Unlock()
	if len(w.scenario.always) > 0 && !p.Killed() {
		w.look("always", w.scenario.always)
	}
}

// look makes checks of the scenario's. One that panics, or ends its goroutine as require does, has failed.
func (w *world) look(kind string, checks []func(World) error) {
	w.looking.Lock()
	defer w.looking.Unlock()
	for _, check := range checks {
		err := errors.New("the check has ended the test, as t.Fatal and require do; let it return an error instead")
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() {
				if v := recover(); v != nil {
					err = fmt.Errorf("the check panics: %v", v)
				}
			}()
			err = check(World{w})
		}()
		if <-done; err != nil {
			w.violated(kind, "", "%v", err)
		}
	}
}

func (w *world) note(format string, args ...any) {
	w.say(event{text: fmt.Sprintf(format, args...), weight: 2})
}

func (w *world) say(e event) {
	e.at = time.Since(w.begin)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.history = append(w.mu.history, e)
}

// violated notes a violation. An empty subject stands for the text.
func (w *world) violated(kind, subject, format string, args ...any) {
	v := Violation{kind, subject, fmt.Sprintf(format, args...)}
	if subject == "" {
		v.Subject = v.Text
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	known := func(other Violation) bool { return other.Kind == v.Kind && other.Subject == v.Subject }
	if !slices.ContainsFunc(w.mu.violations, known) {
		w.mu.violations = append(w.mu.violations, v)
		w.mu.history = append(w.mu.history, event{at: time.Since(w.begin), text: "FOUND: " + v.Text, weight: 3})
	}
}
