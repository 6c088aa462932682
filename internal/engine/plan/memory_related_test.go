package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// A circleStep is a pass over one of the parents "a", "b" and "c", each of which refers to all
// parents and to all ConfigMaps but its own. Everything that others have done since its last
// pass, it is shown.
type circleStep struct {
	of     string // the parent
	edited bool   // somebody has edited the parent
	others string // what somebody else has written before: parents, or ConfigMaps in capitals
	gone   string // and deleted
	early  string // what a pass under way of the owner of these writes first
	writes string // what the pass writes: the parent itself, or a ConfigMap in capitals
	makes  string // another parent whose spec the pass changes, as an operator of its own does whose child it is
	refers bool   // the parent refers to something else than before
	ends   string // and deletes
	want   Prompt
}

func TestPromptsOfRelated(t *testing.T) {
	join := func(all ...[]circleStep) (out []circleStep) {
		for _, s := range all {
			out = append(out, s...)
		}
		return out
	}
	again := func(n int, s ...circleStep) (all []circleStep) {
		for range n {
			all = append(all, s...)
		}
		return all
	}
	start := []circleStep{{of: "b", edited: true}, {of: "c", edited: true}, {of: "a", edited: true, writes: "a"}}
	aWrites, bWrites := circleStep{of: "a", writes: "a"}, circleStep{of: "b", writes: "b"}
	circling := func(s circleStep) circleStep { s.want = ByCircle; return s }
	// Of these rounds the first follows from what somebody else has done.
	rounds, circle := again(maxRounds+1, bWrites, aWrites), []circleStep{circling(bWrites), circling(aWrites), circling(bWrites)}
	toggle := []circleStep{{of: "b", writes: "B"}, {of: "a", ends: "A"}, {of: "b", ends: "B"}, {of: "a", writes: "A"}}
	for name, tc := range map[string]struct {
		reason string
		steps  []circleStep
	}{
		"To and fro":         {"it follows from too many rounds", join(start, rounds, circle)},
		"An edit":            {"begins anew", join(start, rounds, circle, []circleStep{{of: "a", edited: true, writes: "a"}}, again(maxRounds, bWrites, aWrites))},
		"An edit of another": {"begins anew, too", join(start, rounds, circle, []circleStep{{of: "a", others: "c", writes: "a"}}, again(maxRounds, bWrites, aWrites))},
		"Often edited":       {"steps that come to an end each time", again(20, join(start, again(maxRounds-1, bWrites, aWrites))...)},
		"Followed":           {"what somebody else has set off excuses what has changed besides", join(start, rounds, circle, []circleStep{{of: "c", edited: true}, {of: "c", early: "C"}, aWrites}, again(maxRounds, bWrites, aWrites))},
		"Skipped":            {"also if it was written over before it was seen", join(start, rounds, circle, []circleStep{{of: "c", edited: true, writes: "C"}, {of: "c", others: "a", writes: "C"}, aWrites, bWrites})},
		"One way":            {"what follows from another parent alone is no circle", join(start, again(2*maxRounds, circleStep{of: "a", edited: true, writes: "a"}, bWrites))},
		"Many writes":        {"of one pass, seen one by one", join(start, again(2*maxRounds, circleStep{of: "b", early: "A", writes: "b"}))},
		"By children":        {"each writes a child of which the other knows", join(start, again(maxRounds+1, circleStep{of: "b", writes: "B"}, circleStep{of: "a", writes: "A"}), []circleStep{{of: "b", writes: "B", want: ByCircle}, {of: "a", writes: "A", want: ByCircle}})},
		"Deleted":            {"an end by a pass counts as its write", join(start, []circleStep{{of: "a", edited: true, writes: "A"}}, again(maxRounds, toggle...)[:2*maxRounds+2], []circleStep{circling(toggle[(2*maxRounds+2)%4])})},
		"Deleted by others":  {"that isn't", join(start, again(2*maxRounds, circleStep{of: "a", writes: "A"}, circleStep{of: "b", writes: "B"}, circleStep{of: "b", gone: "A", writes: "B"}))},
		"Under way":          {"what a pass has written counts before it has ended", join(start, rounds, circle, []circleStep{circling(aWrites), {of: "b", early: "a", want: ByCircle}})},
		"References":         {"change with the parent's own status", join(start, again(maxRounds, circleStep{of: "a", refers: true, others: "X"}), []circleStep{{of: "a", refers: true, others: "X", want: ByCircle}})},
		"Edited by a pass":   {"an edit by a pass is none by somebody else", join(start, again(maxRounds+1, circleStep{of: "b", makes: "a"}, circleStep{of: "a", writes: "a"}), []circleStep{{of: "b", makes: "a", want: ByCircle}})},
		"Silence":            {"passes that find nothing new are as ever", join(start, []circleStep{{of: "a"}, {of: "a"}, {of: "a", want: ByOwnWrites}})},
	} {
		t.Run(name, func(t *testing.T) { newCircle(t).run(tc.reason, tc.steps) })
	}
}

