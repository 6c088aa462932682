package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
)

// Every subcommand refuses a configuration with mistakes, and names them.
func TestCommandLineBadConfiguration(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, []byte(`{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}],
		contexts: [{name: c, context: {cluster: c}}], current-context: c}`), 0o600))
	for _, subcommand := range []string{"run", "plan", "manifests", "release-finalizers", "uninstall"} {
		var stdout, stderr strings.Builder
		code := Program{Operators: []Spec{{config.Operator{}, handler.SyncFunc(nil)}}}.Execute(t.Context(), []string{subcommand, "--kubeconfig=" + kubeconfig}, &stdout, &stderr)
		require.NotZero(t, code)
		require.Contains(t, stderr.String(), "Name", subcommand)
		require.Empty(t, stdout.String())
	}
}
