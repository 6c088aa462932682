package security

import (
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/operatorproc"
	"github.com/roperator/roperator/internal/testing/plane"
)

// unread returns an operator whose log goes into a pipe, and the end of the pipe that
// nobody reads. It serves metrics and health at the address.
func unread(t *testing.T, name string, args ...string) (p *operatorproc.Process, pipe *os.File, address string) {
	t.Helper()
	for range 10 {
		address = plane.FreeAddress(t)
		reader, writer, err := os.Pipe()
		require.NoError(t, err)
		t.Cleanup(func() { _ = reader.Close() }) // unless it was closed
		p = operatorproc.Command{Output: writer, Name: name, Args: append([]string{"--metrics-bind-address=" + address, "--health-probe-bind-address=" + address}, args...)}.Start(t)
		require.NoError(t, writer.Close())
		eventually(t, "it is ready, or ended", func() bool { return p.Ended() || get(t, "http://"+address+"/readyz") == "ok" })
		if !p.Ended() {
			return p, reader, address
		}
		require.NoError(t, reader.Close()) // the API server was busy, or somebody else took the address
	}
	require.Fail(t, "it doesn't start")
	return nil, nil, ""
}

// dropped returns how many lines of its log an operator has dropped, as its metrics say.
func dropped(t *testing.T, address string) int {
	t.Helper()
	found := regexp.MustCompile(`(?m)^roperator_log_lines_dropped_total\{.*\} (\S+)$`).FindStringSubmatch(get(t, "http://"+address+"/metrics"))
	require.NotNil(t, found)
	n, err := strconv.ParseFloat(found[1], 64)
	require.NoError(t, err)
	return int(n)
}

// An operator stopped for good when nobody read its log: every pass hung in a line of the
// log, while the lease was renewed.
func TestALogThatNobodyReadsStopsNothing(t *testing.T) {
	t.Parallel()
	kit := bystander(t, "unread-by")
	// The lowest level is the highest verbosity of client-go.
	p, pipe, address := unread(t, "unread", "--kubeconfig="+cluster.Kubeconfig(), "--namespace="+kit.Namespace, "--log-level=debug-8", "--log-format=json")
	kit.Create(parent("chatty", map[string]any{}))
	eventually(t, "lines are dropped", func() bool { return dropped(t, address) > 0 })
	for _, name := range []string{"chatty", "one", "two"} {
		if name != "chatty" {
			kit.Create(parent(name, map[string]any{}))
		}
		eventually(t, name+" is served", func() bool { return kit.Get(secret(name, "")) != nil })
	}
	require.Equal(t, "ok", get(t, "http://"+address+"/readyz"))

	// Somebody reads again.
	var log strings.Builder
	read := make(chan error, 1)
	go func() { // ends with the process, which closes the pipe
		_, err := io.Copy(&log, pipe)
		read <- err
	}()
	kit.Create(parent("read-again", map[string]any{}))
	eventually(t, "it is served", func() bool { return kit.Get(secret("read-again", "")) != nil })
	lost := 0
	eventually(t, "nothing more is dropped", func() bool {
		was := lost
		lost = dropped(t, address)
		return was == lost
	})
	p.Signal(syscall.SIGTERM)
	require.NoError(t, <-read)
	require.Zero(t, p.Exit())
	told := 0
	for _, found := range regexp.MustCompile(`"lines of the log were dropped[^"]*","lines":(\d+)\}`).FindAllStringSubmatch(log.String(), -1) {
		n, err := strconv.Atoi(found[1])
		require.NoError(t, err)
		told += n
	}
	require.GreaterOrEqual(t, told, lost, "the log says how many lines it lacks")
	require.Contains(t, log.String(), `"msg":"stopped"`, "the last lines are there")
	noCanary(t, "log", log.String())
}

// Nor does it keep a process from ending.
func TestALogThatNobodyReadsKeepsNoProcess(t *testing.T) {
	t.Parallel()
	kit := bystander(t, "kept-by")
	p, _, address := unread(t, "kept", "--kubeconfig="+cluster.Kubeconfig(), "--namespace="+kit.Namespace, "--log-level=debug-8")
	kit.Create(parent("chatty", map[string]any{}))
	eventually(t, "lines are dropped", func() bool { return dropped(t, address) > 0 })
	p.Signal(syscall.SIGTERM)
	require.Zero(t, p.Exit())
}
