package conformance

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/budget"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// TestC170_Histories runs some histories, of which make test-all runs more. HISTORIES_MINUTES runs others for
// that long, from HISTORIES_SEED on, four at a time.
func TestC170_Histories(t *testing.T) {
	needsWidgets(t)
	scenario(t, "C170", "whatever happens to children of many kinds, one after the other, they become what new ones would be, and all is silent; a plan says beforehand what will be written")
	first, err := strconv.ParseUint(cmp.Or(os.Getenv("HISTORIES_SEED"), "1"), 10, 64)
	require.NoError(t, err)
	minutes, err := strconv.Atoi(cmp.Or(os.Getenv("HISTORIES_MINUTES"), "0"))
	require.NoError(t, err)
	// Parallel subtests begin behind all other scenarios: a few histories are done sooner one after the other.
	count, atOnce := uint64(2), 1
	if budget.All() || minutes > 0 {
		count, atOnce = 4, 4
	}
	end := time.Now().Add(time.Duration(minutes) * time.Minute)
	var next atomic.Uint64
	next.Store(first)
	for range atOnce {
		t.Run("", func(t *testing.T) {
			if atOnce > 1 {
				t.Parallel()
			}
			for seed := next.Add(1) - 1; seed < first+count || time.Now().Before(end); seed = next.Add(1) - 1 {
				t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { runHistory(t, seed) })
			}
		})
	}
}

// A history is an operator with some children, to whom things happen that a random
// source chooses: new desired states, other writers, restarts, obstacles.
type history struct {
	*stage
	seed    uint64
	random  *rand.Rand
	table   map[string]transition
	names   []string               // of the table's transitions, sorted
	at      map[string]int         // the state that is desired; no entry: the child isn't desired
	waiting map[resource.Type]bool // types with OnDelete

	// theirs are the children in which somebody else may have set fields that stay, and
	// labelled those that somebody else has labelled.
	theirs, labelled map[string]types.UID
	removed          map[types.NamespacedName][]time.Time // when somebody has deleted a child

	hook   *webhook
	told   int      // errors of the handler that are looked at
	script []string // what has happened
}

func runHistory(t *testing.T, seed uint64) {
	h := &history{
		seed: seed, random: rand.New(rand.NewPCG(seed, 170)),
		table: map[string]transition{}, at: map[string]int{}, theirs: map[string]types.UID{}, labelled: map[string]types.UID{}, waiting: map[resource.Type]bool{}, removed: map[types.NamespacedName][]time.Time{},
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("history of seed %d:\n%s", seed, strings.Join(h.script, "\n"))
		}
	})
	h.begin(t)
	steps := []struct {
		weight int
		step   func()
	}{
		{6, h.change}, {2, h.restartSilently}, {3, h.rebuildChanged}, {3, h.replacedByOthers}, {2, h.labelledByOthers}, {2, h.stripped}, {2, h.deletedByOthers}, {2, h.underPolicy}, {2, h.underQuota}, {3, h.hurry},
	}
	total := 0
	for _, s := range steps {
		total += s.weight
	}
	h.change()
	h.check()
	for range 8 {
		n := h.random.IntN(total)
		for _, s := range steps {
			if n -= s.weight; n < 0 {
				s.step()
				break
			}
		}
		h.check()
	}
	h.silent()
	h.restartSilently()
}

// begin draws the kinds, their strategies and perhaps a webhook, and starts the
// operator.
func (h *history) begin(t *testing.T) {
	t.Helper()
	all := allTransitions()
	for _, name := range h.drawn(slices.Sorted(maps.Keys(all)), 10) {
		h.table[name] = all[name]
	}
	h.names = slices.Sorted(maps.Keys(h.table))
	var children []config.Child
	for _, name := range h.names {
		of := typeOf(h.table[name].state(t, name, 0))
		if slices.ContainsFunc(children, func(c config.Child) bool { return c.Type == of }) {
			continue
		}
		strategies := []config.UpdateStrategy{config.Replace, config.Replace, config.Apply, config.Apply, config.Recreate, config.OnDelete}
		strategy := strategies[h.random.IntN(len(strategies))]
		if of == k8s.StatefulSet { // it isn't deleted for a default that follows from the absence of another
			strategy = strategies[h.random.IntN(4)]
		}
		h.waiting[of] = strategy == config.OnDelete
		children = append(children, config.Child{Type: of, Strategy: strategy})
		h.note("%s by %s", of.Kind, strategy)
	}
	h.stage = newStage(t, fmt.Sprintf("c170-%d", h.seed), children...)
	switch h.random.IntN(5) {
	case 0:
		h.note("a webhook injects a sidecar")
		h.hook = &webhook{mutate: injectAlways}
	case 1:
		h.note("a webhook rewrites images")
		h.hook = &webhook{mutate: mirrorImages}
	case 2:
		h.note("a webhook chooses a subdomain for what is created")
		h.hook = &webhook{creation: true, mutate: func(object map[string]any) { podSpec(object)["subdomain"] = "injected" }}
	}
	if h.hook != nil {
		h.hook.serve(t, h.Namespace)
	}
}

