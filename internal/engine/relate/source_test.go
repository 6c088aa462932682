package relate

import (
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"testing"

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
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// A stage is Relations that don't run: a test delivers what a watch would, step by step.
type stage struct {
	*Relations
	t *testing.T
}

func newStage(t *testing.T) *stage {
	t.Helper()
	cfg := defaults.Apply(config.Operator{Name: "op", Parent: sample.ParentType(), Related: []config.Related{{Type: k8s.Secret}}})
	kinds, err := catalog.Offline(cfg)
	require.NoError(t, err)
	log := slog.New(slog.DiscardHandler)
	m := observe.NewMetrics()
	_, err = m.Register(prometheus.NewRegistry(), "op", "", []resource.Type{k8s.Secret}, func() observe.Gauges { return observe.Gauges{} })
	require.NoError(t, err)
	return &stage{t: t, Relations: New(Config{
		Kinds: kinds.Related, Client: clientOf(t, fakeapi.New(fakeapi.Secrets())), Log: log, Metrics: m, MostWatches: 1,
		Changed: func(store.Change, schedule.Trigger) {},
	})}
}

func clientOf(t *testing.T, server *fakeapi.Server) *client.Client {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	link, err := client.Connect(server.RESTConfig(), log)
	require.NoError(t, err)
	c, err := client.New(link, link.As("op", nil), "op", nil, log)
	require.NoError(t, err)
	return c
}

func everySecret() Query { return Query{Type: k8s.Secret, Namespace: "ns"} }

func named(name string) Query { return Query{Type: k8s.Secret, Namespace: "ns", Name: name} }

func (s *stage) secret(name string, version int, tier string) *resource.Resource {
	meta := map[string]any{"namespace": "ns", "name": name, "uid": name, "resourceVersion": strconv.Itoa(version)}
	if tier != "" {
		meta["labels"] = map[string]any{"tier": tier}
	}
	res, err := resource.New(map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": map[string]any{"k": "dg=="}})
	require.NoError(s.t, err)
	return res
}

// refer is Refer of what a parent refers to, whatever there is of it.
func (s *stage) refer(parent types.UID, queries []Query) {
	_, _, _, err := s.Refer(parent, queries)
	require.NoError(s.t, err)
}

// source starts a source that a test feeds.
func (s *stage) source(q Query) *source {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := s.startLocked(s.t.Context(), q)
	s.t.Cleanup(from.stop)
	return from
}

// list delivers a complete list.
func (s *stage) list(to *source, version int, objects ...*resource.Resource) store.Change {
	to.listing()
	return to.Replace(store.Stream{}, objects, strconv.Itoa(version))
}

// held returns the resourceVersion of an object that a source holds, "" if it holds none.
func (s *stage) held(by *source, name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if res := by.objects[types.NamespacedName{Namespace: "ns", Name: name}]; res != nil {
		return res.ResourceVersion()
	}
	return ""
}

// lookup returns a lookup that is under way, of which a test tells the answer.
func (s *stage) lookup(by *source, q Query) *lookup {
	s.settle(s.t.Context(), make(chan struct{}, 1))
	s.mu.Lock()
	defer s.mu.Unlock()
	l := by.looking[q]
	require.NotNil(s.t, l, "%s is looked up", q)
	require.True(s.t, l.running)
	l.asked = s.mu.count
	return l
}

// wide returns a watch of everything that was listed at version 10, before anybody referred
// to b.
func (s *stage) wide(objects ...*resource.Resource) *source {
	_, known, _, err := s.Refer("p", []Query{everySecretButTyped(), named("a")})
	require.False(s.t, known)
	require.NoError(s.t, err)
	from := s.source(everySecret())
	s.list(from, 10, objects...)
	return from
}

// everySecretButTyped is a query that keeps the watch of everything wanted, and is for no
// Secret of a test.
func everySecretButTyped() Query {
	return Query{Type: k8s.Secret, Namespace: "ns", Selector: "!tier,tier"}
}

// Nothing is held of what nobody refers to, and nothing is left of what nobody refers to
// any more.
func TestSource_HoldsWhatIsReferredTo(t *testing.T) {
	s := newStage(t)
	wide := s.wide(s.secret("a", 5, ""), s.secret("b", 6, ""))
	require.Equal(t, "5", s.held(wide, "a"))
	require.Empty(t, s.held(wide, "b"))
	wide.Observe(store.Stream{}, s.secret("c", 11, ""))
	require.Empty(t, s.held(wide, "c"))
	s.refer("p", []Query{everySecretButTyped()})
	require.Empty(t, s.held(wide, "a"))
}

// A watch that begins again some events ago doesn't bring back what is gone.
func TestSource_EventsToldTwice(t *testing.T) {
	s := newStage(t)
	wide := s.wide(s.secret("a", 5, ""))
	events := func() {
		wide.Observe(store.Stream{}, s.secret("a", 11, ""))
		wide.ObserveDeleted(store.Stream{}, s.secret("a", 12, ""))
	}
	events()
	require.Empty(t, s.held(wide, "a"))
	wide.Observe(store.Stream{}, s.secret("a", 11, ""))
	require.Empty(t, s.held(wide, "a"))
	wide.Observe(store.Stream{}, s.secret("a", 13, ""))
	require.Equal(t, "13", s.held(wide, "a"), "it exists anew")
	events()
	require.Equal(t, "13", s.held(wide, "a"))
}

// An event was decoded before somebody referred to its object, so that its content is gone.
// The object is read.
func TestSource_ShortEvent(t *testing.T) {
	s := newStage(t)
	wide := s.wide()
	short := s.shorten(s.secret("b", 11, ""))
	require.True(t, isShort(short))
	s.refer("q", []Query{named("b")})
	wide.Observe(store.Stream{}, short)
	require.Empty(t, s.held(wide, "b"))
	l := s.lookup(wide, named("b"))
	wide.found(named("b"), l, []*resource.Resource{s.secret("b", 11, "")}, "11", nil)
	require.Equal(t, "11", s.held(wide, "b"))
	found, known, _, err := s.Refer("q", []Query{named("b")})
	require.NoError(t, err)
	require.True(t, known)
	require.Len(t, found, 1)
}

// The object is wanted for its labels, by nobody for its name. A read that fails is repeated.
func TestSource_ShortEventIsReadUntilItIs(t *testing.T) {
	s := newStage(t)
	wide := s.wide()
	short := s.shorten(s.secret("b", 11, "gold"))
	gold := Query{Type: k8s.Secret, Namespace: "ns", Selector: "tier=gold"}
	s.refer("q", []Query{gold})
	wide.found(gold, s.lookup(wide, gold), nil, "10", nil)
	wide.Observe(store.Stream{}, short)
	l := s.lookup(wide, named("b"))
	_, over := wide.found(named("b"), l, nil, "", errors.New("for a moment"))
	require.False(t, over)
	wide.found(named("b"), l, []*resource.Resource{s.secret("b", 11, "gold")}, "11", nil)
	require.Equal(t, "11", s.held(wide, "b"))
}

// The key alone of an object in a list says that nobody refers to its newest state.
func TestSource_ShortInAList(t *testing.T) {
	s := newStage(t)
	gold := Query{Type: k8s.Secret, Namespace: "ns", Selector: "tier=gold"}
	s.refer("p", []Query{gold})
	wide := s.source(everySecret())
	s.list(wide, 10, s.secret("x", 5, "gold"))
	require.Equal(t, "5", s.held(wide, "x"))
	c := s.list(wide, 20, s.shorten(s.secret("x", 12, "tin")))
	require.Empty(t, s.held(wide, "x"))
	require.Equal(t, []types.UID{"p"}, c.Parents)
}

// A source of its own that nobody refers by for a moment may have missed something.
func TestSource_NotUsedAgain(t *testing.T) {
	s := newStage(t)
	s.refer("p", []Query{named("a")})
	s.list(s.source(named("a")), 10, s.secret("a", 5, ""))
	_, known, _, _ := s.Refer("p", []Query{named("a")})
	require.True(t, known)
	s.refer("p", nil)
	_, known, _, _ = s.Refer("p", []Query{named("a")})
	require.False(t, known)
}

// While an object is looked up, the watch goes on.
func TestSource_LookupAndWatch(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		watch  func(s *stage, wide *source)
		want   string
		again  bool
	}{
		"Nothing": {"it is as it was found", func(*stage, *source) {}, "11", false},
		"Deleted": {"the answer is older", func(s *stage, wide *source) { wide.ObserveDeleted(store.Stream{}, s.secret("b", 12, "")) }, "", false},
		"Changed": {"so it is here", func(s *stage, wide *source) { wide.Observe(store.Stream{}, s.secret("b", 12, "")) }, "12", false},
		"Same":    {"the answer tells the same", func(s *stage, wide *source) { wide.Observe(store.Stream{}, s.secret("b", 11, "")) }, "11", false},
		"Older":   {"the watch lags behind", func(s *stage, wide *source) { wide.Observe(store.Stream{}, s.secret("b", 10, "")) }, "11", false},
		"List":    {"the answer may be older than the list", func(s *stage, wide *source) { s.list(wide, 20) }, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			wide := s.wide()
			s.refer("q", []Query{named("b")})
			l := s.lookup(wide, named("b"))
			tc.watch(s, wide)
			_, over := wide.found(named("b"), l, []*resource.Resource{s.secret("b", 11, "")}, "11", nil)
			require.Equal(t, !tc.again, over)
			require.Equal(t, tc.want, s.held(wide, "b"), tc.reason)
		})
	}
}

