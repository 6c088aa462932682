package relate_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/defaults"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/relate"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/internal/testing/budget"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/past"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

func TestMain(m *testing.M) { rig.Main(m) }

// A world is Relations on an API server, and parents that refer to Secrets. Whenever one is
// due, it is told what there is.
type world struct {
	t         *testing.T
	rng       *rand.Rand
	server    *fakeapi.Server
	relations *relate.Relations
	many      bool   // namespaces, of which all at once may be watched
	narrow    bool   // no query is for all namespaces
	confined  string // the verbs that are forbidden for all namespaces at once

	mu      sync.Mutex
	refs    map[types.UID][]relate.Query
	told    map[types.UID][]string // name=resourceVersion, as the parent knows them
	known   map[types.UID]bool     // the last answer was one
	record  *past.Record
	witness *past.Witness
	wrong   []string

	notes   sync.Mutex
	history []string
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), refs: map[types.UID][]relate.Query{}, told: map[types.UID][]string{},
		known: map[types.UID]bool{}, record: past.NewRecord(k8s.Secret.Kind),
	}
	w.many, w.narrow = w.rng.IntN(2) == 0, w.rng.IntN(2) == 0
	if w.narrow {
		w.confined = w.pick("", "list, watch", "watch")
	}
	w.witness = w.record.Witness()
	w.server = fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"), fakeapi.Secrets(), fakeapi.ConfigMaps())
	w.meet(nil)
	cfg := defaults.Apply(config.Operator{Name: "op", Parent: sample.ParentType(), Related: []config.Related{{Type: k8s.Secret}}})
	kinds, err := catalog.Offline(cfg)
	require.NoError(t, err)
	log := slog.New(slog.DiscardHandler)
	link, err := client.Connect(w.server.RESTConfig(), log)
	require.NoError(t, err)
	c, err := client.New(link, link.As("op", nil), "op", nil, log)
	require.NoError(t, err)
	c.DropHeldFields()
	m := observe.NewMetrics()
	_, err = m.Register(prometheus.NewRegistry(), "op", "", []resource.Type{k8s.Secret}, func() observe.Gauges { return observe.Gauges{} })
	require.NoError(t, err)
	w.relations = relate.New(relate.Config{
		Kinds: kinds.Related, Client: c, Log: log, Metrics: m, MostWatches: 2 + w.rng.IntN(4), Everywhere: func(resource.Type) bool { return w.many },
		Changed: func(c store.Change, _ schedule.Trigger) {
			for _, uid := range c.Parents {
				w.look(uid)
			}
		},
	})
	return w
}

func (w *world) note(format string, args ...any) {
	w.notes.Lock()
	defer w.notes.Unlock()
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

// meet has all requests to come meet something first; nil is nothing.
func (w *world) meet(before func(fakeapi.Request) error) {
	w.server.SetHooks(fakeapi.Hooks{Changed: w.record.Note, Before: func(req fakeapi.Request) error {
		if strings.Contains(w.confined, req.Verb) && req.Key.Namespace == "" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("confined"))
		}
		if before == nil {
			return nil
		}
		return before(req)
	}})
}

// refsOf returns queries as a Witness knows them.
func refsOf(queries []relate.Query) (refs []past.Ref) {
	for _, q := range queries {
		refs = append(refs, past.Ref{Kind: q.Type.Kind, Namespace: q.Namespace, Name: q.Name, Selector: q.Selector})
	}
	return refs
}

// look is a pass over a parent: it asks what there is, and checks the answer.
func (w *world) look(parent types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	queries, ok := w.refs[parent]
	if !ok {
		return
	}
	w.witness.Refers(parent, refsOf(queries))
	found, known, _, err := w.relations.Refer(parent, queries)
	w.known[parent] = known && err == nil
	if !w.known[parent] {
		return
	}
	var told []string
	for _, res := range found {
		told = append(told, res.Key().String()+"="+res.ResourceVersion())
	}
	for _, wrong := range w.witness.Shown(parent, refsOf(queries), found) {
		w.wrong = append(w.wrong, fmt.Sprintf("%s: %s", parent, wrong))
	}
	w.told[parent] = told
	w.note("    %s told %v", parent, told)
}

