package shards

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// readProc reads a file of a process.
func readProc(t *testing.T, pid int, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), name))
	require.NoError(t, err)
	return string(text)
}

// cpuOf returns the CPU time of a process so far.
func cpuOf(t *testing.T, pid int) time.Duration {
	t.Helper()
	const ticks, user, system = 100, 11, 12 // per second; places behind the name
	text := readProc(t, pid, "stat")
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	var sum time.Duration
	for _, place := range []int{user, system} {
		n, err := strconv.Atoi(fields[place])
		require.NoError(t, err)
		sum += time.Duration(n) * time.Second / ticks
	}
	return sum
}

// memoryOf returns how much memory a process has now, and had at most, in bytes.
func memoryOf(t *testing.T, pid int) (now, most int64) {
	t.Helper()
	for line := range strings.Lines(readProc(t, pid, "status")) {
		for key, place := range map[string]*int64{"VmRSS:": &now, "VmHWM:": &most} {
			if text, ok := strings.CutPrefix(line, key); ok {
				n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 10, 64)
				require.NoError(t, err)
				*place = n << 10
			}
		}
	}
	return now, most
}

// forgetMost has the most memory that a process had begin anew.
func forgetMost(t *testing.T, pid int) {
	t.Helper()
	require.NoError(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0o600))
}

// serverOf returns the process of the API server with this address.
func serverOf(t *testing.T, host string) int {
	t.Helper()
	address, err := url.Parse(host)
	require.NoError(t, err)
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil { // it has ended
			continue
		}
		args := bytes.Split(text, []byte{0})
		if filepath.Base(string(args[0])) == "kube-apiserver" && bytes.Contains(text, []byte("--secure-port="+address.Port()+"\x00")) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			require.NoError(t, err)
			return pid
		}
	}
	require.Fail(t, "no API server", host)
	return 0
}
