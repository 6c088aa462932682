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
	ends   string // and deletes
	want   Prompt
}

func TestPromptsOfRelated(t *testing.T) {
	again := func(n int, s ...circleStep) (all []circleStep) {
		for range n {
			all = append(all, s...)
		}
		return all
	}
	start := []circleStep{{of: "b", edited: true}, {of: "c", edited: true}, {of: "a", edited: true, writes: "a"}}
	aWrites, bWrites := circleStep{of: "a", writes: "a"}, circleStep{of: "b", writes: "b"}
	circling := func(s circleStep) circleStep { s.want = ByCircle; return s }
	join := func(all ...[]circleStep) (out []circleStep) {
		for _, s := range all {
			out = append(out, s...)
		}
		return out
	}
	for name, tc := range map[string]struct {
		reason string
		steps  []circleStep
	}{
		"To and fro":         {"the fourth round follows from three others", join(start, again(2, bWrites, aWrites), []circleStep{bWrites, circling(aWrites), circling(bWrites), circling(aWrites)})},
		"An edit":            {"begins anew", join(start, again(2, bWrites, aWrites), []circleStep{bWrites, circling(aWrites), {of: "b", edited: true, writes: "b"}}, again(2, aWrites, bWrites))},
		"An edit of another": {"begins anew, too", join(start, again(2, bWrites, aWrites), []circleStep{bWrites, circling(aWrites), {of: "b", others: "c", writes: "b"}}, again(2, aWrites, bWrites))},
		"One way":            {"what follows from another parent alone is no circle", join(start, again(20, circleStep{of: "a", edited: true, writes: "a"}, bWrites))},
		"Many writes":        {"of one pass, seen one by one", join(start, again(20, circleStep{of: "b", early: "A", writes: "b"}))},
		"By children":        {"each writes a child of which the other knows", join(start, again(3, circleStep{of: "b", writes: "B"}, circleStep{of: "a", writes: "A"})[:5], []circleStep{{of: "a", writes: "A", want: ByCircle}, {of: "b", writes: "B", want: ByCircle}})},
		"Deleted": {"an end by a pass counts as its write", join(start, []circleStep{
			{of: "a", edited: true, writes: "A"}, {of: "b", writes: "B"}, {of: "a", ends: "A"}, {of: "b", ends: "B"}, {of: "a", writes: "A"}, {of: "b", writes: "B", want: ByOthers}, {of: "a", ends: "A", want: ByCircle}, {of: "b", ends: "B", want: ByCircle}})},
		"Deleted by others": {"that isn't", join(start, []circleStep{
			{of: "a", edited: true, writes: "A"}, {of: "b", writes: "B"}, {of: "a", writes: "A"}, {of: "b", writes: "B"}, {of: "a", writes: "A"}, {of: "b", writes: "B"}, {of: "a", gone: "B", writes: "A"}, {of: "b", writes: "B"}})},
		"Under way": {"what a pass has written counts before it has ended", join(start, again(2, bWrites, aWrites), []circleStep{bWrites, circling(aWrites), {of: "b", early: "a", want: ByCircle}})},
		"Silence":   {"passes that find nothing new are as ever", join(start, []circleStep{{of: "a"}, {of: "a"}, {of: "a", want: ByOwnWrites}})},
	} {
		t.Run(name, func(t *testing.T) { newCircle(t).run(tc.reason, tc.steps) })
	}
}

// A circle is what parents have become that refer to one another.
type circle struct {
	t        *testing.T
	lineages *Lineages
	memory   *Memory
	version  int
	edits    map[string]int
	live     map[string]*resource.Resource
}

func newCircle(t *testing.T) *circle {
	t.Helper()
	c := &circle{t: t, lineages: NewLineages(sample.ParentType(), k8s.ConfigMap), memory: NewMemory(), version: 100, edits: map[string]int{}, live: map[string]*resource.Resource{}}
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
	}
	in, view := Inputs{UID: uid, Generation: int64(c.edits[step.of])}, NewRelatedView(c.lineages)
	for name, res := range c.live {
		owner := strings.ToLower(name)
		if owner != step.of {
			in = in.WithRelated(res)
			view.Add(res, types.UID(owner))
		}
	}
	p.SawRelated(view)
	prompt := p.Prompted(time.Unix(int64(c.version), 0), in, nil, false)
	c.lineages.Begin(uid, p.Lineage(uid))
	var wrote []Trace
	for _, name := range step.writes {
		c.write(string(name))
		wrote = append(wrote, Trace{c.live[string(name)].UID(), c.live[string(name)].ResourceVersion()})
	}
	for _, name := range step.ends {
		wrote = append(wrote, Trace{c.live[string(name)].UID(), ""})
		delete(c.live, string(name))
	}
	c.lineages.End(uid, wrote)
	p.Leave(in)
	return prompt
}

