package lead

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/budget"
)

func TestShare(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		held   map[string]int
		shards int
		want   map[string]int
	}{
		"Alone":        {"nobody else can", map[string]int{"a": 0}, 8, map[string]int{"a": 8}},
		"Even":         {"as many for each", map[string]int{"a": 8, "b": 0}, 8, map[string]int{"a": 4, "b": 4}},
		"Uneven":       {"the ones that have most keep one more", map[string]int{"a": 2, "b": 3, "c": 3}, 8, map[string]int{"a": 2, "b": 3, "c": 3}},
		"Ties":         {"everybody counts alike", map[string]int{"c": 0, "b": 0, "a": 8}, 8, map[string]int{"a": 3, "b": 3, "c": 2}},
		"Many members": {"some get none", map[string]int{"a": 0, "b": 1, "c": 1}, 2, map[string]int{"a": 0, "b": 1, "c": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]int{}
			for member := range tc.held {
				got[member] = share(member, tc.held, tc.shards)
			}
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
	require.Zero(t, share("stranger", map[string]int{"a": 1}, 8))
}

func TestBalance(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		living  []string
		holders []string
		stages  []stage
		take    []int // in any order
		give    []int
	}{
		"Alone":            {"all are free", nil, []string{"", "", "", ""}, make([]stage, 4), []int{0, 1, 2, 3}, nil},
		"Others hold":      {"an even split", []string{"b"}, []string{"b", "b", "", ""}, make([]stage, 4), []int{2, 3}, nil},
		"Above the target": {"the highest ones go", []string{"b"}, []string{"self", "self", "self", "self"}, []stage{working, working, working, working}, nil, []int{2, 3}},
		"Already ending":   {"no more is given up", []string{"b"}, []string{"self", "self", "self", "self"}, []stage{working, working, ending, ending}, nil, nil},
		"Tries first":      {"what isn't held yet goes first", []string{"b"}, []string{"", "self", "self", ""}, []stage{trying, working, working, untouched}, nil, []int{0}},
		"Another was faster": {
			"the try is hopeless, and another one begins", []string{"b"},
			[]string{"b", "self", "b", ""},
			[]stage{trying, working, untouched, untouched},
			[]int{3},
			[]int{0},
		},
		"Own by a lost answer": {"nobody else can take it yet", []string{"b"}, []string{"", "", "self", "self"}, make([]stage, 4), []int{2, 3}, nil},
		"A dead holder":        {"its lease hasn't expired yet", nil, []string{"dead", "dead", "", ""}, make([]stage, 4), []int{2, 3}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			take, give := balance("self", tc.living, tc.holders, tc.stages)
			require.ElementsMatch(t, tc.take, take, tc.reason)
			require.Equal(t, tc.give, give, tc.reason)
		})
	}
}

// A model is a number of members that share shards, each with what it has listed last.
type model struct {
	t       *testing.T
	random  *rand.Rand
	holders []string // "": free
	members map[string]*modelled
	moves   int
	made    int
}

type modelled struct {
	living, holders []string
	stages          []stage
}

func (m *model) names() []string {
	var names []string
	for name := range m.members {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (m *model) join() {
	m.made++
	m.members[fmt.Sprintf("member-%d", m.made)] = &modelled{holders: slices.Clone(m.holders), stages: make([]stage, len(m.holders))}
}

// die ends a member, whose shards are free at once: the model has no time.
func (m *model) die(name string) {
	delete(m.members, name)
	for i, holder := range m.holders {
		if holder == name {
			m.holders[i] = ""
		}
	}
}

// step lets a member do one thing: look, decide, end a try, or end work.
func (m *model) step(name string) {
	me := m.members[name]
	switch m.random.IntN(4) {
	case 0:
		m.look(name)
	case 1:
		m.decide(name)
	default:
		i := m.random.IntN(len(me.stages))
		m.finish(name, i)
	}
}

func (m *model) look(name string) {
	me := m.members[name]
	me.living, me.holders = nil, slices.Clone(m.holders)
	for _, other := range m.names() {
		if other != name {
			me.living = append(me.living, other)
		}
	}
}

func (m *model) decide(name string) {
	me := m.members[name]
	holders := slices.Clone(me.holders)
	for i, s := range me.stages {
		if s == working {
			holders[i] = name
		}
	}
	take, give := balance(name, me.living, holders, me.stages)
	for _, i := range give {
		if me.stages[i] == trying {
			me.stages[i] = untouched
		} else {
			me.stages[i] = ending
		}
	}
	for _, i := range take {
		require.Equal(m.t, untouched, me.stages[i])
		me.stages[i] = trying
	}
}

func (m *model) finish(name string, i int) {
	me := m.members[name]
	switch {
	case me.stages[i] == trying && m.holders[i] == "":
		m.holders[i], me.stages[i] = name, working
		m.moves++
	case me.stages[i] == ending:
		require.Equal(m.t, name, m.holders[i])
		m.holders[i], me.stages[i] = "", untouched
	}
}

// settle lets all members go on with fresh views until nothing changes any more.
func (m *model) settle() {
	for range 100 {
		before := fmt.Sprint(m.holders, m.moves)
		for _, name := range m.names() {
			m.look(name)
			m.decide(name)
			for i := range m.holders {
				m.finish(name, i)
			}
		}
		if fmt.Sprint(m.holders, m.moves) == before {
			return
		}
	}
	m.t.Fatalf("doesn't settle: %v", m.holders)
}

func (m *model) counts() (least, most int) {
	held := map[string]int{}
	for _, name := range m.names() {
		held[name] = 0
	}
	for _, holder := range m.holders {
		held[holder]++
	}
	least = len(m.holders)
	for _, n := range held {
		least, most = min(least, n), max(most, n)
	}
	return least, most
}

// Whatever happens meanwhile, and however old the members' views are: once it is quiet, the
// split is even and nothing moves any more. A member that joins moves no more than its share.
func TestBalance_Settles(t *testing.T) {
	for seed := range budget.Runs(400) {
		random := rand.New(rand.NewPCG(seed, 1))
		m := &model{t: t, random: random, holders: make([]string, 1<<random.IntN(7)), members: map[string]*modelled{}}
		m.join()
		for range random.IntN(400) {
			names := m.names()
			switch random.IntN(20) {
			case 0:
				if len(names) < 12 {
					m.join()
				}
			case 1:
				if len(names) > 1 {
					m.die(names[random.IntN(len(names))])
				}
			default:
				m.step(names[random.IntN(len(names))])
			}
		}
		m.settle()
		require.NotContains(t, m.holders, "", "seed %d: every shard is wanted by somebody", seed)
		least, most := m.counts()
		require.LessOrEqual(t, most-least, 1, "seed %d: %v", seed, m.holders)
		quiet := m.moves
		m.settle()
		require.Equal(t, quiet, m.moves, "seed %d: nothing moves any more", seed)
		m.join()
		m.settle()
		require.LessOrEqual(t, m.moves-quiet, len(m.holders)/len(m.members)+1, "seed %d: a join moves a share", seed)
	}
}
