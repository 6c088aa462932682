package storm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/resource/k8s"
)

// A number of seeds for the storms of other packages isn't for those that must find something.
func TestMain(m *testing.M) {
	_ = os.Unsetenv(seedsEnv)
	rig.Main(m)
}

// A listener is a test that notes what is said of it, and goes on.
type listener struct {
	*testing.T
	failed, logged strings.Builder
}

func (l *listener) Errorf(format string, args ...any) { fmt.Fprintf(&l.failed, format, args...) }
func (l *listener) Fatalf(format string, args ...any) { l.Errorf(format, args...) }
func (l *listener) Logf(format string, args ...any)   { fmt.Fprintf(&l.logged, format, args...) }

// sites makes a ConfigMap for each Site, with the text of its spec.
func sites() config.Operator {
	return config.Operator{Name: "sites", Parent: site(), Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}}}
}

func syncSite(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	text, _ := req.Parent.Field("spec", "text")
	data := map[string]string{"text": fmt.Sprint(text)}
	return &handler.SyncResponse{Children: []any{&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: req.Parent.Name()}, Data: data}}}, nil
}

func siteWith(name, text string) map[string]any {
	out := aSite("", name)
	out["spec"] = map[string]any{"text": text}
	return out
}

// oneSite is a scenario.
func oneSite(s *Scenario) {
	s.Create(siteWith("a", "one"))
	s.Update(siteWith("a", "two"))
}

// run returns what a Storm says.
func run(t *testing.T, cfg Config) *listener {
	t.Helper()
	l := &listener{T: t}
	if cfg.Operator.Name == "" {
		cfg.Operator = sites()
	}
	if cfg.Scenario == nil {
		cfg.Scenario = oneSite
	}
	if cfg.Kinds == (Kinds{}) {
		cfg.Kinds = All()
	}
	if cfg.Seeds == 0 {
		cfg.Seeds = 30
	}
	Run(l, cfg)
	return l
}

func TestRunFindsNothing(t *testing.T) {
	l := run(t, Config{Handler: handler.SyncFunc(syncSite)})
	require.Empty(t, l.failed.String())
	require.Contains(t, l.logged.String(), "30 seeds, ")
}

func TestRunFinds(t *testing.T) {
	calls := func(s *Scenario) {
		oneSite(s)
		s.Always(func(w World) error {
			if len(w.List(k8s.ConfigMap)) > 0 && w.Get(siteWith("a", "")) != nil && len(w.Children(siteWith("a", ""))) == 0 {
				return errors.New("the child has no owner")
			}
			return nil
		})
	}
	for name, tc := range map[string]struct {
		reason string
		cfg    Config
		want   []string
	}{
		"Restless": {
			"who always writes isn't silent",
			Config{Handler: handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
				n, _ := req.Parent.Field("status", "n")
				was, _ := n.(int64)
				return &handler.SyncResponse{Status: map[string]any{"n": was + 1}}, nil
			})},
			[]string{"without any fault:", "the operator doesn't fall silent", "update status of Site default/a"},
		},
		"Always": {
			"a check of every write",
			Config{Handler: handler.SyncFunc(syncSite), Scenario: func(s *Scenario) {
				s.Create(siteWith("a", "one")) // after which there are the operator's writes alone
				s.Always(func(w World) error {
					for _, one := range w.List(k8s.ConfigMap) {
						if text, _ := one.Field("data", "text"); text == "one" {
							return fmt.Errorf("%s is one", one.Key())
						}
					}
					return nil
				})
			}},
			[]string{"default/a is one", "create ConfigMap default/a"},
		},
		"Finally": {
			"a check of the end", Config{Handler: handler.SyncFunc(syncSite), Scenario: func(s *Scenario) {
				oneSite(s)
				s.Finally(func(World) error { return errors.New("the end is bad") })
			}}, []string{"the end is bad"},
		},
		"Panic": {
			"a handler that panics, in another process only",
			Config{Scenario: func(s *Scenario) {
				oneSite(s)
				processes := 0
				s.Handler(func() handler.Handler {
					processes++
					n := processes
					return handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
						if n > 2 {
							panic("oh")
						}
						return syncSite(ctx, req)
					})
				})
			}},
			[]string{"another process answers differently for the same snapshot: the error panic: oh, after none"},
		},
		"Owner": {"what is so is no finding", Config{Handler: handler.SyncFunc(syncSite), Scenario: calls}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			said := run(t, tc.cfg).failed.String()
			for _, want := range tc.want {
				require.Contains(t, said, want, tc.reason)
			}
			if tc.want == nil {
				require.Empty(t, said, tc.reason)
			}
		})
	}
}

// TestRunMakesHistoriesShorter holds that of all faults the one is left that is needed.
func TestRunMakesHistoriesShorter(t *testing.T) {
	guarded := handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		resp, err := syncSite(ctx, req)
		resp.Children = []any{configMap("", req.Parent.Name())}
		if phase, _ := req.Parent.Field("status", "phase"); phase == "Ready" {
			resp.Children = nil
			for live := range req.Children.OfType(k8s.ConfigMap).All() {
				resp.Children = append(resp.Children, handler.Keep(live))
			}
		}
		resp.Status = map[string]any{"phase": "Ready"}
		return resp, err
	})
	said := run(t, Config{Handler: guarded, Seeds: 200, Kinds: Kinds{Kill: true, Lag: true, Others: true}, Scenario: func(s *Scenario) {
		s.Create(siteWith("a", "one"))
		s.Create(siteWith("b", "one"))
	}}).failed.String()
	require.Contains(t, said, "is missing, and without faults it is there")
	require.Contains(t, said, "(1 fault left of ")
	require.Contains(t, said, "1 step of 2 steps)")
	require.Contains(t, said, "somebody deletes ConfigMap default/")
	require.Contains(t, said, "go test -run '^"+t.Name()+"$'")
}

