package reconcile_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/budget"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// What a parent makes of n, the largest number in what it refers to and in its own spec.
const (
	makesCopy   = "n"
	makesMore   = "n+1"
	makesUpTo   = "n+1, but no more than 3"
	makesThere  = "n, and has a child if another one exists"
	makesAbsent = "n, and has a child unless another one exists"
)

// A ringMember is a parent that refers to others' statuses and children.
type ringMember struct {
	second        bool // of the second operator
	makes         string
	status, child bool
	slow          time.Duration // a call of the handler
	statuses      []int         // of the members that it refers to
	children      []int
	everyStatus   bool // it refers to the statuses of all
	everyChild    bool // it refers to all ConfigMaps
	foreign       bool // it refers to a ConfigMap of somebody else
}

// A ringScript is parents that refer to each other at random, and what somebody does to them.
type ringScript struct {
	seed    uint64
	members []ringMember
	two     bool // there are two operators
	cfg     config.Operator
	acts    int
	every   time.Duration // between what somebody does
}

func newRingScript(seed uint64) *ringScript {
	r := rand.New(rand.NewPCG(seed, 1))
	s := &ringScript{seed: seed, two: r.IntN(4) == 0, cfg: rig.Config(), acts: 10 + r.IntN(40)}
	s.cfg.ReadyCondition = r.IntN(4) == 0
	if r.IntN(4) == 0 {
		s.cfg.Children[0].Strategy = config.Recreate
	}
	s.every = []time.Duration{20 * time.Millisecond, 100 * time.Millisecond, time.Second, 3 * time.Second}[r.IntN(4)]
	makes := [][]string{
		{makesCopy, makesUpTo}, {makesCopy, makesMore}, {makesCopy, makesCopy, makesMore, makesUpTo, makesThere, makesAbsent},
	}[r.IntN(3)]
	n, ordered := 2+r.IntN(6), r.IntN(3) == 0
	for i := range n {
		m := ringMember{second: s.two && r.IntN(2) == 0, makes: makes[r.IntN(len(makes))], foreign: r.IntN(4) == 0}
		m.status, m.child = r.IntN(3) > 0, r.IntN(3) > 0
		m.child = m.child || !m.status || m.makes == makesThere || m.makes == makesAbsent
		if r.IntN(6) == 0 {
			m.slow = time.Duration(1+r.IntN(30)) * time.Millisecond
		}
		m.everyStatus, m.everyChild = !ordered && r.IntN(6) == 0, !ordered && r.IntN(6) == 0
		for range 1 + r.IntN(3) {
			to, of := r.IntN(n), &m.statuses
			if r.IntN(2) == 0 {
				of = &m.children
			}
			if ordered && to < i || !ordered && to != i {
				*of = append(*of, to)
			}
		}
		s.members = append(s.members, m)
	}
	return s
}

func (s *ringScript) typeOf(i int) resource.Type {
	if s.members[i].second {
		return otherType()
	}
	return sample.ParentType()
}

// sees says whether i is shown what j makes.
func (s *ringScript) sees(i, j int) bool {
	a, b := s.members[i], s.members[j]
	return i != j && (b.status && (a.everyStatus || slices.Contains(a.statuses, j)) || b.child && (a.everyChild || slices.Contains(a.children, j)))
}

// ends says whether the members come to an end once nobody does anything any more, and whether
// that is known. In a circle it isn't where children come and go, as they do by Recreate.
func (s *ringScript) ends() (ends, known bool) {
	n := len(s.members)
	reach := make([][]bool, n)
	for i := range n {
		reach[i] = make([]bool, n)
		for j := range n {
			reach[i][j] = s.sees(i, j)
		}
	}
	for k := range n {
		for i := range n {
			for j := range n {
				reach[i][j] = reach[i][j] || reach[i][k] && reach[k][j]
			}
		}
	}
	ends, known = true, true
	for i, m := range s.members {
		if !reach[i][i] {
			continue
		}
		ends = ends && m.makes != makesMore
		known = known && m.makes != makesThere && m.makes != makesAbsent && s.cfg.Children[0].Strategy == config.Replace
		for j, other := range s.members {
			if reach[i][j] && reach[j][i] && other.makes == makesUpTo && m.makes == makesMore {
				known = false // the one may hold the other
			}
		}
	}
	return ends, known
}