// A lookup has found nothing. What the watch tells later of the time before doesn't bring
// it back.
func TestSource_LookupOfNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		then   func(s *stage, wide *source)
		want   string
	}{
		"Older":      {"it is gone by now", func(s *stage, wide *source) { wide.Observe(store.Stream{}, s.secret("b", 15, "")) }, ""},
		"OlderShort": {"nor is it read", func(s *stage, wide *source) { wide.Observe(store.Stream{}, s.shorten(s.secret("b", 15, ""))) }, ""},
		"Newer":      {"it is back", func(s *stage, wide *source) { wide.Observe(store.Stream{}, s.secret("b", 21, "")) }, "21"},
		"NewerList":  {"it is back", func(s *stage, wide *source) { s.list(wide, 25, s.secret("b", 21, "")) }, "21"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			wide := s.wide()
			s.refer("q", []Query{named("b")})
			_, over := wide.found(named("b"), s.lookup(wide, named("b")), nil, "20", nil)
			require.True(t, over)
			tc.then(s, wide)
			require.Equal(t, tc.want, s.held(wide, "b"), tc.reason)
		})
	}
}

// The watch is late: it still holds for one parent what another one's lookup doesn't find. As
// long as it does, both are told the same.
func TestSource_LookupOfWhatIsHeld(t *testing.T) {
	s := newStage(t)
	s.refer("r", []Query{{Type: k8s.Secret, Namespace: "ns", Selector: "tier=gold"}})
	wide := s.wide(s.secret("b", 5, "gold"))
	s.refer("q", []Query{named("b")})
	wide.found(named("b"), s.lookup(wide, named("b")), nil, "20", nil)
	require.Equal(t, "5", s.held(wide, "b"))
	wide.ObserveDeleted(store.Stream{}, s.secret("b", 15, "gold"))
	require.Empty(t, s.held(wide, "b"))
}

