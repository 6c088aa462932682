package manager

import (
	"net"
	"slices"
	"sync"
)

// maxConnections is how many connections each served address has at most. Probes of the
// kubelet and scrapes of Prometheus need a handful. Each costs a descriptor of the
// process, and connections to the API server need some too.
const maxConnections = 32

// maxWindowConnections is maxConnections of the window's address: each of its streams keeps one.
const maxWindowConnections = 64

// A boundedListener has at most limit connections open at a time. Accept doesn't wait
// until there is room, as that of netutil.LimitListener: then a client that keeps all
// connections open, idle ones for minutes, would keep out the kubelet's probes, which end
// the operator (TestBoundedListener_ServesProbes). It closes a connection in favor of the
// new one: the oldest one of the host that has the most. So a host that opens many takes
// them from itself.
type boundedListener struct {
	net.Listener
	limit int // positive

	mu struct {
		sync.Mutex
		open []*boundedConn // in the order in which they were accepted
	}
}

// A boundedConn is a connection that a boundedListener counts until it is closed.
type boundedConn struct {
	net.Conn
	host     string // the client's address without its port
	listener *boundedListener
}

// Accept waits for the next connection.
func (l *boundedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &boundedConn{conn, hostOf(conn.RemoteAddr()), l}
	if surplus := l.add(c); surplus != nil {
		_ = surplus.Close() // whoever uses it finds out
	}
	return c, nil
}

// add counts a connection, and returns the one that must be closed for it, nil if there
// is room.
func (l *boundedListener) add(c *boundedConn) *boundedConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.open = append(l.mu.open, c)
	if len(l.mu.open) <= l.limit {
		return nil
	}
	has := map[string]int{}
	for _, each := range l.mu.open {
		has[each.host]++
	}
	surplus := l.mu.open[0]
	for _, each := range l.mu.open {
		if has[each.host] > has[surplus.host] {
			surplus = each
		}
	}
	return surplus
}

// Close closes the connection, which isn't counted any more. It may be called more than
// once.
func (c *boundedConn) Close() error {
	l := c.listener
	l.mu.Lock()
	l.mu.open = slices.DeleteFunc(l.mu.open, func(each *boundedConn) bool { return each == c })
	l.mu.Unlock()
	return c.Conn.Close()
}

// hostOf returns an address without its port.
func hostOf(address net.Addr) string {
	if tcp, ok := address.(*net.TCPAddr); ok {
		return tcp.IP.String()
	}
	return address.String()
}
