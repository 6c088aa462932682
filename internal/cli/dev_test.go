package cli

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/engine/lead"
	"github.com/roperator/roperator/internal/engine/leave"
)

// TestDevelop: --dev sets what isn't given, and nothing else.
func TestDevelop(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, args    string
		level           slog.Level
		metrics, health string
		elects          bool
	}{
		"Without": {"it is for --dev alone", "", slog.LevelInfo, ":8080", ":8081", false},
		"Dev":     {"a laptop has other things on its ports", "--dev", slog.LevelDebug, "0", "0", true},
		"Given":   {"what is given holds", "--dev --log-level=warn --metrics-bind-address=localhost:1 --health-probe-bind-address=:2", slog.LevelWarn, "localhost:1", ":2", true},
	} {
		t.Run(name, func(t *testing.T) {
			f := &flags{}
			run := runSubcommand()
			fs, _, err := sampleProgram().flagSet(&run, f)
			require.NoError(t, err)
			require.NoError(t, fs.Parse(strings.Fields(tc.args)))
			require.NoError(t, f.develop(fs))
			require.Equal(t, tc.level, f.logLevel, tc.reason)
			require.Equal(t, tc.metrics, f.metricsAddress, tc.reason)
			require.Equal(t, tc.health, f.healthAddress, tc.reason)
			require.Equal(t, tc.elects, f.leaderElect, tc.reason)
		})
	}
}

// TestFindLease: outside of a Pod, the Lease is where manifests would have it.
func TestFindLease(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, flag, configured, program, want string
	}{
		"Default":    {"where manifests installs", "", "", "", "hello-system"},
		"Program":    {"it is named as the program", "", "", "shop", "shop-system"},
		"Configured": {"the program knows better", "", "leases", "", "leases"},
		"Flag":       {"the command line knows best", "ops", "leases", "shop", "ops"},
	} {
		t.Run(name, func(t *testing.T) {
			p := sampleProgram()
			p.Name, p.Defaults.Lease = tc.program, types.NamespacedName{Namespace: tc.configured}
			var opts Options
			(&command{program: p, flags: &flags{leaseNamespace: tc.flag}}).findLease(p.Operators, &opts)
			require.Equal(t, tc.want, opts.LeaseNamespace, tc.reason)
		})
	}
	var opts Options
	(&command{program: &Program{}, flags: &flags{}}).findLease([]Operator{{}}, &opts)
	require.Empty(t, opts.LeaseNamespace, "that the operator has no name is said later")
}

// TestClientLog: --dev doesn't show what client-go tells its own developers.
func TestClientLog(t *testing.T) {
	for _, dev := range []bool{true, false} {
		var out bytes.Buffer
		c := &command{flags: &flags{dev: dev}, log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))}
		log := c.clientLog().With("a", 1).WithGroup("g")
		log.Log(t.Context(), slog.LevelDebug+3, "chatter")
		log.Info("news")
		require.Equal(t, !dev, strings.Contains(out.String(), "chatter"))
		require.Contains(t, out.String(), "news a=1")
	}
}

// TestUninstall_Asks: nothing is done unless somebody says so.
func TestUninstall_Asks(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, args, answer string
		agreed               bool
		code                 int
		says                 string
	}{
		"Yes":        {"that is the word", "", "yes\n", true, 0, "Remove next"},
		"No":         {"it isn't", "", "y\n", false, 1, "nothing was done"},
		"End":        {"nobody answers", "", "", false, 1, "nothing was done: there was no answer; use --yes"},
		"No newline": {"the answer is the same", "", "yes", true, 0, "Remove next"},
		"Flag":       {"nobody is asked", "--yes", "", true, 0, "Remove next"},
		"Dry run":    {"it only looks, whatever is answered", "--dry-run --yes", "yes\n", false, 0, "deletes"},
		"Something":  {"that is an error", "--yes --keep-children", "", true, 1, "something is left; run it again to go on"},
	} {
		t.Run(name, func(t *testing.T) {
			agreed := false
			p := sampleProgram()
			p.Defaults.RESTConfig = &rest.Config{Host: "http://127.0.0.1:1"}
			p.Input = strings.NewReader(tc.answer)
			p.Leave = func(_ context.Context, _ []Operator, _ Options, how leave.How, agree func(*leave.Departure) bool, _ func(string)) (*leave.Departure, error) {
				d := &leave.Departure{Standing: lead.Missing, Surveys: []leave.Survey{{Operator: "hello", Parents: make([]leave.Remnant, 1)}}}
				agreed = agree(d)
				if d.Agreed = agreed; agreed {
					d.Surveys, d.Left = nil, []leave.Left{{Operator: "hello", Unknown: how.KeepChildren}}
				}
				return d, nil
			}
			var stdout, stderr strings.Builder
			code := p.Do(t.Context(), append([]string{"uninstall"}, strings.Fields(tc.args)...), &stdout, &stderr)
			require.Equal(t, tc.agreed, agreed, tc.reason)
			require.Equal(t, tc.code, code, "%s: %s", tc.reason, stderr.String())
			require.Contains(t, stdout.String()+stderr.String(), tc.says, tc.reason)
		})
	}
}