// truth is what a parent is to know in the end.
func (w *world) truth(parent types.UID) (want []string) {
	for _, res := range relate.Match(w.refs[parent], w.server.List(k8s.Secret)) {
		want = append(want, res.Key().String()+"="+res.ResourceVersion())
	}
	return want
}

func (w *world) pick(of ...string) string { return of[w.rng.IntN(len(of))] }

func (w *world) namespace() string {
	if w.many {
		return w.pick("a", "b", "c", "d", "e", "f", "g", "h")
	}
	return w.pick("a", "a", "a", "b")
}

func (w *world) name() string {
	return fmt.Sprint("s", w.rng.IntN(7))
}

// query returns a reference.
func (w *world) query() relate.Query {
	q := relate.Query{Type: k8s.Secret, Namespace: w.namespace()}
	switch w.rng.IntN(10) {
	case 0:
		q.Selector = w.pick("tier=gold", "tier=tin", "tier")
	case 1:
		q.Selector = w.pick("tier=gold", "!tier")
		if !w.narrow {
			q.Namespace = ""
		}
	case 2:
		if w.rng.IntN(3) == 0 {
			if q.Namespace = "a"; !w.narrow {
				q.Namespace = w.pick("a", "")
			}
			break
		}
		fallthrough
	default:
		q.Name = w.name()
	}
	return q
}

func (w *world) secret(name, namespace string) map[string]any {
	meta := map[string]any{"name": name, "namespace": namespace}
	if tier := w.pick("", "gold", "tin"); tier != "" {
		meta["labels"] = map[string]any{"tier": tier}
	}
	return map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": map[string]any{"n": strconv.Itoa(w.rng.IntN(1000))}}
}

// step does something that may happen.
func (w *world) step() {
	key := types.NamespacedName{Namespace: w.namespace(), Name: w.name()}
	parent := types.UID(w.pick("p0", "p1", "p2", "p3"))
	switch dice := w.rng.IntN(100); {
	case dice < 25:
		var queries []relate.Query
		for range w.rng.IntN(6) {
			queries = append(queries, w.query())
		}
		slices.SortFunc(queries, relate.Compare)
		queries = slices.Compact(queries)
		w.mu.Lock()
		w.note("%s refers to %v", parent, queries)
		w.refs[parent], w.known[parent] = queries, false
		w.mu.Unlock()
		w.look(parent)
	case dice < 28:
		w.mu.Lock()
		w.note("%s is gone", parent)
		delete(w.refs, parent)
		w.relations.Forget(parent)
		w.witness.Shown(parent, nil, nil)
		w.mu.Unlock()
	case dice < 45:
		w.note("create %s", key)
		_, _ = w.server.Create(w.secret(key.Name, key.Namespace))
	case dice < 60:
		w.note("change %s", key)
		_, _ = w.server.Change(k8s.Secret, key, func(o map[string]any) {
			now := w.secret(key.Name, key.Namespace)
			o["data"] = now["data"]
			labels := now["metadata"].(map[string]any)["labels"]
			o["metadata"].(map[string]any)["labels"] = labels
		})
	case dice < 72:
		w.note("delete %s", key)
		_ = w.server.Delete(k8s.Secret, key)
	case dice < 78:
		w.note("the watches are late")
		w.server.Hold(k8s.Secret)
	case dice < 86:
		w.note("the watches are on time")
		w.server.Release()
	case dice < 90:
		w.note("the watches break")
		w.server.BreakWatches()
	case dice < 94:
		w.note("the watches break, after a compaction")
		w.server.Compact()
		w.server.BreakWatches()
	default:
		n, slow, right := 1+w.rng.IntN(4), w.rng.IntN(3) == 0, w.pick("", "", "watch", "list", "get")
		w.note("%d requests fail or are late (%t), or are forbidden (%s)", n, slow, right)
		var mu sync.Mutex
		w.meet(func(req fakeapi.Request) error {
			mu.Lock()
			if right == "" || right == req.Verb {
				n--
			}
			hit := n >= 0
			mu.Unlock()
			switch {
			case hit && right == req.Verb && !slow:
				return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("for a moment"))
			case hit && slow && right == "get":
				<-time.After(700 * time.Millisecond)
			case right != "":
			case hit && slow:
				<-time.After(700 * time.Millisecond)
			case hit:
				return apierrors.NewInternalError(errors.New("for a moment"))
			}
			return nil
		})
	}
}

