package sim

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/roperator/roperator/internal/testing/faults"
)

// A pen writes the script of a short and dense run: parents q0, q1, … of one namespace want children of
// the same few names, and some actions follow at once on the one before, in the middle of reconciliations.
type pen struct {
	rng      *rand.Rand
	parents  int
	replicas int
	related  bool // parents refer to objects
}

func (p *pen) pick(of ...string) string { return of[p.rng.IntN(len(of))] }

func (p *pen) parent() string { return "q" + strconv.Itoa(p.rng.IntN(p.parents)) }

func (p *pen) value() string { return "v" + strconv.Itoa(p.rng.IntN(4)) }

func (p *pen) count(most int) string { return strconv.Itoa(1 + p.rng.IntN(most)) }

func (p *pen) child() string { return p.pick(sharedNames()...) }

// sharedNames returns what the children of dense runs may be called.
func sharedNames() []string { return []string{"ConfigMap/a", "ConfigMap/b", "Part/a", "Part/b"} }

// children returns up to three of the names that all parents share.
func (p *pen) children() []string {
	names := sharedNames()
	p.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:p.rng.IntN(4)]
}

func (p *pen) want() []string { return append([]string{p.parent(), p.value()}, p.children()...) }

// A drawn is a kind of actions, with how often it is drawn and what may follow its verb.
type drawn struct {
	often int
	verb  string
	args  func() []string
}

// table returns the kinds of actions.
func (p *pen) table() []drawn {
	parent := func(more ...string) func() []string {
		return func() []string {
			out := []string{"Parent/" + p.parent()}
			if len(more) > 0 {
				out = append(out, p.pick(more...))
			}
			return out
		}
	}
	child := func() []string { return []string{p.child()} }
	none := func() []string { return nil }
	age := func() []string { return []string{p.pick("old", "new")} }
	replica := func() []string { return []string{"replica-" + strconv.Itoa(p.rng.IntN(p.replicas))} }
	table := []drawn{
		{16, "want", p.want},
		{5, "behave", func() []string {
			how := p.pick("error", "panic", "exit", "slow")
			return []string{p.parent(), "sync=" + how, "final=" + how}
		}},
		{5, "behave", func() []string { return []string{p.parent(), "sync=", "final="} }},
		{8, "delete", parent()},
		{4, "put-aside", parent("true", "false")},
		{2, "former", parent("too", "alone")},
		{2, "hold", func() []string { return []string{p.pick(p.child(), "Parent/"+p.parent())} }},
		{2, "let-go", func() []string { return []string{"all"} }},
		{6, "delete", child},
		{3, "tamper", child},
		{2, "strip", child},
		{2, "orphan", child},
		{2, "replace", child},
		{3, "occupy", child},
		{2, "collect", none},
		{8, "lag", func() []string { return []string{p.pick("Parent", "ConfigMap", "Part")} }},
		{6, "catch-up", none},
		{4, "repeat", func() []string { return []string{p.pick("Parent", "ConfigMap", "Part"), p.count(6)} }},
		{4, "break-watches", none},
		{4, "relist", none},
		{12, "meet", p.fault},
		{1, "backup", none},
		{1, "restore", age},
		{2, "stop", replica},
		{2, "kill", replica},
	}
	if p.related {
		table = append(table, p.relatedTable()...)
	}
	return table
}

// draw returns any action.
func (p *pen) draw() action {
	table, sum := p.table(), 0
	for _, d := range table {
		sum += d.often
	}
	n := p.rng.IntN(sum)
	for _, d := range table {
		if n -= d.often; n < 0 {
			return p.action(d.verb, d.args()...)
		}
	}
	return action{}
}

// action returns an action that follows the one before sooner or later.
func (p *pen) action(verb string, args ...string) action {
	when, wait := after, time.Duration(0)
	switch dice := p.rng.IntN(100); {
	case dice < 35:
	case dice < 60:
		when = then
	case dice < 80:
		wait = time.Duration(1+p.rng.IntN(50)) * time.Millisecond
	case dice < 95:
		wait = time.Duration(100+p.rng.IntN(900)) * time.Millisecond
	default:
		wait = time.Duration(1+p.rng.IntN(8)) * time.Second
	}
	return action{when, wait, verb, args}
}

// fault returns which requests meet what, how many of them, and how late those are that are late.
func (p *pen) fault() []string {
	class := p.pick("list", "watch", "get", "create", "create", "update", "delete", "delete", "status", "patch")
	outcomes := []string{faults.LateBefore, faults.LateAfter, faults.LateAfter, faults.LateAfter, faults.BreakBefore, faults.BreakAfter, "500", faults.PageMissing, faults.PageFine, faults.Hollow}
	if !slices.Contains([]string{"list", "watch", "get"}, class) { // of which no webhook takes part
		outcomes = append(outcomes, "409", "404")
	}
	late := time.Duration(1+p.rng.IntN(40)) * 50 * time.Millisecond
	return []string{class, p.pick(outcomes...), p.pick("1", "1", "1", "2", "5", "40"), late.String()}
}

