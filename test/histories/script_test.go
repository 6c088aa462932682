package histories

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/testing/faults"
)

// A script is what happens in a history.
type script struct {
	seed       uint64
	options    []string
	strategies [2]config.UpdateStrategy // of ConfigMap and Part
	steps      []step
}

// What a history may be set to.
const (
	withSelector = "selector"     // only parents with the label mine=yes are the operator's
	withAdoption = "adoption"     // ConfigMaps that are nobody's are adopted
	withStandby  = "standby"      // two replicas share a lease
	byLists      = "lists"        // the API server can't stream a list
	inPages      = "pages"        // nor send more than two objects of it at once
	bareHandler  = "bare"         // the handler has no Finalize
	oneAtATime   = "one-worker"   // passes don't overlap
	deleteFirst  = "delete-first" // children that aren't wanted go before others are created
	withRelated  = "related"      // parents refer to objects that aren't their children
)

func (s *script) is(option string) bool { return slices.Contains(s.options, option) }

// A step is something that happens.
type step struct {
	after time.Duration // since the step before; 0: at once; asap: when all that was due is done
	verb  string
	args  []string
}

const asap time.Duration = -1

func (s step) String() string {
	after := "at once"
	switch {
	case s.after == asap:
		after = "then"
	case s.after > 0:
		after = "after " + s.after.String()
	}
	return strings.Join(append([]string{after + ":", s.verb}, s.args...), " ")
}

func (s *script) String() string {
	lines := []string{fmt.Sprintf("seed %d, options %v, strategies %v", s.seed, s.options, s.strategies)}
	for _, one := range s.steps {
		lines = append(lines, one.String())
	}
	return strings.Join(lines, "\n")
}

// A pen writes a script.
type pen struct {
	rng     *rand.Rand
	parents int
	related bool // parents refer to objects
}

func (p *pen) pick(of ...string) string { return of[p.rng.IntN(len(of))] }

func (p *pen) parent() string { return "p" + strconv.Itoa(p.rng.IntN(p.parents)) }

func (p *pen) value() string { return "v" + strconv.Itoa(p.rng.IntN(4)) }

func (p *pen) count(most int) string { return strconv.Itoa(1 + p.rng.IntN(most)) }

// children returns up to three of the names that all parents share.
func (p *pen) children() string {
	names := sharedNames()
	p.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return strings.Join(names[:p.rng.IntN(4)], ",")
}

func (p *pen) child() string { return p.pick(sharedNames()...) }

// sharedNames returns what children may be called.
func sharedNames() []string { return []string{"ConfigMap/a", "ConfigMap/b", "Part/a", "Part/b"} }

// A drawn is a kind of steps, with how often it is drawn and what may follow its verb.
type drawn struct {
	often int
	verb  string
	args  func() []string
}

// step returns any step.
func (p *pen) step() step {
	parent := func() []string { return []string{p.parent()} }
	child := func() []string { return []string{p.child()} }
	none := func() []string { return nil }
	table := []drawn{
		{16, "set", func() []string { return []string{p.parent(), p.value(), p.children()} }},
		{5, "fail", func() []string { return []string{p.parent(), p.pick("error", "panic", "exit", "slow")} }},
		{5, "mend", parent},
		{8, "delete", parent},
		{4, "select", func() []string { return []string{p.parent(), p.pick("yes", "no")} }},
		{2, "former", func() []string { return []string{p.parent(), p.pick("too", "alone")} }},
		{2, "hold", func() []string { return []string{p.pick(p.child(), "Parent/"+p.parent())} }},
		{2, "let-go", none},
		{6, "remove", child},
		{3, "tamper", child},
		{2, "strip", child},
		{2, "orphan", child},
		{2, "replace", child},
		{3, "occupy", child},
		{2, "collect", none},
		{8, "late", func() []string { return []string{p.pick("Parent", "ConfigMap", "Part")} }},
		{6, "on-time", none},
		{4, "twice", func() []string { return []string{p.pick("Parent", "ConfigMap", "Part"), p.count(6)} }},
		{4, "break", none},
		{4, "relist", none},
		{12, "meet", func() []string { return p.fault() }},
		{1, "backup", none},
		{1, "restore", none},
		{2, "restart", func() []string { return []string{p.pick("0", "1")} }},
		{2, "crash", func() []string { return []string{p.pick("0", "1")} }},
	}
	if p.related {
		table = append(table, p.relatedSteps()...)
	}
	sum := 0
	for _, d := range table {
		sum += d.often
	}
	at := p.rng.IntN(sum)
	for _, d := range table {
		if at -= d.often; at < 0 {
			return step{p.wait(), d.verb, d.args()}
		}
	}
	return step{}
}

