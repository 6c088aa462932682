package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// ran returns the Options that run gets of a command line, or what it says.
func ran(t *testing.T, defaults Defaults, args string) (opts *Options, said string) {
	t.Helper()
	p := sampleProgram()
	p.Defaults = defaults
	p.Defaults.RESTConfig = &rest.Config{Host: "http://127.0.0.1:1"}
	p.Run = func(_ context.Context, _ []Operator, got Options) error { opts = &got; return nil }
	var stdout, stderr strings.Builder
	code := p.Do(t.Context(), append([]string{"run"}, strings.Fields(args)...), &stdout, &stderr)
	if opts == nil {
		require.Equal(t, exitUsage, code)
	}
	return opts, stderr.String()
}

func TestWindowAddress(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, args string
		defaults     Defaults
		want         string // the address
		said         string // instead: the mistake
	}{
		"Default":       {"it is off", "", Defaults{}, "", ""},
		"Zero":          {"said", "--window-bind-address=0", Defaults{WindowAddress: ":8090"}, "", ""},
		"Empty":         {"as of the other addresses", "--window-bind-address=", Defaults{}, "", ""},
		"Of program":    {"its own default", "", Defaults{WindowAddress: ":8090"}, ":8090", ""},
		"No host":       {"this machine", "--window-bind-address=:8090", Defaults{}, ":8090", ""},
		"IPv6":          {"this machine", "--window-bind-address=[::1]:1", Defaults{}, "[::1]:1", ""},
		"Localhost":     {"this machine", "--window-bind-address=localhost:1", Defaults{}, "localhost:1", ""},
		"Any port":      {"whichever is free", "--window-bind-address=:0 --metrics-bind-address=:0", Defaults{}, ":0", ""},
		"Everywhere":    {"protected, self-signed", "--window-bind-address=0.0.0.0:1", Defaults{}, "0.0.0.0:1", ""},
		"Name":          {"it may be anybody's", "--window-bind-address=sites.example.com:1", Defaults{}, "sites.example.com:1", ""},
		"Dev":           {"it serves no metrics", "--dev --window-bind-address=:8080", Defaults{}, ":8080", ""},
		"Metrics off":   {"nothing is in the way", "--window-bind-address=:8080 --metrics-bind-address=0", Defaults{}, ":8080", ""},
		"Other host":    {"one port, two addresses", "--window-bind-address=:8080 --metrics-bind-address=10.0.0.1:8080", Defaults{}, ":8080", ""},
		"Metrics":       {"one of both fails", "--window-bind-address=:8080", Defaults{}, "", "--window-bind-address=:8080 and --metrics-bind-address=:8080 can't be served side by side; give the window another port"},
		"Health":        {"one of both fails", "--window-bind-address=127.0.0.1:8081", Defaults{}, "", "and --health-probe-bind-address=:8081 can't be"},
		"Same":          {"one of both fails", "--window-bind-address=10.0.0.1:1 --metrics-bind-address=10.0.0.1:1", Defaults{}, "", "and --metrics-bind-address=10.0.0.1:1 can't be"},
		"Same loopback": {"other names of one", "--window-bind-address=:1 --metrics-bind-address=localhost:1", Defaults{}, "", "and --metrics-bind-address=localhost:1 can't be"},
		"Window wider":  {"it has all addresses", "--window-bind-address=0.0.0.0:1 --metrics-bind-address=10.0.0.1:1", Defaults{}, "", "can't be served side by side"},
		"No port":       {"no address", "--window-bind-address=8090", Defaults{}, "", `--window-bind-address: "8090" has no number of a port; give it :8090, say, or 0`},
		"Port's name":   {"which would it be?", "--window-bind-address=:http", Defaults{}, "", `":http" has no number of a port`},
		"Large port":    {"there is none", "--window-bind-address=:65536", Defaults{}, "", `":65536" has no number of a port`},
		"Two colons":    {"an IPv6 address has brackets", "--window-bind-address=::1:80", Defaults{}, "", `"::1:80" has no number of a port`},
		"Files": {"the metrics are open, and the window is self-signed", "--window-bind-address=0.0.0.0:1 --metrics-cert-path=/c", Defaults{}, "",
			"--metrics-cert-path has no use without --metrics-secure, with which the window at 0.0.0.0:1 has the same certificate"},
		"Files, local": {"this machine needs no certificate", "--window-bind-address=:1 --metrics-cert-path=/c", Defaults{}, "", "--metrics-cert-path has no use without --metrics-secure\n"},
		"With metrics": {"both are protected alike", "--window-bind-address=0.0.0.0:1 --metrics-secure --metrics-cert-path=/c", Defaults{}, "0.0.0.0:1", ""},
		"Alone":        {"no metrics, and the same for the window", "--window-bind-address=0.0.0.0:1 --metrics-bind-address=0 --metrics-secure --metrics-audiences=a", Defaults{}, "0.0.0.0:1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			opts, said := ran(t, tc.defaults, tc.args)
			if tc.said != "" {
				require.Nil(t, opts, tc.reason)
				require.Contains(t, said, tc.said, tc.reason)
				return
			}
			require.NotNil(t, opts, said)
			require.Equal(t, tc.want, opts.WindowAddress, tc.reason)
			require.Equal(t, strings.Contains(tc.args, "--metrics-secure"), opts.MetricsSecure != nil, "the window changes nothing for the metrics")
		})
	}
}
