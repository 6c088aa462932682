package runner

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

var (
	otherParent = resource.Type{APIVersion: "example.com/v1", Kind: "Other"}
	leaseType   = resource.Type{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
)

// program is a Program under test. Its two operators, op and other, copy their parents
// to ConfigMaps and Secrets, with what the flag --suffix says added to the name.
type program struct {
	Program
	server         *fakeapi.Server
	suffix         string
	stdout, stderr rig.Logs
}

func newProgram() *program {
	p := &program{server: fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"), fakeapi.Custom(otherParent, "others"),
		fakeapi.ConfigMaps(), fakeapi.Secrets(), fakeapi.Kind{Type: leaseType, Plural: "leases"})}
	other := rig.Config()
	other.Name, other.Parent = "other", otherParent
	other.Children = []config.Child{{Type: k8s.Secret, Strategy: config.Replace}}
	p.Program = Program{
		Operators: []Spec{{rig.Config(), p.copies(k8s.ConfigMap)}, {other, p.copies(k8s.Secret)}},
		Flags:     func(fs *flag.FlagSet) { fs.StringVar(&p.suffix, "suffix", "", "added to names") },
		Options:   Options{RESTConfig: p.server.RESTConfig(), MetricsAddress: "0", HealthAddress: "0"},
	}
	return p
}

func (p *program) copies(t resource.Type) handler.Handler {
	return handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Children: []any{map[string]any{
			"apiVersion": t.APIVersion, "kind": t.Kind, "metadata": map[string]any{"name": req.Parent.Name() + p.suffix},
		}}}, nil
	})
}

func (p *program) execute(ctx context.Context, args ...string) int {
	return p.Execute(ctx, args, &p.stdout, &p.stderr)
}

// createParents makes a parent of each operator.
func (p *program) createParents(t *testing.T, finalizers ...any) {
	t.Helper()
	rig.CreateParent(t, p.server, "one", "v", finalizers...)
	_, err := p.server.Create(map[string]any{
		"apiVersion": otherParent.APIVersion, "kind": "Other", "metadata": map[string]any{"name": "two", "namespace": "ns", "finalizers": finalizers},
	})
	require.NoError(t, err)
}

// counted says how often it was asked for a tracer.
type counted struct {
	noop.TracerProvider
	asked atomic.Int64
}

func (c *counted) Tracer(name string, opts ...trace.TracerOption) trace.Tracer {
	c.asked.Add(1)
	return c.TracerProvider.Tracer(name, opts...)
}

func TestProgram_Run(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		p := newProgram()
		registry, tracers, log := prometheus.NewRegistry(), &counted{}, &rig.Logs{}
		p.Options.Metrics, p.Options.TracerProvider, p.Options.Logger = registry, tracers, slog.New(slog.NewTextHandler(log, nil))
		p.Options.LeaderElection = &LeaderElection{Name: "turns", Namespace: "elsewhere"}
		p.createParents(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		code := make(chan int, 1)
		go func() { code <- p.execute(ctx, "--suffix=-x") }()
		rig.Elapse(time.Minute)
		require.NotNil(t, p.server.Get(k8s.ConfigMap, rig.Key("one-x")), "the flag reaches the handlers, of both operators")
		require.NotNil(t, p.server.Get(k8s.Secret, rig.Key("two-x")))
		families, err := registry.Gather()
		require.NoError(t, err)
		names := map[string]bool{}
		for _, f := range families {
			names[f.GetName()] = true
		}
		require.True(t, names["roperator_syncs_max"], "in the program's own registry")
		require.NotZero(t, tracers.asked.Load(), "who traces is asked for a tracer")
		require.Contains(t, log.String(), "controller=other")
		require.Empty(t, p.stderr.String(), "the program's own Logger has the log")
		for _, r := range p.server.Requests() {
			if r.Type == leaseType {
				require.Equal(t, "elsewhere/turns", r.Key.String())
			}
		}
		require.NotNil(t, p.server.Get(leaseType, types.NamespacedName{Namespace: "elsewhere", Name: "turns"}))
		cancel()
		require.Zero(t, <-code)
	})
}

