package manager

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A fakeConn comes from an address, and notes whether it was closed.
type fakeConn struct {
	net.Conn
	from   string
	closed int
}

func (c *fakeConn) RemoteAddr() net.Addr {
	address, err := net.ResolveTCPAddr("tcp", c.from)
	if err != nil {
		return &net.UnixAddr{Name: c.from, Net: "unix"}
	}
	return address
}

func (c *fakeConn) Close() error {
	c.closed++
	return nil
}

// A fakeListener accepts connections that are there already, and then none.
type fakeListener struct {
	net.Listener
	conns []*fakeConn
}

func (l *fakeListener) Accept() (net.Conn, error) {
	if len(l.conns) == 0 {
		return nil, net.ErrClosed
	}
	c := l.conns[0]
	l.conns = l.conns[1:]
	return c, nil
}

func TestBoundedListener(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		from   string // for each connection a letter, which stands for a host
		want   string // the connections that are closed
	}{
		"Room":       {"as many as there may be", "aaaa", ""},
		"OneHost":    {"the oldest ones of it", "aaaaaa", "0 1"},
		"Greedy":     {"whoever has many loses them, and keeps no newcomer out", "baaac", "1"},
		"Itself":     {"it takes them from itself, not from who was there before", "bcaaaa", "2 3"},
		"AllAlike":   {"the oldest, if nobody has more than others", "abcde", "0"},
		"InBetween":  {"the one who has most at that time", "aabbba", "0 2"},
		"LikeSocket": {"an address that isn't TCP's is a host too", "///aa", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			var all []*fakeConn
			for i, host := range tc.from {
				from := "/socket"
				if host != '/' {
					from = fmt.Sprintf("10.0.0.%d:%d", host, 1000+i)
				}
				all = append(all, &fakeConn{from: from})
			}
			l := &boundedListener{Listener: &fakeListener{conns: all}, limit: 4}
			var accepted []net.Conn
			for range all {
				c, err := l.Accept()
				require.NoError(t, err)
				accepted = append(accepted, c)
			}
			_, err := l.Accept()
			require.ErrorIs(t, err, net.ErrClosed)
			var closed []string
			for i, c := range all {
				if c.closed > 0 {
					closed = append(closed, fmt.Sprint(i))
				}
			}
			require.Equal(t, tc.want, strings.Join(closed, " "), tc.reason)
			for _, c := range accepted {
				require.NoError(t, c.Close())
			}
			require.Empty(t, l.mu.open, "what is closed isn't counted")
		})
	}
}

// A client that opens every connection and sends nothing keeps no probe of the kubelet out, which ends the operator
// after three probes that took longer than a second. netutil.LimitListener would: it accepts no connection until one of
// these has timed out, after 10 s, or 2 min if a request was sent on it.
func TestBoundedListener_ServesProbes(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		send   string
	}{
		"Silent": {"they time out after 10 s", ""},
		"Idle":   {"they time out after 2 min", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var config net.ListenConfig
			listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
			require.NoError(t, err)
			server := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout}
			go func() { _ = server.Serve(&boundedListener{Listener: listener, limit: maxConnections}) }() // until Close
			defer func() { require.NoError(t, server.Close()) }()
			for range maxConnections {
				var dialer net.Dialer
				c, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
				require.NoError(t, err)
				defer func() { _ = c.Close() }() // the server may have closed it
				_, err = c.Write([]byte(tc.send))
				require.NoError(t, err)
			}
			probe := http.Client{Timeout: readHeaderTimeout / 2, Transport: &http.Transport{DisableKeepAlives: true}}
			for range 3 {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String()+"/healthz", nil)
				require.NoError(t, err)
				resp, err := probe.Do(req)
				require.NoError(t, err, tc.reason)
				require.NoError(t, resp.Body.Close())
			}
		})
	}
}
