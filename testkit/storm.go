package testkit

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/storm"
	"github.com/roperator/roperator/resource"
)

// Faults says which faults a [Storm] makes. If no kind is set, it makes all of them.
type Faults struct {
	// Kill ends a process before or after any write, call of the handler or call of an
	// outside system, and starts another.
	Kill bool
	// Lag makes requests and watches late, and watches end, break and start anew.
	Lag bool
	// Errors are answers 429, 500, 503 and 504, connections that break before or after the
	// request took effect, answers that are cut, and times without an API server.
	Errors bool
	// Conflicts are answers 409 to writes.
	Conflicts bool
	// Leader runs two processes with an election, of which one loses the lease.
	Leader bool
	// Others are other writers: they delete children and change what the handler wants of
	// them, and they change related objects, or delete and create them anew, and put them
	// back as they were.
	Others bool
	// Late has the objects of the scenario that aren't parents come later than it says.
	Late bool
	// External makes calls of outside systems fail, with and without having taken effect, and
	// takes some of them twice: see [Scenario.External].
	External bool
	// Seeds is how many seeds are run; 0: 200. The environment variable
	// ROPERATOR_STORM_SEEDS overrides it.
	Seeds int
}

// Storm runs an operator with a handler through a scenario, again and again, each time under other
// faults, and fails the test if the operator doesn't end as it does without faults:
//
//	testkit.Storm(t, operator, h, testkit.Faults{}, func(s *testkit.Scenario) {
//		s.Create(site)
//		s.Update(siteWithAnotherImage)
//		s.Delete(site)
//	})
//
// It needs no cluster: each seed has an API server in the process, in a bubble of
// testing/synctest, so that hours pass in milliseconds. First the scenario is run without
// faults. Then each seed draws faults; when they are over, and all is quiet, these must hold:
//
//   - the cluster is as it is without faults. UIDs, resourceVersions, generations, times and
//     the order of what has none may differ, and nothing else but what [Scenario.Ignore] says;
//   - the operator has fallen silent: it writes nothing any more;
//   - no parent fails, but for those of which [Scenario.Fails] says so, and none whose handler
//     succeeds. Calls return, and goroutines that a handler has started end with its process;
//   - parents that were deleted are gone, and no child has outlived its parent;
//   - Sync is a function: called again for the same snapshot, in the same process or in
//     another, it answers the same; minutes later, too, unless its answer has a Resync;
//   - Finalize can be repeated: called again for a snapshot for which it has returned
//     Finalized, it does so again;
//   - the checks of the scenario hold: see [Scenario.Always] and [Scenario.Finally].
//
// A seed that fails is run again with fewer faults and steps, and the shortest history that
// fails in the same way is printed. ROPERATOR_STORM_SEED=n runs one seed alone. In which order
// goroutines run isn't the seed's to decide, so a seed meets nearly the same each time, but
// not quite.
//
// Each process has a handler of its own: a copy of h as it was when Storm was called, with all
// that h's pointers, maps, slices and interfaces lead to, as far as its types are those of the
// module under test, of k8s.io/api and k8s.io/apimachinery, and plain ones. The variables of
// functions, channels, types of other modules and outside systems (see [Scenario.External])
// are shared, and so is the receiver of a method value, such as that of
// handler.Funcs{SyncFunc: h.sync}. [Scenario.Handler] is for handlers of which that is no use.
// What a process remembers ends with it, so that an operator which needs its memory fails.
//
// Several seeds run at the same time, unless there is an outside system: scenario, its
// checks and functions that h shares must be safe for that. Goroutines that the handler starts
// must end with the context that it was called with. Time stands still while something waits
// for the network: a handler's own HTTP client has to be a double.
//
// The API server has no admission. Built-in types have their fields, defaults and immutable
// fields, no further validation, and the controllers that they need as far as status goes: Pods
// run, and Deployments become available. Custom types have their schemas if [Scenario.CRDs] or
// config.Operator.CRDs tell them, and the controllers of [Scenario.Controller].
//
// The error backoff is at most 20 s, whatever cfg says. t must be a *testing.T.
func Storm(t testing.TB, cfg config.Operator, h handler.Handler, faults Faults, scenario func(s *Scenario)) {
	t.Helper()
	storm.Run(t, storm.Config{
		Operator: cfg, Handler: h, Kinds: faults.kinds(), Seeds: faults.Seeds,
		Scenario: func(s *storm.Scenario) { scenario(&Scenario{s: s}) },
	})
}