func TestProgram_LeaderElectionFlag(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		election *LeaderElection
		args     []string
		lease    string // empty: none
	}{
		"Default":    {"one process", nil, nil, ""},
		"Flag":       {"as for Main", nil, []string{"--leader-elect"}, "default/op"},
		"Options":    {"the flag's default", &LeaderElection{Namespace: "a"}, nil, "a/op"},
		"OptionsOff": {"the flag has the last word", &LeaderElection{Namespace: "a"}, []string{"--leader-elect=false"}, ""},
		"Both":       {"the fields hold", &LeaderElection{Namespace: "a", Name: "n"}, []string{"--leader-elect"}, "a/n"},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				p := newProgram()
				p.Options.LeaderElection = tc.election
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				require.Zero(t, p.execute(ctx, tc.args...))
				leases := ""
				for _, r := range p.server.Requests() {
					if r.Type == leaseType && r.Verb == "create" {
						leases = r.Key.String()
					}
				}
				require.Equal(t, tc.lease, leases, tc.reason)
			})
		})
	}
}

func TestProgram_Plan(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		p := newProgram()
		require.Equal(t, 0, p.execute(t.Context(), "plan"))
		require.Equal(t, "Operator op\n\nNothing to do.\n\nOperator other\n\nNothing to do.\n", p.stdout.String())

		p = newProgram()
		p.createParents(t)
		require.Equal(t, 1, p.execute(t.Context(), "plan", "--suffix=-x"))
		require.Contains(t, p.stdout.String(), "Operator op\n\nConfigMap ns/one-x: create (for Parent ns/one)")
		require.Contains(t, p.stdout.String(), "\nOperator other\n\nSecret ns/two-x: create (for Other ns/two)")
		require.Empty(t, p.server.Writes())

		p.stdout = rig.Logs{}
		require.Equal(t, 1, p.execute(t.Context(), "plan", "-o=json"))
		require.Contains(t, p.stdout.String(), `[
  {
    "operator": "op",
    "parent": {`)
		require.Contains(t, p.stdout.String(), `"operator": "other",`)
	})
}

// One operator's mistake doesn't hide what the other would do.
func TestProgram_PlanError(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		p := newProgram()
		p.Operators[0].Handler = handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			return nil, errors.New("no idea")
		})
		p.createParents(t)
		require.Equal(t, 2, p.execute(t.Context(), "plan"))
		require.Contains(t, p.stderr.String(), "plan: op: Parent ns/one: handler: Sync: no idea\n")
		require.Contains(t, p.stdout.String(), "Operator other\n\nSecret ns/two: create (for Other ns/two)")
		require.NotContains(t, p.stdout.String(), "Operator op")
	})
}

func TestProgram_Release(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		p := newProgram()
		p.createParents(t, "roperator.com/op", "roperator.com/other", "theirs")
		require.Zero(t, p.execute(t.Context(), "release-finalizers"))
		require.Equal(t, `Parent ns/one: finalizer roperator.com/op removed
op: 1 of 1 parent released.
Other ns/two: finalizer roperator.com/other removed
other: 1 of 1 parent released.
`, p.stdout.String())
		require.Equal(t, []string{"roperator.com/op", "theirs"}, p.server.Get(otherParent, rig.Key("two")).Finalizers())
	})
}

// A client that the handler has talks to the API server that the flags name.
func TestProgram_OperatorsFor(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, []byte(`{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}],
		contexts: [{name: c, context: {cluster: c}}], current-context: c}`), 0o600))
	own := &rest.Config{Host: "http://127.0.0.1:2"}
	for name, tc := range map[string]struct {
		reason string
		args   []string
		host   string
	}{
		"Options": {"where no flag says anything", []string{"run"}, "http://127.0.0.1:2"},
		"Flag":    {"it has the last word", []string{"run", "--kubeconfig=" + kubeconfig}, "http://127.0.0.1:1"},
		"Plan":    {"as run", []string{"plan", "--kubeconfig=" + kubeconfig}, "http://127.0.0.1:1"},
		"Release": {"as run", []string{"release-finalizers", "--context=c", "--kubeconfig=" + kubeconfig}, "http://127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			var got *rest.Config
			p := Program{Options: Options{RESTConfig: own}, OperatorsFor: func(rc *rest.Config) ([]Spec, error) {
				got = rc
				return nil, errors.New("the registry refuses the password")
			}}
			var stdout, stderr bytes.Buffer
			require.NotZero(t, p.Execute(t.Context(), tc.args, &stdout, &stderr))
			require.Equal(t, tc.host, got.Host, tc.reason)
			require.NotSame(t, own, got, "a copy")
			require.Contains(t, stderr.String(), "runner.Program: OperatorsFor: the registry refuses the password")
		})
	}
	t.Run("Manifests", func(t *testing.T) {
		p := Program{OperatorsFor: func(rc *rest.Config) ([]Spec, error) {
			clients, err := kubernetes.NewForConfig(rc)
			require.NoError(t, err)
			_, err = clients.Discovery().ServerVersion()
			require.ErrorContains(t, err, "the subcommand manifests reaches no API server")
			return []Spec{{rig.Config(), handler.SyncFunc(rig.Copier)}}, nil
		}}
		var stdout, stderr bytes.Buffer
		require.Zero(t, p.Execute(t.Context(), []string{"manifests", "--image=i"}, &stdout, &stderr), stderr.String())
		require.Contains(t, stdout.String(), "namespace: op-system")
	})
}