// Of two lookups of one object the answer to the second one comes first.
func TestSource_LookupsOvertake(t *testing.T) {
	gold := Query{Type: k8s.Secret, Namespace: "ns", Selector: "tier=gold"}
	s := newStage(t)
	wide := s.wide()
	s.refer("q", []Query{gold})
	first := s.lookup(wide, gold)
	s.refer("r", []Query{named("b")})
	wide.found(named("b"), s.lookup(wide, named("b")), nil, "20", nil)
	wide.found(gold, first, []*resource.Resource{s.secret("b", 15, "gold")}, "16", nil)
	require.Empty(t, s.held(wide, "b"))
}

// A watch of everything takes over from another one once it has come as far, so that no
// parent is told of an older state.
func TestSource_TakesOver(t *testing.T) {
	s := newStage(t)
	all := everySecret()
	s.refer("p", []Query{named("a")})
	one := s.source(named("a"))
	s.list(one, 10, s.secret("a", 5, ""))
	s.refer("q", []Query{all}) // everything is wanted from now on
	wide := s.source(all)
	s.list(wide, 15, s.secret("a", 5, ""))
	one.Observe(store.Stream{}, s.secret("a", 20, ""))
	ends := func() bool {
		s.settle(s.t.Context(), nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.mu.sources[named("a")] == nil
	}
	require.False(t, ends(), "the other one has come further")
	found, _, _, _ := s.Refer("p", []Query{named("a")})
	require.Equal(t, "20", found[0].ResourceVersion())
	wide.Observe(store.Stream{}, s.secret("a", 20, ""))
	require.True(t, ends())
	found, known, _, _ := s.Refer("p", []Query{named("a")})
	require.True(t, known)
	require.Equal(t, "20", found[0].ResourceVersion())
}

// A watch of everything is forbidden, as by a role for some names. The references of a parent
// that has few are watched one by one, until there is the right. Of one that has many they
// aren't: which would be?
func TestSource_WatchOfEverythingIsForbidden(t *testing.T) {
	s := newStage(t) // MostWatches is 1
	s.refer("many", []Query{named("a"), named("b"), named("c")})
	s.refer("few", []Query{named("x")})
	require.Equal(t, []string{"Secret ns/[]"}, s.watched())
	wide := s.mu.sources[everySecret()]
	wide.refused(apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("no")))
	require.Len(t, s.dirty, 1, "other watches are needed")
	_, _, _, err := s.Refer("few", []Query{named("x")})
	require.Error(t, err)
	require.Equal(t, []string{"Secret ns/[]", "Secret ns/x"}, s.watched())
	_, known, _, err := s.Refer("few", []Query{named("x")})
	require.NoError(t, err, "the answer is on its way")
	require.False(t, known)
	require.Equal(t, []types.UID{"few"}, s.list(s.mu.sources[named("x")], 10).Parents)
	_, known, _, _ = s.Refer("few", []Query{named("x")})
	require.True(t, known)
	_, _, _, err = s.Refer("many", []Query{named("a"), named("b"), named("c")})
	require.ErrorContains(t, err, "Secret ns/a: secrets is forbidden")

	wide.established()
	require.Equal(t, []types.UID{"many"}, s.list(wide, 20).Parents)
	require.Equal(t, []string{"Secret ns/[]"}, s.watched())
	_, known, _, _ = s.Refer("few", []Query{named("x")})
	require.True(t, known)
}