// refs are what a member refers to.
func (s *ringScript) refs(p *resource.Resource) (refs []handler.Ref) {
	m := s.members[indexOf(p)]
	for _, to := range m.statuses {
		refs = append(refs, all(s.typeOf(to), fmt.Sprint("p", to))...)
	}
	for _, to := range m.children {
		refs = append(refs, all(k8s.ConfigMap, fmt.Sprint("p", to))...)
	}
	if m.everyStatus {
		refs = append(refs, handler.Ref{Type: sample.ParentType(), Namespace: "ns"})
		if s.two {
			refs = append(refs, handler.Ref{Type: otherType(), Namespace: "ns"})
		}
	}
	if m.everyChild {
		refs = append(refs, handler.Ref{Type: k8s.ConfigMap, Namespace: "ns"})
	}
	if m.foreign {
		refs = append(refs, all(k8s.ConfigMap, "foreign")...)
	}
	return refs
}

// wants is what a member makes of what it is shown.
func (s *ringScript) wants(p *resource.Resource, related []*resource.Resource) *handler.SyncResponse {
	m, n, exists := s.members[indexOf(p)], amount(p, "spec", "value"), false
	for _, res := range related {
		switch {
		case res.Name() == p.Name():
		case res.Type() == k8s.ConfigMap:
			n, exists = max(n, amount(res, "data", "value")), true
		default:
			n = max(n, amount(res, "status", "n"))
		}
	}
	child := m.child
	switch m.makes {
	case makesMore:
		n++
	case makesUpTo:
		n = min(n+1, 3)
	case makesThere:
		child = exists
	case makesAbsent:
		child = !exists
	}
	resp := wants()
	if m.status {
		resp.Status = map[string]any{"n": n}
	}
	if child {
		resp.Children = []any{rig.Copied(p.Name(), fmt.Sprint(n))}
	}
	return resp
}

// act does something to the members. It meddles with each child twice at most, since to restore
// it again and again is a conflict loop.
func (s *ringScript) act(c *company, r *rand.Rand, value int, meddled map[string]int) {
	i := r.IntN(len(s.members))
	name := fmt.Sprint("p", i)
	what := r.IntN(5)
	if what >= 3 {
		if meddled[name]++; meddled[name] > 2 {
			what = 0
		}
	}
	switch what {
	case 0, 1:
		c.set(s.typeOf(i), name, value)
	case 2:
		c.set(k8s.ConfigMap, "foreign", value)
	case 3: // it may not be there
		_, _ = c.server.Change(k8s.ConfigMap, rig.Key(name), func(o map[string]any) { o["data"] = map[string]any{"value": "somebody's"} })
	case 4:
		_ = c.server.Delete(k8s.ConfigMap, rig.Key(name))
	}
}

// unsettled says what isn't as it is to be, "" if all is.
func (s *ringScript) unsettled(c *company) string {
	for i, m := range s.members {
		parent := c.server.Get(s.typeOf(i), rig.Key(fmt.Sprint("p", i)))
		var related []*resource.Resource
		for _, ref := range s.refs(parent) {
			for _, res := range c.server.List(ref.Type) {
				if ref.Name == "" || ref.Name == res.Name() {
					related = append(related, res)
				}
			}
		}
		want := s.wants(parent, related)
		if m.status && want.Status.(map[string]any)["n"] != amount(parent, "status", "n") {
			return fmt.Sprintf("p%d: the status says %d, and is to be %v", i, amount(parent, "status", "n"), want.Status)
		}
		child := c.server.Get(k8s.ConfigMap, rig.Key(fmt.Sprint("p", i)))
		if (child != nil) != (len(want.Children) > 0) {
			return fmt.Sprintf("p%d: there is a child: %v, and it is to be: %v", i, child != nil, want.Children)
		}
		if child != nil && fmt.Sprint(amount(child, "data", "value")) != want.Children[0].(map[string]any)["data"].(map[string]any)["value"] {
			return fmt.Sprintf("p%d: its child says %d, and is to be %v", i, amount(child, "data", "value"), want.Children)
		}
	}
	return ""
}