// Every subcommand tells of a mistake in the program before it does anything.
func TestProgram_Mistakes(t *testing.T) {
	spec := Spec{rig.Config(), handler.SyncFunc(rig.Copier)}
	static := []Spec{spec}
	returns := func(specs ...Spec) func(*rest.Config) ([]Spec, error) {
		return func(*rest.Config) ([]Spec, error) { return specs, nil }
	}
	flags := func(names ...string) func(*flag.FlagSet) {
		return func(fs *flag.FlagSet) {
			for _, name := range names {
				fs.Bool(name, false, "")
			}
		}
	}
	for name, tc := range map[string]struct {
		reason  string
		program Program
		want    string
	}{
		"None":         {"nothing to run", Program{}, "runner.Program: it has no operators; set Operators or OperatorsFor"},
		"Both":         {"which holds?", Program{Operators: static, OperatorsFor: returns(spec)}, "Operators and OperatorsFor are both set"},
		"NoneReturned": {"nothing to run", Program{OperatorsFor: returns()}, "OperatorsFor returned no operators"},
		"SameName":     {"metrics couldn't tell them apart", Program{Operators: []Spec{spec, spec}}, `two operators have the name "op"`},
		"SameNameFor":  {"the same", Program{OperatorsFor: returns(spec, spec)}, `two operators have the name "op"`},
		"FlagTwice":    {"package flag would panic", Program{Operators: static, Flags: flags("x", "x")}, "flag redefined: x"},
		"FlagOfOurs":   {"the same", Program{Operators: static, Flags: flags("kubeconfig")}, "flag redefined: kubeconfig"},
		"FlagOfAnother": {
			"it would mean two things", Program{Operators: static, Flags: flags("output")},
			"output",
		},
		"FlagOfRun":    {"the same", Program{Operators: static, Flags: flags("leader-elect")}, "leader-elect"},
		"FlagOfWindow": {"the same", Program{Operators: static, Flags: flags("window-bind-address")}, "window-bind-address"},
		"FlagName":     {"package flag would panic", Program{Operators: static, Flags: flags("-x")}, `flag "-x" begins with -`},
	} {
		for _, subcommand := range []string{"run", "plan", "manifests", "release-finalizers"} {
			t.Run(name+"/"+subcommand, func(t *testing.T) {
				tc.program.Options.RESTConfig = &rest.Config{Host: "http://127.0.0.1:1"}
				var stdout, stderr bytes.Buffer
				require.NotZero(t, tc.program.Execute(t.Context(), []string{subcommand}, &stdout, &stderr), tc.reason)
				require.Contains(t, strings.ReplaceAll(stderr.String(), `\"`, `"`), tc.want, tc.reason)
				require.Empty(t, stdout.String())
			})
		}
	}
	t.Run("PanicInFlags", func(t *testing.T) {
		p := Program{Operators: static, Flags: func(fs *flag.FlagSet) { fs.Var(nil, "x", "") }}
		var stderr bytes.Buffer
		require.Equal(t, 2, p.Execute(t.Context(), nil, &bytes.Buffer{}, &stderr))
		require.Contains(t, stderr.String(), "runner.Program: Flags: panic: runtime error")
		require.Contains(t, stderr.String(), "program_test.go", "with its stack")
	})
}

func TestProgram_Help(t *testing.T) {
	p := newProgram()
	p.Name = "both"
	p.Options.MetricsAddress, p.Options.LeaderElection = ":9000", &LeaderElection{}
	require.Zero(t, p.execute(t.Context(), "--help"))
	for _, want := range []string{"  other               example.com/v1/Other\n", "Usage: both [subcommand] [flags]", "-suffix string\n", `(default ":9000")`, "(default true)", "-log-level"} {
		require.Contains(t, p.stdout.String(), want)
	}

	p = newProgram()
	p.Options.Logger, p.Operators = sample.DiscardLog(), nil
	p.OperatorsFor = func(*rest.Config) ([]Spec, error) { return nil, errors.New("isn't called") }
	require.Zero(t, p.execute(t.Context(), "plan", "--help"))
	require.Contains(t, p.stdout.String(), "-suffix string\n")
	require.NotContains(t, p.stdout.String(), "-log-level", "which the program's own Logger wouldn't heed")
}