func (w *world) wait() {
	switch w.rng.IntN(4) {
	case 0:
		rig.Elapse(0)
	case 1:
		rig.Elapse(time.Duration(w.rng.IntN(20)) * time.Millisecond)
	case 2:
		rig.Elapse(time.Duration(w.rng.IntN(1000)) * time.Millisecond)
	}
}

func uniqueQueries(refs map[types.UID][]relate.Query) map[relate.Query]struct{} {
	out := map[relate.Query]struct{}{}
	for _, queries := range refs {
		for _, q := range queries {
			out[q] = struct{}{}
		}
	}
	return out
}

// TestProperty plays random histories. In the end every parent knows exactly what it refers
// to, as it is. What it is told on the way a past.Witness judges.
func TestProperty(t *testing.T) {
	first, count := budget.FromEnv(t, "RELATE_FIRST", 0), budget.Count(t, "RELATE_COUNT", 400)
	for seed := first; seed < first+count; seed++ {
		var wrong, history []string
		rig.Bubble(t, func(t *testing.T) { wrong, history = play(t, seed) })
		if len(wrong) > 0 {
			t.Fatalf("seed %d:\n%s\n\n%s", seed, strings.Join(wrong, "\n"), strings.Join(history, "\n"))
		}
	}
}

func play(t *testing.T, seed uint64) (wrong, history []string) {
	t.Helper()
	w := newWorld(t, seed)
	if w.rng.IntN(4) == 0 {
		w.server.RefuseWatchLists()
	}
	for _, namespace := range []string{"a", "b"} {
		for _, name := range []string{"s0", "s1"} {
			_, err := w.server.Create(w.secret(name, namespace))
			require.NoError(t, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.relations.Run(ctx)
	}()
	for range 10 + w.rng.IntN(100) {
		w.step()
		w.wait()
	}
	w.meet(nil)
	w.server.Release()
	rig.Elapse(2 * time.Minute)
	w.mu.Lock()
	for parent := range w.refs {
		if want := w.truth(parent); !w.known[parent] || !slices.Equal(want, w.told[parent]) {
			w.wrong = append(w.wrong, fmt.Sprintf("%s, which refers to %v, was told %v (%t), not %v", parent, w.refs[parent], w.told[parent], w.known[parent], want))
		}
	}
	held := map[string]int{}
	w.relations.Sizes(held)
	most := 0
	for q := range uniqueQueries(w.refs) {
		most += len(relate.Match([]relate.Query{q}, w.server.List(k8s.Secret)))
	}
	if held["related objects"] > most {
		w.wrong = append(w.wrong, fmt.Sprintf("%d objects are held, of which %d may be referred to", held["related objects"], most))
	}
	if len(w.wrong) > 0 {
		w.note("%s", w.relations.Dump())
	}
	parents := w.refs
	w.refs = map[types.UID][]relate.Query{}
	w.mu.Unlock()
	for parent := range parents {
		w.relations.Forget(parent)
	}
	rig.Elapse(time.Second)
	sizes := map[string]int{}
	w.relations.Sizes(sizes)
	for name, n := range sizes {
		if n > 0 {
			w.wrong = append(w.wrong, fmt.Sprintf("%d %s are left", n, name))
		}
	}
	cancel()
	<-done
	if w.record.Collided() {
		w.wrong = nil
	}
	return w.wrong, w.history
}