// watched settles, and returns what is watched.
func (s *stage) watched() (queries []string) {
	s.settle(s.t.Context(), nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	for q := range s.mu.sources {
		queries = append(queries, q.String())
	}
	slices.Sort(queries)
	return queries
}

// Parents in more namespaces than have a watch each have one watch together. If that is forbidden, each namespace has its own
// again, and who was told by the one is due.
func TestSource_ManyNamespaces(t *testing.T) {
	s := newStage(t) // MostWatches is 1
	var due []types.UID
	s.Changed = func(c store.Change, _ schedule.Trigger) { due = append(due, c.Parents...) }
	in := func(namespace string) Query { return Query{Type: k8s.Secret, Namespace: namespace, Name: "x"} }
	s.refer("p", []Query{in("a")})
	require.Equal(t, []string{"Secret a/x"}, s.watched())
	s.refer("q", []Query{in("b")})
	require.Equal(t, []string{"Secret a/x", "Secret b/x"}, s.watched(), "the operator is confined to namespaces")

	s.Everywhere = func(resource.Type) bool { return true }
	s.list(s.mu.sources[in("a")], 10)
	require.Equal(t, []string{"Secret []", "Secret a/x"}, s.watched(), "what is known is so until the new watch has caught up")
	all := s.mu.sources[Query{Type: k8s.Secret}]
	require.Equal(t, []types.UID{"q"}, s.list(all, 11).Parents)
	require.Equal(t, []string{"Secret []"}, s.watched())
	_, known, _, err := s.Refer("q", []Query{in("b")})
	require.NoError(t, err)
	require.True(t, known)

	due = nil
	all.refused(apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("no")))
	slices.Sort(due)
	require.Equal(t, []types.UID{"p", "q"}, due)
	require.Equal(t, []string{"Secret a/x", "Secret b/x"}, s.watched())
	_, known, _, err = s.Refer("q", []Query{in("b")})
	require.NoError(t, err, "the answer is on its way")
	require.False(t, known)
	s.refer("r", []Query{in("c")})
	require.Equal(t, []string{"Secret a/x", "Secret b/x", "Secret c/x"}, s.watched(), "it isn't tried again")
}

// What was told before a watch for all namespaces is forbidden changes nothing: that the type isn't served, or that a parent, which
// has not been reconciled since, refers to it as one that isn't.
func TestSource_ManyNamespacesOddly(t *testing.T) {
	for name, before := range map[string]func(s *stage, all func() *source){
		"Gone": func(_ *stage, all func() *source) { all().interrupted(true) },
		"Unserved": func(s *stage, _ func() *source) {
			s.refer("paused", []Query{{Type: k8s.Secret, Name: "x", Unserved: true}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t) // MostWatches is 1
			s.Everywhere = func(resource.Type) bool { return true }
			in := func(namespace string) Query { return Query{Type: k8s.Secret, Namespace: namespace, Name: "x"} }
			s.refer("p", []Query{in("a")})
			s.refer("q", []Query{in("b")})
			require.Equal(t, []string{"Secret []"}, s.watched())
			all := func() *source { return s.mu.sources[Query{Type: k8s.Secret}] }
			before(s, all)
			all().refused(apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("no")))
			require.Equal(t, []string{"Secret a/x", "Secret b/x"}, s.watched())
			_, known, _, err := s.Refer("q", []Query{in("b")})
			require.NoError(t, err)
			require.False(t, known)
			require.NoError(t, s.Broken(k8s.Secret))
		})
	}
}

