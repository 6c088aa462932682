package access

import (
	"net"
	"strings"
)

// Local returns an address to listen at that is on the loopback interface unless it names a host: ":8082" becomes
// "127.0.0.1:8082".
func Local(address string) string {
	if host, port, err := net.SplitHostPort(address); err == nil && host == "" {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}

// IsLoopback says whether an address as Local returns it can be reached from this machine alone. A host's name may
// mean any address, but for localhost.
func IsLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
