package cli

import (
	"flag"
	"fmt"
	"net"
	"strconv"

	"github.com/roperator/roperator/internal/engine/access"
)

// windowUsage is the help of --window-bind-address.
const windowUsage = "where the window is served, a page that shows what the operator does; :8090 is 127.0.0.1:8090, and beyond loopback it asks for a token; 0: nowhere"

// registerWindow registers the flag of the window.
func (f *flags) registerWindow(fs *flag.FlagSet) {
	fs.StringVar(&f.windowAddress, "window-bind-address", f.defaults.windowAddress(), windowUsage)
}

// guardsWindow says whether the window is served to more than this machine, so that it is protected.
func (f *flags) guardsWindow() bool {
	return listenAt(f.windowAddress) != "" && !access.IsLoopback(access.Local(f.windowAddress))
}

// windowToo says in a mistake about the flags that protect the metrics what they have to do with the window.
func (f *flags) windowToo() string {
	if !f.guardsWindow() {
		return ""
	}
	return ", with which the window at " + f.windowAddress + " has the same certificate and audiences"
}

// checkWindow returns what is wrong with the address of the window.
func (f *flags) checkWindow() error {
	if listenAt(f.windowAddress) == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(f.windowAddress)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("--window-bind-address: %q has no number of a port; give it :8090, say, or 0 to serve no window", f.windowAddress)
	}
	for _, other := range [][2]string{{"metrics-bind-address", f.metricsAddress}, {"health-probe-bind-address", f.healthAddress}} {
		if listenAt(other[1]) != "" && collide(access.Local(f.windowAddress), other[1]) {
			return fmt.Errorf("--window-bind-address=%s and --%s=%s can't be served side by side; give the window another port", f.windowAddress, other[0], other[1])
		}
	}
	return nil
}

// collide says whether two addresses are one, or one of them is part of the other.
func collide(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	everywhere := func(host string) bool { return host == "" || net.ParseIP(host).IsUnspecified() }
	return hostA == hostB || everywhere(hostA) || everywhere(hostB) || access.IsLoopback(a) && access.IsLoopback(b)
}
