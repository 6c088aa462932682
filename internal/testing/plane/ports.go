package plane

import (
	"context"
	mathrand "math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// FreePort returns a port that nobody listened on a moment ago. It is none of those that
// systems give to outgoing connections, which begin at 32768 or above unless somebody has
// configured others: whoever listens on it may end and listen again.
func FreePort() (string, error) {
	const lowest, ports = 20000, 12000
	var err error
	for range 100 {
		port := strconv.Itoa(lowest + mathrand.IntN(ports))
		var l net.Listener
		if l, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:"+port); err == nil {
			return port, l.Close()
		}
	}
	return "", err
}

// FreeAddress returns an address of loopback with a FreePort.
func FreeAddress(t *testing.T) string {
	t.Helper()
	port, err := FreePort()
	if err != nil {
		t.Fatalf("a free port: %v", err)
	}
	return "127.0.0.1:" + port
}