// A list has arrived, but the watch that would keep it up to date is refused. The parent fails
// for want of it, and is due as soon as there is a watch, without another event.
func TestSource_WatchIsRefusedForAWhile(t *testing.T) {
	s := newStage(t)
	var due []types.UID
	s.Changed = func(c store.Change, _ schedule.Trigger) {
		due = append(due, append(c.Parents, c.Own...)...)
	}
	s.refer("p", []Query{named("x")})
	from := s.source(named("x"))
	require.Equal(t, []types.UID{"p"}, s.list(from, 10, s.secret("x", 9, "")).Parents)
	_, known, _, err := s.Refer("p", []Query{named("x")})
	require.NoError(t, err)
	require.True(t, known)

	from.refused(errors.New("no watch"))
	require.Equal(t, []types.UID{"p"}, due, "what it was told is kept up to date no more")
	_, _, _, err = s.Refer("p", []Query{named("x")})
	require.ErrorContains(t, err, "no watch")

	due = nil
	from.established()
	require.Equal(t, []types.UID{"p"}, due)
	found, known, _, err := s.Refer("p", []Query{named("x")})
	require.NoError(t, err)
	require.True(t, known)
	require.Len(t, found, 1)
	due = nil
	from.established()
	require.Empty(t, due, "it has failed no more")
}

// Very many new references are looked up by one list.
func TestSource_ManyLookups(t *testing.T) {
	s := newStage(t) // MostWatches is 1
	wide := s.wide()
	s.refer("q", []Query{named("b"), named("c")})
	l := s.lookup(wide, everySecret())
	require.Len(t, wide.looking, 1)
	s.refer("r", []Query{named("d")}) // since the list was asked for
	c, over := wide.found(everySecret(), l, []*resource.Resource{s.secret("b", 11, ""), s.shorten(s.secret("e", 11, ""))}, "11", nil)
	require.True(t, over)
	require.Contains(t, c.Parents, types.UID("q"))
	found, known, _, err := s.Refer("q", []Query{named("b"), named("c")})
	require.NoError(t, err)
	require.True(t, known)
	require.Len(t, found, 1)
	require.Empty(t, s.held(wide, "e"))
	_, known, _, _ = s.Refer("r", []Query{named("d")})
	require.False(t, known)
}

// TestRefer_Changed: what another client has changed is told with the objects themselves, and once, since the event may make the
// parent due only after a reconciliation has seen them.
func TestRefer_Changed(t *testing.T) {
	family := types.UID("")
	s := newStage(t)
	s.FamilyOf = func(*resource.Resource) (types.UID, bool) { return family, family != "" }
	from := s.source(everySecret())
	queries := []Query{named("a")}
	changed := func() bool {
		t.Helper()
		_, known, changed, err := s.Refer("p", queries)
		require.NoError(t, err)
		require.True(t, known)
		return changed
	}
	_, known, news, err := s.Refer("p", queries)
	require.NoError(t, err)
	require.False(t, known || news)
	s.list(from, 10, s.secret("a", 5, ""))
	require.False(t, changed(), "it was not known before")
	from.Observe(store.Stream{}, s.secret("a", 11, ""))
	require.True(t, changed())
	require.False(t, changed())
	s.list(from, 20, s.secret("a", 15, ""))
	require.True(t, changed(), "a list shows what a watch has missed")
	from.ObserveDeleted(store.Stream{}, s.secret("a", 21, ""))
	require.True(t, changed())
	from.Observe(store.Stream{}, s.secret("b", 22, ""))
	require.False(t, changed(), "it refers to another one")
	family = "p"
	from.Observe(store.Stream{}, s.secret("a", 23, ""))
	require.False(t, changed(), "a child of its own, of which the watch of children tells")
	family = ""
	from.Observe(store.Stream{}, s.secret("a", 24, ""))
	queries = []Query{named("a"), named("c")}
	_, known, news, err = s.Refer("p", queries)
	require.NoError(t, err)
	require.False(t, known || news)
	s.list(from, 30, s.secret("a", 24, ""))
	require.True(t, changed(), "it stays until it is shown")
}
