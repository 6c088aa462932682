package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/testkit"
)

func TestRun_Refuses(t *testing.T) {
	_, err := run(t.Context(), nil, nil)
	require.ErrorContains(t, err, "usage: withcluster ")
	t.Setenv("KUBEBUILDER_ASSETS", t.TempDir())
	t.Setenv("USE_EXISTING_CLUSTER", "false")
	_, err = run(t.Context(), nil, []string{"true"})
	require.ErrorContains(t, err, "KUBEBUILDER_ASSETS")
}

func TestBeside(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		command []string
		code    int
		err     string
	}{
		"Success":     {"the command's own code", []string{"true"}, 0, ""},
		"Failure":     {"the command's own code", []string{"sh", "-c", "exit 3"}, 3, ""},
		"Environment": {"testkit starts no control plane", []string{"sh", "-c", `[ "$USE_EXISTING_CLUSTER $ROPERATOR_AUDIT_LOG" = "true audit.log" ]`}, 0, ""},
		"Absent":      {"nothing was run", []string{"/no/such/command"}, 0, "/no/such/command"},
		"Killed":      {"a signal is no code", []string{"sh", "-c", "kill -KILL $$"}, 0, "signal: killed"},
	} {
		t.Run(name, func(t *testing.T) {
			code, err := beside(t.Context(), &testkit.Cluster{}, "audit.log", tc.command)
			require.Equal(t, tc.code, code, tc.reason)
			if tc.err == "" {
				require.NoError(t, err, tc.reason)
			} else {
				require.ErrorContains(t, err, tc.err, tc.reason)
			}
		})
	}
}
