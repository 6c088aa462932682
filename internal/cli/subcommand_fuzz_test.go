package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// namesTheFlag: what an error of the command line must begin with, and end.
var namesTheFlag = regexp.MustCompile(`^hello: (unknown subcommand "|unknown argument "|invalid (boolean )?value .* for (flag )?-|bad flag syntax: -|flag provided but not defined: -|flag needs an argument: -|-+[a-z-]+: ).*\n`)

// FuzzCommandLine reads any arguments, a line each: something to do, which has
// the flags within their bounds, or help, or an error that names the argument.
func FuzzCommandLine(f *testing.F) {
	for _, args := range []string{
		"", "run", "plan\n-o\njson", "manifests\n--image=x\n--replicas=2", "release-finalizers", "--help", "plan\n-h", "---", "--", "-", "-=", "--=x",
		"--max-concurrent-syncs=-1", "--max-concurrent-syncs=99999999999999999999", "--log-level=loud", "--log-level=info+3", "--log-format", "--dry-run=maybe",
		"--kubeconfig=\x00", "--namespace=a/b", "--metrics-bind-address=0\n--health-probe-bind-address=0", "run\nplan", "manifests\n--install-namespace=A",
		"-help=1\n-h=2", "plan\n--output", "\xff", "--\xff=1", "manifests\n--replicas=1e9",
	} {
		f.Add(args)
	}
	f.Fuzz(func(t *testing.T, text string) {
		args := strings.Split(text, "\n")
		if text == "" {
			args = nil
		}
		before := slices.Clone(args)
		var stdout, stderr strings.Builder
		c, do, code := sampleProgram().parse(args, &stdout, &stderr)
		require.Equal(t, before, args)
		switch {
		case do != nil:
			require.NotNil(t, c)
			require.Empty(t, stdout.String()+stderr.String())
			require.GreaterOrEqual(t, c.flags.maxConcurrentSyncs, 0)
			require.Contains(t, []string{"text", "json"}, c.flags.logFormat)
			require.NotContains(t, []string{listenAt(c.flags.metricsAddress), listenAt(c.flags.healthAddress)}, "0")
		case code == exitOK:
			require.Contains(t, stdout.String(), "Usage: hello")
			require.Empty(t, stderr.String())
		default:
			require.Equal(t, exitUsage, code)
			require.Regexp(t, namesTheFlag, stderr.String())
			require.Contains(t, stderr.String(), "Usage: hello", "and what there is")
			require.Empty(t, stdout.String())
		}
	})
}
