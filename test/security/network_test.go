package security

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/roperator/roperator/internal/testing/authority"
	"github.com/roperator/roperator/internal/testing/operatorproc"
)

func TestAnAPIServerOfAnotherCAIsRefused(t *testing.T) {
	t.Parallel()
	cfg, err := clientcmd.LoadFromFile(cluster.Kubeconfig())
	require.NoError(t, err)
	for _, each := range cfg.Clusters {
		each.CertificateAuthority, each.CertificateAuthorityData = "", authority.New(t, "another CA").PEM
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*cfg, file))
	begin := func() *operatorproc.Process {
		p := start(t, "another-ca", "--kubeconfig="+file, "--metrics-bind-address=0", "--health-probe-bind-address=0")
		eventually(t, "it ends", p.Ended)
		return p
	}
	p := begin()
	for strings.Contains(p.Said(), "deadline exceeded") { // before it had seen the certificate
		p = begin()
	}
	require.Equal(t, 1, p.Exit())
	require.Contains(t, p.Said(), "x509: certificate signed by unknown authority")
}

// listeners returns the addresses at which a process listens.
func listeners(t *testing.T, pid int) []string {
	t.Helper()
	sockets := map[string]bool{}
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	require.NoError(t, err)
	require.NotEmpty(t, fds)
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil { // else it was closed meanwhile
			sockets[strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")] = true
		}
	}
	var found []string
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) < 10 || !sockets[fields[9]] {
				continue
			}
			if listening := fields[3] == "0A"; listening || strings.HasPrefix(table, "udp") && fields[2][len(fields[2])-4:] == "0000" {
				found = append(found, procAddress(t, fields[1]))
			}
		}
	}
	slices.Sort(found)
	return found
}

// procAddress reads what /proc/net has: words in the machine's order, in hex.
func procAddress(t *testing.T, text string) string {
	t.Helper()
	host, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	require.NoError(t, err)
	for i := 0; i < len(raw); i += 4 {
		binary.BigEndian.PutUint32(raw[i:], binary.NativeEndian.Uint32(raw[i:]))
	}
	ip, ok := netip.AddrFromSlice(raw)
	require.True(t, ok)
	var n uint16
	_, err = fmt.Sscanf(port, "%X", &n)
	require.NoError(t, err)
	return netip.AddrPortFrom(ip.Unmap(), n).String()
}

func TestAProcessListensOnlyWhereItIsTold(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("/proc tells")
	}
	t.Parallel()
	kit := bystander(t, "listeners-by")
	args := func(metrics, health string) []string {
		return []string{"--kubeconfig=" + cluster.Kubeconfig(), "--namespace=" + kit.Namespace, "--metrics-bind-address=" + metrics, "--health-probe-bind-address=" + health}
	}
	for name, tc := range map[string]struct {
		reason string
		start  func(t *testing.T) (p *operatorproc.Process, want []string)
	}{
		"None": {"0 turns both off", func(t *testing.T) (*operatorproc.Process, []string) {
			t.Helper()
			return startWorking(t, "listeners-none", args("0", "0")...), nil
		}},
		"Both": {"what was asked for, and nothing besides", func(t *testing.T) (*operatorproc.Process, []string) {
			t.Helper()
			p, metrics, health := startServing(t, "listeners-both", args)
			return p, slices.Sorted(slices.Values([]string{metrics, health}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p, want := tc.start(t)
			kit.Create(parent("ready-"+strings.ToLower(name), map[string]any{}))
			eventually(t, "it works", func() bool { return kit.Get(secret("ready-"+strings.ToLower(name), "")) != nil })
			require.Equal(t, want, listeners(t, p.Pid()), tc.reason)
		})
	}
}

func dial(t *testing.T, address, text string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() }) // the server may have
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	_, _ = io.WriteString(conn, text) // a refusal may come before all is sent
	return conn
}