// relatedTable are the kinds of actions about related objects.
func (p *pen) relatedTable() []drawn {
	source := func() []string { return []string{p.source()} }
	return []drawn{
		{20, "refer", func() []string { return append([]string{p.parent()}, p.refs()...) }},
		{2, "refer", func() []string { return []string{p.parent(), badName} }},
		{2, "behave", func() []string { return []string{p.parent(), "sync=relate"} }},
		{16, "put", p.put},
		{8, "drop", source},
		{4, "redo", source},
		{6, "lag", func() []string { return []string{"Source"} }},
		{3, "repeat", func() []string { return []string{"Source", p.count(6)} }},
	}
}

func (p *pen) source() string { return "Source@ns/" + p.pick("x", "y", "z", "m0") }

func (p *pen) put() []string { return []string{p.source(), p.value(), p.pick("gold", "tin")} }

// refs returns up to three references.
func (p *pen) refs() (refs []string) {
	for range p.rng.IntN(4) {
		refs = append(refs, p.pick(
			"Source/x", "Source/y", "Source/z", "Source/x", "Source?tier=gold", "Source?tier!=gold", "Source", "many",
			"ConfigMap/a", "ConfigMap?"+tracking, "Parent/"+p.parent(), "Parent",
		))
	}
	return refs
}

// follow returns an action that is likely to meet what the action before has laid out, false
// if there is none.
func (p *pen) follow(a action) (action, bool) {
	deletion := p.action("delete", "Parent/"+p.parent())
	change := p.action("want", p.want()...)
	switch a.Verb {
	case "former":
		deletion.Args = a.Args[:1]
		return deletion, true
	case "behave":
		deletion.Args = []string{"Parent/" + a.Args[0]}
		return deletion, a.Args[1] != "sync="
	case "put-aside":
		change.Args[0] = a.Args[0][len("Parent/"):]
		return change, true
	case "backup":
		return p.action("restore", "old"), true
	case "put", "drop", "redo", "refer":
		return p.followRelated(a), true
	case "lag":
		if a.Args[0] == "Source" {
			return p.followRelated(a), true
		}
		if a.Args[0] != "Parent" {
			return p.action("delete", a.Args[0]+"/"+p.pick("a", "b")), true
		}
		return change, true
	case "meet":
		if a.Args[0] == "patch" {
			return deletion, true
		}
		return change, true
	}
	return action{}, false
}

// followRelated returns an action that is likely to meet what one about related objects has laid out.
func (p *pen) followRelated(a action) action {
	source := p.source()
	if a.Verb != "lag" && a.Verb != "refer" {
		source = a.Args[0]
	}
	switch p.rng.IntN(4) {
	case 0:
		return p.action("put", source, p.value(), p.pick("gold", "tin"))
	case 1:
		return p.action("drop", source)
	case 2:
		return p.action("refer", p.parent(), "Source/"+source[len("Source@ns/"):])
	}
	return p.action("refer", append([]string{p.parent()}, p.refs()...)...)
}

// denseScript returns the short and dense script of a seed.
func denseScript(seed uint64) *script {
	p := &pen{rng: rand.New(rand.NewPCG(seed, 2)), replicas: 1}
	s := &script{Options: []string{dense}}
	for _, option := range []string{withSelector, withAdoption, byLists, inPages, bareHandler, oneAtATime, deleteFirst} {
		if p.rng.IntN(4) == 0 {
			s.Options = append(s.Options, option)
		}
	}
	if p.related = p.rng.IntN(2) == 0; p.related {
		s.Options = append(s.Options, withRelated)
	}
	if p.rng.IntN(4) == 0 {
		p.replicas = 2
	}
	s.Replicas = p.replicas
	for range 3 {
		s.Strategies = append(s.Strategies, p.pick("Replace", "Replace", "Recreate", "OnDelete"))
	}
	p.parents = 2 + p.rng.IntN(5)
	for range 2 + p.rng.IntN(3) {
		s.Actions = append(s.Actions, action{after, 0, "want", p.want()})
	}
	for range 4 {
		if p.related {
			s.Actions = append(s.Actions, action{after, 0, "put", p.put()}, action{after, 0, "refer", append([]string{p.parent()}, p.refs()...)})
		}
	}
	for range 6 + p.rng.IntN(18) {
		next := p.draw()
		s.Actions = append(s.Actions, next)
		if later, ok := p.follow(next); ok && p.rng.IntN(2) == 0 {
			s.Actions = append(s.Actions, later)
		}
	}
	s.setOrder(seed)
	return s
}
