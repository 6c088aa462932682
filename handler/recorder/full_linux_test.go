package recorder_test

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler/recorder"
)

// fullFolder is the environment variable by which TestFullDisk runs itself in a process of its
// own, since the limit that it sets is the process's.
const fullFolder = "RECORDER_TEST_FOLDER"

// TestFullDisk: of a line of which the disk took a part, no part stays.
func TestFullDisk(t *testing.T) {
	folder := os.Getenv(fullFolder)
	if folder == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
		cmd.Env = append(os.Environ(), fullFolder+"="+t.TempDir())
		output, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", output)
		require.Contains(t, string(output), "--- PASS: TestFullDisk")
		return
	}
	signal.Ignore(syscall.SIGXFSZ) // so that a write ends with an error
	path := filepath.Join(folder, "sites.jsonl")
	limit := func(bytes uint64) {
		var was syscall.Rlimit
		require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was))
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: min(bytes, was.Max), Max: was.Max}))
	}
	synctest.Test(t, func(t *testing.T) {
		r, log := begin(t, sites(), recorder.Options{Path: path})
		call(t, r, "one")
		limit(2000)
		call(t, r, strings.Repeat("x", 3000))
		lines := log.take()
		require.Len(t, lines, 1)
		require.Contains(t, lines[0], path+": file too large")
		require.Equal(t, []string{"one"}, recorded(t, path), "the file is whole")
		limit(1 << 40)
		pass(t, time.Minute)
		call(t, r, "two")
		require.Equal(t, []string{"one", "two"}, recorded(t, path))
	})
}