// A circle is what parents have become that refer to one another.
type circle struct {
	t        *testing.T
	lineages *Lineages
	memory   *Memory
	refers   int
	version  int
	edits    map[string]int
	live     map[string]*resource.Resource
}

func newCircle(t *testing.T) *circle {
	t.Helper()
	c := &circle{t: t, lineages: NewLineages([]resource.Type{sample.ParentType(), k8s.ConfigMap}, []string{"roperator.com/parent"}), memory: NewMemory(), version: 100, edits: map[string]int{}, live: map[string]*resource.Resource{}}
	for _, name := range []string{"a", "b", "c"} {
		c.write(name)
	}
	return c
}

// write writes a parent, or the ConfigMap of a parent.
func (c *circle) write(name string) {
	c.version++
	if owner := strings.ToLower(name); owner != name {
		uid := fmt.Sprint("uid-", name, "-", c.version)
		if was := c.live[name]; was != nil {
			uid = string(was.UID())
		}
		c.live[name] = sample.Object(c.t, k8s.ConfigMap, name, uid, c.version, owner)
		return
	}
	c.live[name] = sample.Object(c.t, sample.ParentType(), name, name, c.version, "")
}

func (c *circle) run(reason string, steps []circleStep) {
	c.t.Helper()
	for i, step := range steps {
		for _, name := range step.others {
			c.write(string(name))
		}
		for _, name := range step.gone {
			delete(c.live, string(name))
		}
		for _, name := range step.early {
			owner := types.UID(strings.ToLower(string(name)))
			c.lineages.Begin(owner, c.memory.Of(owner).Lineage(owner))
			c.write(string(name))
		}
		require.Equal(c.t, step.want, c.pass(step), "%s: pass %d, over %s", reason, i, step.of)
	}
}

// pass makes a pass, and returns what has set it off.
func (c *circle) pass(step circleStep) Prompt {
	uid := types.UID(step.of)
	p := c.memory.Of(uid)
	if step.edited {
		c.edits[step.of]++
		c.write(step.of)
	}
	if step.refers {
		c.refers++
	}
	in, view := Inputs{UID: uid, Generation: int64(c.edits[step.of])}, NewRelatedView(c.lineages, c.live[step.of])
	view.Refers(fmt.Sprint(c.refers))
	for name, res := range c.live {
		if strings.ToLower(name) != step.of {
			in = in.WithRelated(res)
			view.Add(res)
		}
	}
	p.SawRelated(view)
	prompt := p.Prompted(time.Unix(int64(c.version), 0), in, nil, false)
	writing := c.lineages.Begin(uid, p.Lineage(uid))
	var wrote []Trace
	for _, name := range step.writes + step.makes {
		before := ""
		if was := c.live[string(name)]; was != nil {
			before = was.ResourceVersion()
		}
		c.write(string(name))
		wrote = append(wrote, Trace{c.live[string(name)].UID(), before, c.live[string(name)].ResourceVersion()})
	}
	for _, name := range step.makes {
		c.edits[string(name)]++
	}
	for _, name := range step.ends {
		wrote = append(wrote, Trace{c.live[string(name)].UID(), c.live[string(name)].ResourceVersion(), ""})
		delete(c.live, string(name))
	}
	writing.End(uid, wrote)
	p.Leave(in)
	return prompt
}

