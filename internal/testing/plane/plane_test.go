package plane

import (
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What listens where outgoing connections begin can't listen again, since one may have its
// port by then.
func TestFreePort(t *testing.T) {
	for range 20 {
		port, err := FreePort()
		require.NoError(t, err)
		n, err := strconv.Atoi(port)
		require.NoError(t, err)
		require.Less(t, n, 32768, "the first of Linux's; see ip_local_port_range")
	}
}

// etcd has its port for good once a kube-apiserver knows it: it waits until it is free.
func TestPortsOfOthers(t *testing.T) {
	p, err := New(Options{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(p.Stop)
	if err := p.StartEtcd(t.Context()); errors.Is(err, os.ErrNotExist) {
		t.Skipf("needs etcd and kube-apiserver to start of its own: %v", err)
	}
	require.NoError(t, err)
	first := p.etcdURL
	require.NoError(t, p.StartServer(t.Context()))
	p.Server.Kill()
	p.Etcd.Kill()

	busy, err := net.Listen("tcp", first[len("http://"):])
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- p.StartEtcd(t.Context()) }()
	require.NoError(t, Until(t.Context(), patience, func() error {
		text, err := os.ReadFile(p.path("etcd.log"))
		if err == nil && !strings.Contains(string(text), "address already in use") {
			err = errors.New("etcd hasn't found its port taken")
		}
		return err
	}))
	require.NoError(t, busy.Close())
	require.NoError(t, <-ended)
	require.Equal(t, first, p.etcdURL)
	require.NoError(t, p.StartServer(t.Context()))
}
