package sim

import (
	"bufio"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/roperator/roperator/internal/testing/faults"
	"github.com/roperator/roperator/internal/testing/order"
)

// A script is all that a run is told to do.
type script struct {
	Replicas   int
	Strategies []string // of ConfigMap, Secret and Part
	Options    []string // what else the operators and the server are set to
	Actions    []action
	Faults     []faults.Fault
}

// What a run may be set to.
const (
	dense         = "dense"         // short waits and no controllers beside the operators: see denseScript
	counted       = "counted"       // only calls of the handler are judged: see lifeScript
	inNamespaces  = "namespaces"    // the operators see "ns" and "ns2" alone
	withSelector  = "selector"      // parents that are put aside by a label aren't theirs
	byLists       = "lists"         // the server can't stream a list
	inPages       = "pages"         // nor send more than two objects of it at once
	withRelated   = "related"       // parents refer to objects that aren't their children
	withReadiness = "readiness"     // parents have Parts that others say to be ready
	inChain       = "chain"         // each of which needs the one before
	twoAtOnce     = "two-at-once"   // of which two may be unavailable
	withTeardown  = "teardown"      // children of a parent that ends are deleted type by type
	withShards    = "shards"        // the replicas share the parents
	dividing      = "dividing"      // but for the first process, which has all of them
	withAdoption  = "adoption"      // ConfigMaps without an owner are adopted
	bareHandler   = "bare"          // the handler has no Finalize
	oneAtATime    = "one-worker"    // reconciliations don't overlap
	deleteFirst   = "delete-first"  // undesired children are deleted before others are created
	conditions    = "conditions"    // the engine keeps the conditions of parents
	noGeneration  = "no-generation" // the server counts no generation of parents
	rejecting     = "rejecting"     // the server rejects ConfigMaps
	eventFirst    = string(order.EventFirst)
	responseFirst = string(order.ResponseFirst)
)

// setOrder lets a third of the seeds have the event of each write before its response, and a third after it.
func (s *script) setOrder(seed uint64) {
	switch seed % 3 {
	case 1:
		s.Options = append(s.Options, eventFirst)
	case 2:
		s.Options = append(s.Options, responseFirst)
	}
}

// order returns what arrives first; "": it is left open.
func (s *script) order() order.Order {
	for _, o := range []order.Order{order.EventFirst, order.ResponseFirst} {
		if s.is(string(o)) {
			return o
		}
	}
	return ""
}

func (s *script) is(option string) bool { return slices.Contains(s.Options, option) }

// An action is something that happens at a time.
type action struct {
	When string        // at: At after the begin; after: At after the action before; then: when all that was due is done
	At   time.Duration // 0 for then
	Verb string
	Args []string
}

const at, after, then = "at", "after", "then"

func (a action) String() string {
	when := a.When
	if when != then {
		when += " " + a.At.String()
	}
	return strings.Join(append([]string{when, a.Verb}, a.Args...), " ")
}

// lines returns the script as text, a line for everything that may be left out.
func (s *script) lines() []string {
	var out []string
	for _, a := range s.Actions {
		out = append(out, a.String())
	}
	for _, f := range s.Faults {
		out = append(out, f.Line())
	}
	return out
}

func (s *script) head() string {
	return fmt.Sprintf("with %d %s", s.Replicas, strings.Join(slices.Concat(s.Strategies, s.Options), " "))
}

func (s *script) String() string {
	return s.head() + "\n" + strings.Join(s.lines(), "\n") + "\n"
}

// jitter returns the jitter of the queues: a number that the strategies decide, so it is the same in each run.
func (s *script) jitter() func() float64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(strings.Join(s.Strategies, " "))) // never fails
	number := float64(h.Sum32()%1000) / 1000
	return func() float64 { return number }
}

// parseScript reads what String has written. Lines that begin with # say
// nothing.
func parseScript(text string) (*script, error) {
	s := &script{}
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if err := s.parse(words); err != nil {
			return nil, fmt.Errorf("line %d: %q: %w", n, lines.Text(), err)
		}
	}
	if s.Replicas == 0 {
		return nil, fmt.Errorf("there is no line that begins with %q", "with")
	}
	return s, lines.Err()
}

func (s *script) parse(words []string) (err error) {
	switch count := len(words); {
	case words[0] == "with" && count >= 5:
		s.Strategies, s.Options = words[2:5], words[5:]
		s.Replicas, err = strconv.Atoi(words[1])
		return err
	case words[0] == then && count >= 2:
		s.Actions = append(s.Actions, action{When: then, Verb: words[1], Args: words[2:]})
		return nil
	case (words[0] == at || words[0] == after) && count >= 3:
		a := action{When: words[0], Verb: words[2], Args: words[3:]}
		a.At, err = time.ParseDuration(words[1])
		s.Actions = append(s.Actions, a)
		return err
	case words[0] == "on":
		f, err := faults.ParseLine(words)
		s.Faults = append(s.Faults, f)
		return err
	}
	return fmt.Errorf("expected with REPLICAS, three strategies and OPTIONS, at or after TIME VERB ARGS, then VERB ARGS, or on NAME #N OUTCOME DELAY")
}