// TestPromptsOfRelated_OtherTypes: nobody's passes write these.
func TestPromptsOfRelated_OtherTypes(t *testing.T) {
	lineages := NewLineages([]resource.Type{sample.ParentType()}, nil)
	require.True(t, lineages.Of(sample.ParentType()))
	require.True(t, lineages.Of(resource.Type{APIVersion: "example.com/v7", Kind: sample.ParentType().Kind}), "any version")
	require.False(t, lineages.Of(k8s.ConfigMap))
	p, parent := &ParentMemory{}, sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	for version := range 3 * maxRounds {
		cm := sample.Object(t, k8s.ConfigMap, "cm", "cm", version+1, "")
		view, in := NewRelatedView(lineages, parent), Inputs{UID: "p"}.WithRelated(cm)
		view.Add(cm)
		p.SawRelated(view)
		require.Equal(t, ByOthers, p.Prompted(time.Unix(int64(version), 0), in, nil, false))
		lineages.Begin("p", p.Lineage("p")).End("p", []Trace{{cm.UID(), "", cm.ResourceVersion()}}) // even if it were told so
		p.Leave(in)
	}
}

// TestPromptsOfRelated_Begun: a parent that a pass has created follows from that pass.
func TestPromptsOfRelated_Begun(t *testing.T) {
	lineages := NewLineages([]resource.Type{sample.ParentType()}, nil)
	var none *Lineage
	creator := uidHash("creator")
	lineages.Begin("creator", none.with(creator)).End("creator", []Trace{{"p", "", "7"}})
	for uid, want := range map[string]int{"p": 1, "q": 0} {
		p := &ParentMemory{}
		p.SawRelated(NewRelatedView(lineages, sample.Object(t, sample.ParentType(), uid, uid, 7, "")))
		require.Equal(t, ByOthers, p.Prompted(time.Unix(0, 0), Inputs{UID: types.UID(uid)}, nil, false))
		require.Equal(t, want, p.Lineage(types.UID(uid)).times(creator), uid)
		require.Equal(t, 1, p.Lineage(types.UID(uid)).times(uidHash(types.UID(uid))))
	}
}

func TestLineage(t *testing.T) {
	var none *Lineage
	require.False(t, none.circles(1))
	require.Zero(t, none.times(1))

	l := none.with(1).with(2).with(1)
	require.Equal(t, []int{2, 1, 0}, []int{l.times(1), l.times(2), l.times(3)})
	require.Equal(t, []int{3, 1, 0}, []int{l.with(1).times(1), l.with(1).times(2), l.with(1).times(3)})
	require.Equal(t, []int{2, 1, 0}, []int{l.times(1), l.times(2), l.times(3)}, "what it was made of is as it was")
	require.True(t, none.before(l, 3), "none follows from nothing")
	require.False(t, l.before(none, 1))
	require.False(t, none.before(none, 1))
	require.True(t, none.with(1).before(l, 1), "it is named less often")
	require.True(t, none.with(3).before(l, 9), "of two that don't name it, the shorter one")
	require.False(t, none.with(9).before(l, 9))

	round := none
	for range maxRounds {
		require.False(t, round.with(2).circles(1))
		round = round.with(1)
	}
	require.False(t, round.circles(1))
	require.True(t, round.with(1).circles(1))

	long := none
	for i := range maxChain {
		long = long.with(uint64(i))
		require.LessOrEqual(t, len(long.ancestors), maxAncestors)
		require.Equal(t, 1, long.times(uint64(i)), "the last one is named")
	}
	require.False(t, long.circles(1_000_000))
	long = long.with(1)
	require.True(t, long.circles(1_000_000), "a chain of so many is taken for a circle")
	for range 2 * maxChain {
		long = long.with(1)
	}
	require.Equal(t, maxChain+1, long.times(1))
	require.Equal(t, maxChain+1, long.length)
}