// TestPromptsOfRelated_OtherTypes: nobody's passes write these.
func TestPromptsOfRelated_OtherTypes(t *testing.T) {
	lineages := NewLineages(sample.ParentType())
	require.True(t, lineages.Of(sample.ParentType()))
	require.False(t, lineages.Of(k8s.ConfigMap))
	require.False(t, (*Lineages)(nil).Of(sample.ParentType()))
	p := &ParentMemory{}
	for version := range 20 {
		cm := sample.Object(t, k8s.ConfigMap, "cm", "cm", version+1, "")
		view, in := NewRelatedView(lineages), Inputs{UID: "p"}.WithRelated(cm)
		view.Add(cm, "")
		p.SawRelated(view)
		require.Equal(t, ByOthers, p.Prompted(time.Unix(int64(version), 0), in, nil, false))
		lineages.Begin("p", p.Lineage("p"))
		lineages.End("p", []Trace{{cm.UID(), cm.ResourceVersion()}}) // even if it were told so
		p.Leave(in)
	}
}

func TestLineage(t *testing.T) {
	var none *Lineage
	require.False(t, none.circles(1))
	require.Zero(t, none.times(1))

	l := none.with(1).with(2).with(1)
	require.Equal(t, []int{2, 1, 0}, []int{l.times(1), l.times(2), l.times(3)})
	other := none.with(2).with(2).with(3)
	both := l.and(other)
	require.Equal(t, []int{2, 2, 1}, []int{both.times(1), both.times(2), both.times(3)}, "the larger of each")
	require.Equal(t, both, other.and(l))
	require.Equal(t, []int{2, 1, 0}, []int{l.times(1), l.times(2), l.times(3)}, "what it was made of is as it was")
	require.Same(t, l, l.and(nil))
	require.Same(t, l, none.and(l))
	require.Same(t, l, l.and(l))
	require.False(t, both.circles(1))
	require.True(t, both.with(1).circles(1))

	long := none
	for i := range maxChain {
		long = long.with(uint64(i))
		require.LessOrEqual(t, len(long.ancestors), maxAncestors)
		require.Equal(t, 1, long.times(uint64(i)), "the last one is named")
	}
	require.False(t, long.circles(1000))
	long = long.with(1)
	require.True(t, long.circles(1000), "a chain of so many is taken for a circle")
	for range 2 * maxTimes {
		long = long.with(1)
	}
	require.Equal(t, maxTimes, long.times(1))
	require.True(t, none.with(7).and(long).circles(7))
	for i := range maxAncestors {
		long = long.and(none.with(uint64(i) + 5000))
	}
	require.Len(t, long.ancestors, maxAncestors)
	require.Equal(t, maxTimes, long.times(1))
}

// TestLineages_Bounded: the newest writes are remembered, and not all of them.
func TestLineages_Bounded(t *testing.T) {
	l := NewLineages(k8s.ConfigMap)
	var all []Trace
	for i := range 5 * maxTraced {
		all = append(all, Trace{UID: types.UID(fmt.Sprint(i)), Version: "1"})
	}
	var one *Lineage
	for i, trace := range all {
		l.Begin("p", one.with(uint64(i)))
		l.End("p", []Trace{trace})
		require.LessOrEqual(t, len(l.mu.young)+len(l.mu.old), 2*maxTraced)
	}
	known := 0
	for i, trace := range all {
		from, ok := l.of(versionHash(trace.UID, trace.Version), 0)
		require.True(t, ok || i < len(all)-maxTraced, i)
		if ok {
			known++
			require.Equal(t, 1, from.times(uint64(i)))
		}
	}
	require.LessOrEqual(t, known, 2*maxTraced)
	require.Empty(t, l.mu.passes)
	l.End("p", all[:1]) // a pass that hasn't begun to write
	_, ok := l.of(versionHash(all[0].UID, all[0].Version), 0)
	require.False(t, ok)
}