func TestRunTellsNoSecret(t *testing.T) {
	const value = "c2VjcmV0LXZhbHVl"
	cfg := sites()
	cfg.Children = []config.Child{{Type: k8s.Secret, Strategy: config.Replace}}
	var made atomic.Int64
	said := run(t, Config{Operator: cfg, Handler: handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		data := map[string][]byte{"key": []byte(fmt.Sprint("secret-value", made.Add(1)))}
		return &handler.SyncResponse{Children: []any{&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: req.Parent.Name()}, Data: data}}}, nil
	})}).failed.String()
	require.Contains(t, said, "called twice for the same snapshot, the handler answers differently: Secret a")
	require.NotContains(t, said, "secret-value")
	require.NotContains(t, said, value[:8])
}

func TestMistakes(t *testing.T) {
	times := 0
	fine := handler.SyncFunc(syncSite)
	for name, tc := range map[string]struct {
		cfg  Config
		env  map[string]string
		want string
	}{
		"NoHandler": {Config{}, nil, "the handler is nil"},
		"NoStep":    {Config{Handler: fine, Scenario: func(*Scenario) {}}, nil, "scenario: it has no step: begin with Create"},
		"BadObject": {Config{Handler: fine, Scenario: func(s *Scenario) { s.Create(1) }}, nil, "scenario: create: "},
		"Operator":  {Config{Handler: fine, Operator: config.Operator{Name: "a"}}, nil, "Parent"},
		"Seed":      {Config{Handler: fine}, map[string]string{seedEnv: "x"}, `ROPERATOR_STORM_SEED: "x" isn't a number above 0`},
		"Seeds":     {Config{Handler: fine}, map[string]string{seedsEnv: "0"}, `ROPERATOR_STORM_SEEDS: "0" isn't a number above 0`},
		"Whim": {Config{Handler: fine, Scenario: func(s *Scenario) {
			for times++; len(s.steps) < times; {
				s.Create(siteWith(fmt.Sprint("a", len(s.steps)), "one"))
			}
		}}, nil, "scenario: it had 1 step when it was first called, and 2 now"},
	} {
		t.Run(name, func(t *testing.T) {
			for key, value := range tc.env {
				t.Setenv(key, value)
			}
			require.Contains(t, run(t, tc.cfg).failed.String(), tc.want)
		})
	}
}

func TestSeedsFromEnvironment(t *testing.T) {
	t.Setenv(seedsEnv, "7")
	l := run(t, Config{Handler: handler.SyncFunc(syncSite)})
	require.Contains(t, l.logged.String(), "storm: 7 seeds, ")

	t.Setenv(seedEnv, "3")
	l = run(t, Config{Handler: handler.SyncFunc(syncSite)})
	require.Contains(t, l.logged.String(), "storm: 1 seed, ")
	require.Contains(t, l.logged.String(), "What has happened:", "who runs a seed alone wants to know")
	require.Contains(t, l.logged.String(), "create ConfigMap default/a")
}

// TestSeedsAreRepeatable holds that a seed does the same twice, as far as others are concerned.
func TestSeedsAreRepeatable(t *testing.T) {
	for seed := uint64(1); seed < 50; seed++ {
		late := []int{-1, 2, -1}
		first := write(seed, All(), late, true)
		require.Equal(t, first, write(seed, All(), late, true))
	}
}

func TestOthersLeaveIgnoredFieldsAlone(t *testing.T) {
	child := config.Child{IgnoreFields: []string{"spec.replicas", `data["a.b"]`, "spec.selector[*]"}}
	for text, want := range map[string]bool{
		"spec/replicas": true, "spec/replicas/x": true, "spec": false, "spec/other": false, "data/a.b": true, "data/a": false, "spec/selector/x": true,
	} {
		require.Equal(t, want, isIgnored(child, strings.Split(text, "/")), text)
	}
}

func TestHistoriesAreShort(t *testing.T) {
	var history []event
	for i := range 100 {
		history = append(history, event{at: time.Duration(i) * time.Second, text: fmt.Sprint("request ", i)})
		if i == 50 {
			history = append(history, event{at: 50 * time.Second, text: "a step", weight: 3})
		}
	}
	lines := shorten(history)
	require.Len(t, lines, maxLines+1)
	require.Contains(t, lines, "       50s  a step", "what tells most is never left out")
	require.Equal(t, "and 41 events that tell less", lines[maxLines])

	same := []event{{at: time.Second, text: "again", process: "process 1"}, {at: 2 * time.Second, text: "again", process: "process 1"}, {at: 3 * time.Second, text: "again"}}
	require.Equal(t, []string{"        1s  process 1: again (2 times until 2s)", "        3s  again"}, shorten(same))
}