// StormOn is Storm on a real API server, so that defaults, schemas, admission and, if it runs
// there, kube-controller-manager are those of a cluster. Faults are made between the operator
// and the API server. Time is real, so gaps and outages are a tenth of Storm's, a seed takes
// some fifteen seconds, four of them run at a time, and 8 are run if Faults.Seeds is 0. It finds
// less per minute than Storm: begin with that.
//
// Each run has a namespace of its own. Objects of which the scenario names no namespace, or
// "default", are there; others can't be, so types must be namespaced. What the cluster has no
// controllers for (see [ClusterOptions]) is done as in a Storm.
func StormOn(t testing.TB, cluster *Cluster, cfg config.Operator, h handler.Handler, faults Faults, scenario func(s *Scenario)) {
	t.Helper()
	storm.Run(t, storm.Config{
		Operator: cfg, Handler: h, Kinds: faults.kinds(), Seeds: faults.Seeds,
		Scenario: func(s *storm.Scenario) { scenario(&Scenario{s: s}) },
		Live:     &storm.Live{RESTConfig: cluster.RESTConfig(), Managed: cluster.HasControllerManager()},
	})
}

func (f Faults) kinds() storm.Kinds {
	kinds := storm.Kinds{
		Kill: f.Kill, Lag: f.Lag, Errors: f.Errors, Conflicts: f.Conflicts, Leader: f.Leader, Others: f.Others, Late: f.Late, External: f.External,
	}
	if kinds == (storm.Kinds{}) {
		return storm.All()
	}
	return kinds
}

// A Scenario is what happens to an operator, and what must hold then. What it is told to do are
// steps, which are taken when the function that was given to [Storm] has returned: one after the
// other, now at once, now after a while, without faults when the operator has done what the
// last one asks for. Objects are whatever may be returned as a child; one of a namespaced type
// that names no namespace is in "default".
//
// The function is called for each seed. Its methods must be called by that function's goroutine.
type Scenario struct{ s *storm.Scenario }

// CRDs names files of CustomResourceDefinitions: objects of these types are pruned, defaulted and
// validated as an API server does, but for CEL rules. config.Operator.CRDs needn't be named.
func (s *Scenario) CRDs(paths ...string) { s.s.CRDs(paths...) }

// Create creates an object: a parent, or something that a parent refers to. With a status it
// has that status.
func (s *Scenario) Create(obj any) { s.s.Create(obj) }

// Recorded adds steps that create what was recorded of a live operator: the parents as they last were,
// with their status, and what they referred to. The values of Secrets are texts that stand for
// them. Children aren't among them: the operator makes its own.
func (s *Scenario) Recorded(r *Recording) { s.s.Recorded((*storm.Recording)(r)) }

// Update sets what obj has of an object: labels and annotations that obj has, and each
// other field beside metadata as a whole. What a typed object encodes it has: fields without
// omitempty, too. The object may be a child: if it isn't there, it is awaited for five minutes of
// the time in the Storm, in a [StormOn] for ten seconds.
func (s *Scenario) Update(obj any) { s.s.Update(obj) }

// Change has somebody change the object that obj names, as an Update does.
func (s *Scenario) Change(obj any, change func(object map[string]any)) { s.s.Change(obj, change) }

// Delete deletes the object that obj names, which is awaited as for Update.
func (s *Scenario) Delete(obj any) { s.s.Delete(obj) }

