package storm

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/encode"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// A Scenario is what happens to an operator from outside, and what must be so. testkit.Scenario
// says what its methods do. They belong to one goroutine.
type Scenario struct {
	steps       []step
	always      []func(World) error
	finally     []func(World) error
	externals   []*External
	systems     []any // what the externals are parts of
	controllers map[resource.Type][]func(object map[string]any)
	newHandler  func() handler.Handler
	ignored     [][]string
	failing     []string        // parents that end so, by name
	untold      []resource.Type // whose objects aren't compared
	definitions [][]byte        // CustomResourceDefinitions
	err         error           // the first mistake
}

// A step is something that somebody does.
type step struct {
	verb   string
	object map[string]any
	change func(object map[string]any)
	t      resource.Type
	key    types.NamespacedName
}

// place is the key as it is in a namespaced type.
func (s step) place() types.NamespacedName {
	return types.NamespacedName{Namespace: cmp.Or(s.key.Namespace, "default"), Name: s.key.Name}
}

func (s step) String() string { return s.verb + " " + named(s.t, s.key) }

// named returns "Kind namespace/name".
func named(t resource.Type, key types.NamespacedName) string {
	if key.Namespace == "" {
		return t.Kind + " " + key.Name
	}
	return t.Kind + " " + key.String()
}

// Create adds a step.
func (s *Scenario) Create(obj any) { s.add("create", obj, nil) }

// Update adds a step.
func (s *Scenario) Update(obj any) { s.add("update", obj, nil) }

// Change adds a step.
func (s *Scenario) Change(obj any, change func(object map[string]any)) { s.add("change", obj, change) }

// Delete adds a step.
func (s *Scenario) Delete(obj any) { s.add("delete", obj, nil) }

func (s *Scenario) add(verb string, obj any, change func(object map[string]any)) {
	object, err := encode.Map(obj)
	if err != nil {
		s.fail(fmt.Errorf("%s: %w", verb, err))
		return
	}
	t, key, err := encode.Identity(obj)
	if err != nil {
		s.fail(fmt.Errorf("%s: %w", verb, err))
		return
	}
	s.steps = append(s.steps, step{verb: verb, object: object, change: change, t: t, key: key})
}

func (s *Scenario) fail(err error) {
	if s.err == nil {
		s.err = fmt.Errorf("scenario: %w", err)
	}
}

// Always adds a check.
func (s *Scenario) Always(check func(World) error) { s.always = append(s.always, check) }

// Finally adds a check.
func (s *Scenario) Finally(check func(World) error) { s.finally = append(s.finally, check) }

// External adds an outside system, which e is a part of.
func (s *Scenario) External(system any, e *External) {
	s.externals, s.systems = append(s.externals, e), append(s.systems, system)
}

// Controller adds what another controller does to each object of a type.
func (s *Scenario) Controller(t resource.Type, act func(object map[string]any)) {
	if s.controllers == nil {
		s.controllers = map[resource.Type][]func(map[string]any){}
	}
	s.controllers[t] = append(s.controllers[t], act)
}

// Handler sets what makes the handler of a process.
func (s *Scenario) Handler(newHandler func() handler.Handler) { s.newHandler = newHandler }

// Ignore adds the path of a field that may end otherwise than without faults. A Secret's
// data may be spelled as stringData.
func (s *Scenario) Ignore(path ...string) {
	s.ignored = append(s.ignored, path)
	if len(path) > 0 && path[0] == "data" {
		s.ignored = append(s.ignored, append([]string{"stringData"}, path[1:]...))
	}
}

// Fails says that a parent fails in the end.
func (s *Scenario) Fails(obj any) {
	t, key, err := encode.Identity(obj)
	if err != nil {
		s.fail(fmt.Errorf("fails: %w", err))
		return
	}
	s.failing = append(s.failing, named(t, key), named(t, types.NamespacedName{Namespace: cmp.Or(key.Namespace, "default"), Name: key.Name}))
}

// IgnoreType says that objects of a type may end otherwise than without faults.
func (s *Scenario) IgnoreType(t resource.Type) { s.untold = append(s.untold, t) }

// CRDs adds files of CustomResourceDefinitions.
func (s *Scenario) CRDs(paths ...string) {
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			s.fail(fmt.Errorf("CRDs: %w", err))
		}
		s.definitions = append(s.definitions, text)
	}
}

// types returns the types of the objects in the steps.
func (s *Scenario) types() []resource.Type {
	all := map[resource.Type]bool{}
	for _, one := range s.steps {
		all[one.t] = true
	}
	for t := range s.controllers {
		all[t] = true
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b resource.Type) int { return strings.Compare(a.String(), b.String()) })
}

// late says of each step before which other one it must come, which is len(steps) for none, if it
// may come late: the creation of what isn't a parent. Others have -1.
func (s *Scenario) late(parent resource.Type) []int {
	out := make([]int, len(s.steps))
	for i, one := range s.steps {
		if one.verb != "create" || one.t == parent {
			out[i] = -1
			continue
		}
		out[i] = i + 1
		for _, next := range s.steps[i+1:] {
			if next.t == one.t && next.place() == one.place() || one.t == k8s.Namespace && next.place().Namespace == one.key.Name {
				break
			}
			out[i]++
		}
	}
	return out
}