// TestCauses: of several changes the one counts that follows least from the parent itself, and
// none does if somebody else has made one.
func TestCauses(t *testing.T) {
	var none *Lineage
	c := causes{parent: 1}
	require.False(t, c.some)
	c.note(none.with(1).with(1))
	require.Equal(t, 2, c.from.times(1))
	c.note(none.with(1))
	c.note(none.with(1).with(1).with(1))
	require.Equal(t, 1, c.from.times(1))
	c.note(none)
	c.note(none.with(2))
	require.Nil(t, c.from)
	require.False(t, c.others)
	NewLineages(nil, nil).since(&c, sighting{version: 1}, 0)
	require.True(t, c.others)
}

// TestLineages_Bounded: the newest writes are remembered, and not all of them.
func TestLineages_Bounded(t *testing.T) {
	l := NewLineages([]resource.Type{k8s.ConfigMap}, nil)
	var none *Lineage
	const all = 5 * maxTraced
	uid := func(i int) types.UID { return types.UID(fmt.Sprint(i)) }
	for i := range all {
		l.Begin("p", none.with(uint64(i))).End("p", []Trace{{uid(i), "", "1"}})
		require.LessOrEqual(t, len(l.mu.young)+len(l.mu.old), 2*maxTraced)
	}
	known := 0
	for i := range all {
		c := causes{}
		l.since(&c, sighting{version: versionHash(uid(i), "1")}, 0)
		require.True(t, c.some || i < all-maxTraced, i)
		require.NotEqual(t, c.some, c.others)
		if c.some {
			known++
			require.Equal(t, 1, c.from.times(uint64(i)))
		}
	}
	require.LessOrEqual(t, known, 2*maxTraced)
	require.Empty(t, l.mu.passes)
}

// TestLineages_WrittenOver: of several writes since an object was seen, the one counts that
// follows least from the parent that looks.
func TestLineages_WrittenOver(t *testing.T) {
	l := NewLineages([]resource.Type{k8s.ConfigMap}, nil)
	var none *Lineage
	deep, seen := none.with(9).with(9), versionHash("x", "3")
	for i, from := range []*Lineage{none, deep, none.with(9), deep} { // versions 2 to 5
		l.Begin("p", from).End("p", []Trace{{"x", fmt.Sprint(i + 1), fmt.Sprint(i + 2)}})
	}
	for name, tc := range map[string]struct {
		seen uint64
		want int
	}{
		"All of it":        {versionHash("x", "1"), 0},
		"From another one": {seen, 1},
		"The last one":     {versionHash("x", "4"), 2},
		"Nothing":          {0, 2},
	} {
		c := causes{parent: 9}
		l.since(&c, sighting{version: versionHash("x", "5")}, tc.seen)
		require.Equal(t, tc.want, c.from.times(9), name)
		require.True(t, c.some && !c.others, name)
	}
}

// TestLineages_PassesOfOneParent: two operators may have passes over the same parent, and each
// ends its own.
func TestLineages_PassesOfOneParent(t *testing.T) {
	l := NewLineages([]resource.Type{k8s.ConfigMap}, nil)
	var none *Lineage
	one, two := l.Begin("p", none.with(1)), l.Begin("p", none.with(2))
	under := func() (c causes) {
		l.since(&c, sighting{version: 77, parents: [2]uint64{uidHash("p")}}, 0)
		return c
	}
	require.True(t, under().some)
	one.End("p", []Trace{{"x", "", "1"}})
	require.Equal(t, 1, under().from.times(2), "the other one may still write")
	two.End("p", []Trace{{"y", "", "1"}})
	require.True(t, under().others)
	for uid, by := range map[types.UID]uint64{"x": 1, "y": 2} {
		c := causes{}
		l.since(&c, sighting{version: versionHash(uid, "1")}, 0)
		require.Equal(t, 1, c.from.times(by))
	}
}