// answered returns the status of the answer to a text. Who is refused before all
// is sent may find the connection reset before the answer is read, and tries
// again.
func answered(t *testing.T, address, text string) int {
	t.Helper()
	for {
		resp, err := http.ReadResponse(bufio.NewReader(dial(t, address, text)), nil)
		if errors.Is(err, syscall.ECONNRESET) {
			continue
		}
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
}

// A flood of connections that are kept open took every descriptor of the process: nothing
// else was answered for minutes, probes of the kubelet included, and no connection to the
// API server could be made.
func TestAFloodOfConnectionsLeavesDescriptorsForOthers(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("/proc tells, and all of 127/8 is loopback")
	}
	t.Parallel()
	kit := bystander(t, "flood-by")
	p, metrics, health := startServing(t, fewDescriptors, func(metrics, health string) []string {
		return []string{"--kubeconfig=" + cluster.Kubeconfig(), "--namespace=" + kit.Namespace, "--metrics-bind-address=" + metrics, "--health-probe-bind-address=" + health}
	})
	eventually(t, "it is ready", func() bool { return get(t, "http://"+health+"/readyz") == "ok" })
	flood := func(address, path string) {
		from := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
		for range 2 * descriptors {
			conn, err := from.DialContext(t.Context(), "tcp", address)
			require.NoError(t, err)
			t.Cleanup(func() { _ = conn.Close() }) // the server may have
			_, _ = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
		}
	}
	flood(metrics, "/metrics")
	flood(health, "/healthz")
	begin := time.Now()
	for _, url := range []string{"http://" + health + "/healthz", "http://" + health + "/readyz", "http://" + metrics + "/metrics"} {
		require.NotEmpty(t, get(t, url))
	}
	require.Less(t, time.Since(begin), 30*time.Second, "who keeps connections open keeps nobody waiting until they time out")
	kit.Create(parent("served", map[string]any{}))
	eventually(t, "it works", func() bool { return kit.Get(secret("served", "")) != nil })
	open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.Pid()))
	require.NoError(t, err)
	require.Less(t, len(open), descriptors-10, "there are descriptors for more")
	require.NotContains(t, p.Said(), "too many open files")
}

func TestSlowAndHostileClientsDisturbNobody(t *testing.T) {
	t.Parallel()
	kit := bystander(t, "hostile-by")
	_, _, address := startServing(t, "hostile", func(_, both string) []string {
		return []string{"--kubeconfig=" + cluster.Kubeconfig(), "--namespace=" + kit.Namespace, "--metrics-bind-address=" + both, "--health-probe-bind-address=" + both}
	})
	eventually(t, "it is ready", func() bool { return get(t, "http://"+address+"/readyz") == "ok" })

	for range 150 {
		dial(t, address, "") // says nothing at all
	}
	for range 20 {
		dial(t, address, strings.Repeat("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 50)) // reads nothing
	}
	var slow []net.Conn // few enough not to be closed in favor of others
	for range 5 {
		slow = append(slow, dial(t, address, "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ")) // and no more
	}
	for path, want := range map[string]int{
		"GET /healthz": 200, "GET /readyz": 200, "GET /metrics": 200, "POST /metrics": 405, "PUT /healthz": 405, "GET /": 404,
		"GET /debug/pprof/": 404, "GET /debug/pprof/heap": 404, "GET /debug/vars": 404, "GET /metrics/../debug/pprof/": 404,
	} {
		status := answered(t, address, path+" HTTP/1.0\r\n\r\n")
		if status == http.StatusMovedPermanently || status == http.StatusTemporaryRedirect {
			status = http.StatusNotFound // to a path that isn't there, as the others show
		}
		require.Equal(t, want, status, path)
	}
	for what, header := range map[string]string{
		"Long": "X: " + strings.Repeat("x", 1<<20) + "\r\n",
		"Many": strings.Repeat("X: x\r\n", 1<<17),
	} {
		require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, answered(t, address, "GET /healthz HTTP/1.1\r\nHost: x\r\n"+header), what)
	}
	require.Equal(t, http.StatusBadRequest, answered(t, address, "\x16\x03\x01\x02 nonsense\r\n\r\n"))
	// Who doesn't finish its headers is let go.
	for _, conn := range slow {
		_, err := io.Copy(io.Discard, conn)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	}
	require.Equal(t, "ok", get(t, "http://"+address+"/healthz"))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	var body bytes.Buffer
	_, err = body.ReadFrom(resp.Body)
	require.NoError(t, err)
	require.Contains(t, body.String(), "roperator_")
}
