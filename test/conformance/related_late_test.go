package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// A lateStage is an operator whose requests for Secrets, and the events of whose watches of
// them, take five seconds. All Secrets are there before a parent refers to them, and stay.
type lateStage struct {
	*testkit.Kit
	t   *testing.T
	cfg config.Operator
	way *secretsWay
	m   *mirror
}

func newLateStage(t *testing.T, name string) *lateStage {
	t.Helper()
	s := &lateStage{t: t, way: newSecretsWay(), m: &mirror{refer: func(parent *resource.Resource) []handler.Ref {
		selector, ok := parent.Field("spec", "selector")
		switch {
		case !ok:
			return nil
		case selector == "everything":
			return []handler.Ref{{Type: k8s.Secret}}
		}
		return []handler.Ref{{Type: k8s.Secret, Selector: fmt.Sprint(selector)}}
	}}}
	s.way.late = 5 * time.Second
	s.cfg = relating(name, secretsByName())
	s.cfg.MaxConcurrentSyncs = 1 // no worker waits
	opts := testkit.KitOptions{}
	opts.Runner.RESTConfig = cluster.RESTConfig()
	s.way.wrap(opts.Runner.RESTConfig)
	s.Kit = testkit.NewWithOptions(t, cluster, s.cfg, s.m.handler(), opts)
	return s
}

// secrets creates Secrets, of which each says its name. Their tier is a label.
func (s *lateStage) secrets(tier string, names ...any) {
	s.t.Helper()
	for _, name := range names {
		it := secretWith(fmt.Sprint(name), fmt.Sprint(name))
		metadata(it)["labels"] = map[string]any{"tier": tier}
		s.Create(it)
	}
}

// told requires that a parent's handler has been shown these Secrets in this order, each of
// them as often as it liked and nothing else in between. Names in one text are shown at once.
func (s *lateStage) told(parent string, texts ...string) {
	s.t.Helper()
	var want []string
	for _, names := range texts {
		var shown []string
		for name := range strings.FieldsSeq(names) {
			shown = append(shown, fmt.Sprintf("secret/%s=%[1]s", name))
		}
		want = append(want, strings.Join(shown, " "))
	}
	saying(s.Kit, parent, want[len(want)-1])
	settle(s.t, s.Kit)
	require.Equal(s.t, want, slices.Compact(s.m.shown(parent)), parent)
	require.LessOrEqual(s.t, len(s.m.shown(parent)), 3*len(want), "a pass for each, one for what it has written, and one for the event of that if it is told late")
}

// The operator starts, and knows nothing of the Secrets for five seconds.
func TestC91_LateAtTheStart(t *testing.T) {
	scenario(t, "C91", "everything about Secrets comes five seconds late when the operator starts: no handler is told that one isn't there which is, by whatever it is referred to, and parents without references go on")
	for name, tc := range map[string]struct {
		specs []map[string]any // of the parents
		shown []string
	}{
		"name":     {[]map[string]any{{"secret": "a"}, {"secrets": []any{"a", "b", "no-such"}}}, []string{"a", "a b"}},
		"selector": {[]map[string]any{{"selector": "tier=gold"}, {"selector": "tier"}, {"selector": "everything"}}, []string{"a b", "a b c", "a b c"}},
		"many":     {[]map[string]any{{"secrets": append(numbered("no-such-", 70), "a", "c")}, {"secret": "b"}}, []string{"a c", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLateStage(t, "c91-start-"+name)
			s.secrets("gold", "a", "b")
			s.secrets("tin", "c")
			s.Stop()
			for i, spec := range tc.specs {
				s.Create(parent(fmt.Sprint("p", i), spec))
			}
			s.Create(parent("other", nil))
			s.way.asks.shut(t)
			s.Restart(s.cfg, s.m.handler())
			saying(s.Kit, "other", "")
			for i := range tc.specs {
				require.Empty(t, s.m.shown(fmt.Sprint("p", i)), "nothing is known yet")
			}
			s.way.asks.release()
			for i, shown := range tc.shown {
				s.told(fmt.Sprint("p", i), shown)
			}
		})
	}
}

// References move while the operator runs.
func TestC91b_LateReferences(t *testing.T) {
	scenario(t, "C91b", "everything about Secrets comes five seconds late while references move, also to Secrets that were created just before: no handler is told that one isn't there which is")
	t.Run("name", func(t *testing.T) {
		t.Parallel()
		s := newLateStage(t, "c91-name")
		s.secrets("gold", "a")
		s.Create(naming("p", "a"))
		s.told("p", "a")
		s.secrets("gold", "b")
		s.Update(naming("p", "b"))
		s.told("p", "a", "b")
		s.Update(naming("p", "a"))
		s.told("p", "a", "b", "a")
		s.Create(parent("q", map[string]any{"secrets": []any{"a", "b"}}))
		s.told("q", "a b")
	})
	t.Run("selector", func(t *testing.T) {
		t.Parallel()
		s := newLateStage(t, "c91-selector")
		s.secrets("gold", "a", "b")
		s.secrets("tin", "c")
		s.Create(parent("p", map[string]any{"selector": "tier=gold"}))
		s.told("p", "a b")
		s.Update(parent("p", map[string]any{"selector": "tier=tin"}))
		s.told("p", "a b", "c")
		s.Update(parent("p", map[string]any{"selector": "everything"}))
		s.told("p", "a b", "c", "a b c")
		s.Update(parent("p", map[string]any{"selector": "tier=gold"}))
		s.told("p", "a b", "c", "a b c", "a b")
	})
	// One watch delivers all Secrets. What is referred to newly is looked up.
	t.Run("many", func(t *testing.T) {
		t.Parallel()
		s := newLateStage(t, "c91-many")
		s.secrets("gold", "a", "b")
		s.Create(parent("many", map[string]any{"secrets": append(numbered("no-such-", 70), "a")}))
		s.told("many", "a")
		s.Create(naming("p", "b"))
		s.told("p", "b")
		s.secrets("gold", "c") // of which the watch tells five seconds later
		s.Update(naming("p", "c"))
		s.told("p", "b", "c")
		s.secrets("tin", "d")
		s.Create(parent("q", map[string]any{"selector": "tier=tin"}))
		s.told("q", "d")
	})
	// The watches of single names give way to one of all, and come back.
	t.Run("grows", func(t *testing.T) {
		t.Parallel()
		s := newLateStage(t, "c91-grows")
		s.secrets("gold", "a", "b", "c")
		s.Create(naming("p", "a"))
		s.Create(parent("q", map[string]any{"selector": "tier=gold"}))
		s.told("p", "a")
		s.told("q", "a b c")
		s.Create(parent("many", map[string]any{"secrets": append(numbered("no-such-", 70), "b")}))
		s.told("many", "b")
		s.Update(naming("p", "c"))
		s.told("p", "a", "c")
		s.Update(parent("many", map[string]any{"secret": "a"}))
		s.told("many", "b", "a")
		s.Update(naming("p", "b"))
		s.told("p", "a", "c", "b")
		s.told("q", "a b c")
	})
}