// allTransitions are those of all tables, but for what changes how the API server
// takes other objects, or can't be changed back.
func allTransitions() map[string]transition {
	all := map[string]transition{}
	for prefix, table := range map[string]map[string]transition{"pods": podTransitions(), "kinds": otherTransitions(), "defaults": defaultsTransitions()} {
		for name, tr := range table {
			all[prefix+" "+name] = tr
		}
	}
	for name, l := range livesUnderApply() {
		tr := transition{l.reason, l.head, nil}
		for _, step := range l.steps {
			if !strings.HasPrefix(step, `{"`) {
				tr.states = append(tr.states, step)
			}
		}
		all["lives "+name] = tr
	}
	families := all["defaults families"] // a Service keeps a policy that isn't said any more
	families.states = families.states[1:]
	all["defaults families"] = families
	for _, name := range []string{"kinds configmap", "kinds quota", "kinds limits", "defaults limits"} {
		delete(all, name)
	}
	return all
}

func typeOf(child map[string]any) resource.Type {
	return resource.Type{APIVersion: child["apiVersion"].(string), Kind: child["kind"].(string)}
}

func (h *history) note(format string, args ...any) {
	h.script = append(h.script, fmt.Sprintf(format, args...))
}

// drawn returns some of the names.
func (h *history) drawn(names []string, count int) []string {
	names = slices.Clone(names)
	h.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:min(count, len(names))]
}

// ordered says whether a kind's states can only be had in their order, since fields
// can't be changed.
func ordered(tr transition) bool { return strings.Contains(tr.head, "kind: Job") }

// draw chooses new desired states of some children.
func (h *history) draw() {
	for _, name := range h.names {
		i, desired := h.at[name]
		if h.random.IntN(2) == 0 && len(h.at) > 0 {
			continue
		}
		states := h.table[name].states
		switch {
		case desired && h.random.IntN(8) == 0:
			delete(h.at, name)
			h.note("  %s: not desired", name)
			continue
		case !ordered(h.table[name]):
			i = h.random.IntN(len(states))
		case desired:
			i = min(i+1, len(states)-1)
		}
		h.at[name] = i
		h.note("  %s: %s", name, states[i])
	}
}

// desired returns the desired children in the order of their names, and anew each
// time: a handler may do with them what it likes.
func (h *history) desired() []any {
	var children []any
	for _, name := range h.names {
		if i, ok := h.at[name]; ok {
			children = append(children, h.table[name].state(h.t, name, i))
		}
	}
	return children
}

// change asks for new states.
func (h *history) change() {
	h.note("the parent changes")
	h.draw()
	h.stage.ask(h.desired()...)
}

// hurry lets things happen in a row, without waiting for the operator.
func (h *history) hurry() {
	h.note("in a hurry")
	for range 4 {
		[]func(){h.change, h.change, h.replacedByOthers, h.labelledByOthers, h.deletedInPassing}[h.random.IntN(5)]()
	}
	settle(h.t, h.Kit)
	h.freed()
}

// restartSilently starts the same build again.
func (h *history) restartSilently() {
	h.note("restart")
	h.stage.restart()
	h.told = 0
}

// rebuildChanged starts a build that wants other states, of which a plan tells first.
// Meanwhile somebody else may have changed a child.
func (h *history) rebuildChanged() {
	h.note("another build")
	h.Stop()
	if h.random.IntN(2) == 0 {
		h.replacedByOthers()
	}
	h.draw()
	h.restartWith(true)
}

// restartWith starts the operator with what is desired now. With exact, the children
// that change then must be those that a plan foresees.
func (h *history) restartWith(exact bool) {
	h.t.Helper()
	h.mu.Lock()
	children := h.desired()
	h.mu.count, h.mu.wanted = len(children), func(*handler.SyncRequest) *handler.SyncResponse {
		return &handler.SyncResponse{Children: children, Status: map[string]any{"phase": "Fine"}}
	}
	h.mu.Unlock()
	before := h.contents()
	changes, err := h.plan(h.config)
	if exact && err != nil && h.givenUp(err) {
		before = h.contents()
		changes, err = h.plan(h.config)
	}
	if exact {
		require.NoError(h.t, err)
	}
	h.Restart(h.config, handler.SyncFunc(h.sync))
	h.told = 0
	settle(h.t, h.Kit)
	if !exact {
		return
	}
	h.undisturbed()
	after, foreseen := h.contents(), map[string]bool{}
	for _, c := range changes {
		foreseen[c.Type.Kind+" "+c.Object.Name] = true
	}
	for _, name := range h.names {
		child := h.table[name].state(h.t, name, 0)
		object := typeOf(child).Kind + " " + child["metadata"].(map[string]any)["name"].(string)
		require.Equal(h.t, foreseen[object], !reflect.DeepEqual(before[name], after[name]), "%s: foreseen, and changed\nbefore: %v\nafter: %v", object, before[name], after[name])
	}
}

// contents returns what is in the children that exist, and which objects they are.
func (h *history) contents() map[string]any {
	h.t.Helper()
	out := map[string]any{}
	for _, name := range h.names {
		if live := h.Get(h.table[name].state(h.t, name, 0)); live != nil {
			out[name] = []any{live.UID(), contentOf(live)}
		}
	}
	return out
}

// drawChild returns the name of a desired child that exists, and the child.
func (h *history) drawChild() (name string, live *resource.Resource) {
	h.t.Helper()
	for _, name := range h.drawn(slices.Sorted(maps.Keys(h.at)), len(h.at)) {
		if live := h.Get(h.table[name].state(h.t, name, h.at[name])); live != nil && !live.IsDeleting() {
			return name, live
		}
	}
	return "", nil
}