// fault returns which requests meet what, and how many of them.
func (p *pen) fault() []string {
	class := p.pick("list", "watch", "get", "create", "create", "update", "delete", "delete", "status", "patch")
	outcomes := []string{faults.LateBefore, faults.LateAfter, faults.LateAfter, faults.LateAfter, faults.BreakBefore, faults.BreakAfter, "500", faults.PageMissing, faults.PageFine, faults.Hollow}
	if !slices.Contains([]string{"list", "watch", "get"}, class) { // of which no webhook takes part
		outcomes = append(outcomes, "409", "404")
	}
	return []string{class, p.pick(outcomes...), p.pick("1", "1", "1", "2", "5", "40")}
}

func (p *pen) wait() time.Duration {
	switch dice := p.rng.IntN(100); {
	case dice < 35:
		return 0
	case dice < 60:
		return asap
	case dice < 80:
		return time.Duration(1+p.rng.IntN(50)) * time.Millisecond
	case dice < 95:
		return time.Duration(100+p.rng.IntN(900)) * time.Millisecond
	}
	return time.Duration(1+p.rng.IntN(8)) * time.Second
}

// write writes the script of a seed.
func write(seed uint64) *script {
	p := &pen{rng: rand.New(rand.NewPCG(seed, 2))}
	p.parents = 2 + p.rng.IntN(5)
	s := &script{seed: seed}
	for _, option := range []string{withSelector, withAdoption, withStandby, byLists, inPages, bareHandler, oneAtATime, deleteFirst} {
		if p.rng.IntN(4) == 0 {
			s.options = append(s.options, option)
		}
	}
	if p.related = p.rng.IntN(2) == 0; p.related {
		s.options = append(s.options, withRelated)
	}
	for i := range s.strategies {
		s.strategies[i] = []config.UpdateStrategy{config.Replace, config.Replace, config.Recreate, config.OnDelete}[p.rng.IntN(4)]
	}
	for range 2 + p.rng.IntN(3) {
		s.steps = append(s.steps, step{0, "set", []string{p.parent(), p.value(), p.children()}})
	}
	for range 4 {
		if p.related {
			s.steps = append(s.steps, step{0, "keep", []string{p.secret(), p.value(), p.tier()}}, step{0, "refer", []string{p.parent(), p.refs()}})
		}
	}
	for range 6 + p.rng.IntN(18) {
		next := p.step()
		s.steps = append(s.steps, next)
		if after, ok := p.follow(next); ok && p.rng.IntN(2) == 0 {
			s.steps = append(s.steps, after)
		}
	}
	return s
}

// follow returns a step that is likely to meet what the step before has laid out, false
// if there is none.
func (p *pen) follow(s step) (step, bool) {
	deletion := step{p.wait(), "delete", []string{p.parent()}}
	change := step{p.wait(), "set", []string{p.parent(), p.value(), p.children()}}
	switch s.verb {
	case "former", "fail":
		deletion.args = s.args[:1]
		return deletion, true
	case "select":
		change.args[0] = s.args[0]
		return change, true
	case "backup":
		return step{p.wait(), "restore", nil}, true
	case "keep", "lose", "renew", "refer":
		return p.followRelated(s), true
	case "late":
		if s.args[0] == "Secret" {
			return p.followRelated(s), true
		}
		if s.args[0] != "Parent" {
			return step{p.wait(), "remove", []string{s.args[0] + "/" + p.pick("a", "b")}}, true
		}
		return change, true
	case "meet":
		if s.args[0] == "patch" {
			return deletion, true
		}
		return change, true
	}
	return step{}, false
}

// parseScript reads what String returns.
func parseScript(text string) (*script, error) {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	s := &script{}
	head := regexp.MustCompile(`^\s*seed (\d+), options \[(.*)\], strategies \[(\w+) (\w+)\]$`).FindStringSubmatch(lines[0])
	if head == nil {
		return nil, fmt.Errorf("script: %q isn't the head of one", lines[0])
	}
	s.seed, _ = strconv.ParseUint(head[1], 10, 64)
	s.options = strings.Fields(head[2])
	s.strategies = [2]config.UpdateStrategy{config.UpdateStrategy(head[3]), config.UpdateStrategy(head[4])}
	for _, line := range lines[1:] {
		when, what, _ := strings.Cut(strings.TrimLeft(line, " "), ": ")
		one := step{after: asap}
		if after, ok := strings.CutPrefix(when, "after "); ok {
			var err error
			if one.after, err = time.ParseDuration(after); err != nil {
				return nil, fmt.Errorf("script: %w", err)
			}
		} else if when == "at once" {
			one.after = 0
		}
		words := strings.Split(what, " ")
		one.verb, one.args = words[0], words[1:]
		if one.verb == "set" && len(one.args) == 2 { // an editor has taken off the space at the end
			one.args = append(one.args, "")
		}
		s.steps = append(s.steps, one)
	}
	return s, nil
}
