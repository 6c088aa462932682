package conformance

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/operatorproc"
	"github.com/roperator/roperator/testkit"
)

// subcommand runs an operator's program and returns what it says. One that the
// API server was too busy for is run again.
func subcommand(t *testing.T, name string, args ...string) (said string, code int) {
	t.Helper()
	for said, code = runOnce(t, name, args...); strings.Contains(said, unreachable); {
		said, code = runOnce(t, name, args...)
	}
	return said, code
}

func runOnce(t *testing.T, name string, args ...string) (said string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), operatorproc.Variable+"="+name)
	in, err := cmd.StdinPipe() // which ends the process when it is closed
	require.NoError(t, err)
	defer in.Close()
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		require.NoError(t, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func TestC208_ReleaseFinalizers(t *testing.T) {
	scenario(t, "C208", "release-finalizers lets every parent of an operator that is gone be deleted, and touches no other finalizer; with --dry-run it only says so")
	const parents = 5
	never := handler.Funcs{SyncFunc: copier, FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
		return &handler.FinalizeResponse{}, nil
	}}
	kit := testkit.New(t, cluster, operator("leaving", configMapChild()), never)
	for i := range parents {
		kit.Create(parent(fmt.Sprint("p", i), nil))
	}
	settle(t, kit)
	withFinalizers(t, kit, "p1", func(held []string) []string { return append(held, "example.com/theirs") })
	kit.Delete(parent("p2", nil))
	settle(t, kit)
	kit.Stop()
	args := []string{"release-finalizers", "--kubeconfig=" + kubeconfigAs(t, "leaving", true), "--namespace=" + kit.Namespace}

	log := needsAudit(t)
	from := log.mark(t)
	said, code := subcommand(t, "leaving", append(args, "--dry-run")...)
	require.Equal(t, 0, code, said)
	require.Contains(t, said, fmt.Sprintf("%d of %d parents would be released.", parents, parents))
	for _, r := range log.all(t, from) {
		require.False(t, r.As == "leaving" && r.persists(), "%s", r)
	}
	require.Contains(t, kit.Get(parent("p0", nil)).Finalizers(), "roperator.com/leaving")

	said, code = subcommand(t, "leaving", args...)
	require.Equal(t, 0, code, said)
	require.Contains(t, said, fmt.Sprintf("%d of %d parents released.", parents, parents))
	require.Nil(t, kit.Get(parent("p2", nil)), "it was being deleted, and nothing else held it")
	require.Equal(t, []string{"example.com/theirs"}, kit.Get(parent("p1", nil)).Finalizers())
	require.Empty(t, kit.Get(parent("p0", nil)).Finalizers())
	require.NotNil(t, kit.Get(configMap("p0", "", "")), "children stay as they are")

	said, code = subcommand(t, "leaving", args...)
	require.Equal(t, 0, code, said)
	require.Contains(t, said, "0 of 4 parents released.")
}