// run carries out the script.
func (s *ringScript) run(t *testing.T) {
	c, r := newCompany(t), rand.New(rand.NewPCG(s.seed, 2))
	var mu sync.Mutex
	shown := map[string]int64{} // the spec that the handler was shown last
	h := func() *mutual {
		m := &mutual{refs: s.refs}
		m.sync = func(req *handler.SyncRequest) *handler.SyncResponse {
			if slow := s.members[indexOf(req.Parent)].slow; slow > 0 {
				<-time.After(slow)
			}
			mu.Lock()
			shown[req.Parent.Name()] = amount(req.Parent, "spec", "value")
			mu.Unlock()
			return s.wants(req.Parent, slices.Collect(req.Related.All()))
		}
		return m
	}
	one := s.cfg
	one.Related = []config.Related{{Type: sample.ParentType()}, {Type: k8s.ConfigMap}, {Type: otherType()}}
	two, handlers := one, []*mutual{h()}
	two.Name, two.Parent = "two", otherType()
	if s.two {
		handlers = append(handlers, h())
	}
	c.create(k8s.ConfigMap, "0", "foreign")
	c.start(one, two, handlers...)
	for i := range s.members {
		c.create(s.typeOf(i), fmt.Sprint(i%3), fmt.Sprint("p", i))
	}
	meddled := map[string]int{}
	for i := range s.acts {
		s.act(c, r, i+4, meddled)
		rig.Elapse(s.every)
	}
	rig.Elapse(2 * time.Second)
	members := int64(len(s.members))
	if ends, known := s.ends(); known && ends && !s.cfg.ReadyCondition {
		require.Empty(t, s.unsettled(c))
		require.Zero(t, c.loops(), c.logs.String())
		rig.Elapse(20 * time.Second)
		before := c.calls()
		rig.Elapse(time.Minute)
		require.Equal(t, before, c.calls(), "it falls silent")
		require.Empty(t, s.unsettled(c))
	} else {
		before := c.calls()
		rig.Elapse(10 * time.Second)
		require.Less(t, c.calls()-before, 500*members, "in ten seconds")
		rig.Elapse(5 * time.Minute)
		before = c.calls()
		rig.Elapse(5 * time.Minute)
		require.Less(t, c.calls()-before, 600*members, "after five minutes, in five more")
		require.True(t, !known || ends || c.loops() > 0, "a circle is found")
	}
	for i := range s.members {
		name, value := fmt.Sprint("p", i), int64(1_000_000+i)
		c.set(s.typeOf(i), name, value)
		rig.Elapse(1100 * time.Millisecond)
		mu.Lock()
		got := shown[name]
		mu.Unlock()
		require.Equal(t, value, got, "an edit of %s is served within a second", name)
	}
	require.NotContains(t, c.logs.String(), "panic")
	c.stop()
}

func (s *ringScript) String() string {
	lines := []string{fmt.Sprintf("two operators: %v, ready: %v, %s, %d acts every %v", s.two, s.cfg.ReadyCondition, s.cfg.Children[0].Strategy, s.acts, s.every)}
	for i, m := range s.members {
		lines = append(lines, fmt.Sprintf("p%d: %+v", i, m))
	}
	return strings.Join(lines, "\n")
}

// TestCirclesGenerated: parents that refer to each other at random, with an oracle. If they come
// to an end by themselves, no conflict loop is found while somebody changes this and that, all is
// as it is to be two seconds later, and then there is silence. If not, they are slowed down. And
// whoever edits a parent is heard within a second.
func TestCirclesGenerated(t *testing.T) {
	first, seeds := budget.FromEnv(t, "CIRCLES_FIRST", 1), budget.Count(t, "CIRCLES_SEEDS", 40)
	kinds := map[string]int{}
	for seed := first; seed < first+seeds; seed++ {
		s := newRingScript(seed)
		ends, known := s.ends()
		kinds[fmt.Sprint("ends ", ends, ", known ", known)]++
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { rig.Bubble(t, s.run) }) {
			t.Logf("seed %d, ends: %v, known: %v\n%s", seed, ends, known, s)
		}
	}
	if seeds >= 40 {
		require.GreaterOrEqual(t, len(kinds), 3, "of each kind there are some: %v", kinds)
	}
}