// Controller is what a controller of another's does to each object of a type, again after each
// change of the object, a little later: it sets the status, say. It must come to rest.
func (s *Scenario) Controller(t resource.Type, act func(object map[string]any)) {
	s.s.Controller(t, act)
}

// External adds an outside system whose calls meet faults: a struct that embeds an [External],
// by pointer. It is shared by all processes, and before each seed it is put back to what it
// was when Storm first saw it; how is as handlers are copied.
func (s *Scenario) External(system ExternalSystem) { s.s.External(system, system.external()) }

// Handler sets what makes the handler of each process, in place of copies of the one that Storm
// was given. It isn't called concurrently.
func (s *Scenario) Handler(newHandler func() handler.Handler) { s.s.Handler(newHandler) }

// Ignore says that a field may end otherwise than without faults, in any object. A "*" stands
// for any name, and for every item of a list: Ignore("status", "history", "*", "number").
func (s *Scenario) Ignore(path ...string) { s.s.Ignore(path...) }

// IgnoreType says that objects of a type may end otherwise than without faults, or may not be
// there at all. It is for operators of which the way decides where they arrive. Say with Finally
// what must be so.
func (s *Scenario) IgnoreType(t resource.Type) { s.s.IgnoreType(t) }

// Fails says that a parent fails without faults, too: its spec is invalid, say. Without it a
// parent that fails in the end is a finding.
func (s *Scenario) Fails(obj any) { s.s.Fails(obj) }

// Always adds a check that must hold after every write, the operator's and others'. It must
// return soon, and must not wait.
func (s *Scenario) Always(check func(World) error) {
	s.s.Always(func(w storm.World) error { return check(World{w}) })
}

// Finally adds a check that must hold when the faults are over and the operator is silent.
func (s *Scenario) Finally(check func(World) error) {
	s.s.Finally(func(w storm.World) error { return check(World{w}) })
}

// A Recording is what [ReadRecording] has read.
type Recording storm.Recording

// ReadRecording reads a recording that [Record], or the package handler/recorder, has made, so that
// scenarios can begin with it. An error names the line.
func ReadRecording(r io.Reader) (*Recording, error) {
	out, err := storm.ReadRecording(r)
	if err != nil {
		return nil, fmt.Errorf("testkit: %w", err)
	}
	return (*Recording)(out), nil
}

// A World is what there is in the cluster of a [Storm] at the moment.
type World struct{ w storm.World }

// Get returns the object that obj names, nil if it isn't there.
func (w World) Get(obj any) *resource.Resource { return w.w.Get(obj) }

// List returns the objects of a type by namespace and name.
func (w World) List(t resource.Type) []*resource.Resource { return w.w.List(t) }

// Children returns the objects whose controller the object is that obj names: by type,
// namespace and name.
func (w World) Children(obj any) []*resource.Resource { return w.w.Children(obj) }

// An External is to be embedded in a double of an outside system: a registry, a cloud, a
// database. What the handler asks of it goes through Call:
//
//	type registry struct {
//		testkit.External
//		mu    sync.Mutex
//		teams map[string]string
//	}
//
//	func (r *registry) Create(ctx context.Context, name string) error {
//		return r.Call(ctx, "create "+name, func() error {
//			r.mu.Lock()
//			defer r.mu.Unlock()
//			r.teams[name] = "new"
//			return nil
//		})
//	}
//
// The zero value is usable, and makes no faults outside of a Storm.
type External struct{ e storm.External }

// Call calls do and returns its error. In a Storm it may do so late, not at all, or twice, and
// return an error though do has succeeded; and the process may die before do or after it. ctx is
// that of the handler's call. name says what is asked, and tells it from other calls: "create a".
// It is in the history of a seed that fails, so it must have no secret.
func (e *External) Call(ctx context.Context, name string, do func() error) error {
	return e.e.Call(ctx, name, do)
}

func (e *External) external() *storm.External { return &e.e }

// An ExternalSystem is a pointer to a struct that embeds an [External].
type ExternalSystem interface{ external() *storm.External }
