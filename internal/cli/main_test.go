package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// mainArguments is the environment variable by which a test has this test's own program be an operator's.
const mainArguments = "CLI_TEST_MAIN"

// A subcommand that works in the cluster goes on when nobody reads its output any more.
func TestMain_NobodyReads(t *testing.T) {
	if name := os.Getenv(mainArguments); name != "" {
		os.Args = []string{os.Args[0], name, "--kubeconfig=" + filepath.Join(t.TempDir(), "missing")}
		sampleProgram().Main() // which ends with a line that says what is missing
	}
	for name, goesOn := range map[string]bool{
		"run": true, "uninstall": true, "release-finalizers": true, "migrate-storage": true, "plan": false,
	} {
		t.Run(name, func(t *testing.T) {
			read, write, err := os.Pipe()
			require.NoError(t, err)
			require.NoError(t, read.Close())
			cmd := exec.Command(os.Args[0], "-test.run=^TestMain_NobodyReads$")
			cmd.Env = append(os.Environ(), mainArguments+"="+name)
			cmd.Stdout, cmd.Stderr = write, write
			require.Error(t, cmd.Run())
			require.NoError(t, write.Close())
			status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
			require.True(t, ok)
			require.Equal(t, goesOn, status.Exited(), "%v", cmd.ProcessState)
			if goesOn {
				require.Equal(t, exitError, status.ExitStatus())
			} else {
				require.Equal(t, syscall.SIGPIPE, status.Signal())
			}
		})
	}
}
