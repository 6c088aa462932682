package manager

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Ready returns nil if every operator has started, mirrors every type it watches, and
// has no pass that has been under way for ten minutes or longer; else an error that says
// what is missing. A replica that waits for the lease is ready: it can take over at once.
// Ready may be called concurrently.
func (m *Manager) Ready() error {
	var errs []error
	for _, c := range m.checks() {
		errs = append(errs, c.err)
	}
	return errors.Join(errs...)
}

// A check is one condition of readiness.
type check struct {
	name string // as /readyz prints it
	err  error  // nil: the condition is met
	note string // what there is to say though the condition is met
}

// beginWithin is how long a shard that was taken may take to begin.
const beginWithin = time.Minute

// checks returns the conditions of readiness: each operator has started, none of its
// passes is overdue, each of its watchers mirrors what it watches, and no watch of what
// parents refer to is broken.
func (m *Manager) checks() []check {
	var checks []check
	if members := m.sharing(); members != nil {
		checks = append(checks, check{name: "shards", err: members.Joined()})
	}
	for _, o := range m.running() {
		e := o.begun()
		switch {
		case o.shard.Divides() && (e == nil || !e.HasSynced()):
			// A shard that has just been taken doesn't make the replica unready.
			if time.Since(o.taken) > beginWithin {
				checks = append(checks, check{name: "start/" + o.name(), err: fmt.Errorf("runner: the shard was taken %v ago, and isn't worked on yet; the log says why", time.Since(o.taken).Round(time.Second))})
			}
			continue
		case e == nil:
			checks = append(checks, check{name: "start/" + o.name(), err: errors.New("runner: not started yet")})
			continue
		}
		checks = append(checks, check{name: "passes/" + o.name(), err: e.Overdue()})
		for _, related := range o.cfg.Related {
			checks = append(checks, check{name: "related/" + o.name() + "/" + related.Type.String(), err: e.RelatedBroken(related.Type)})
		}
		for _, w := range e.Running() {
			checks = append(checks, check{name: "informer/" + o.name() + "/" + w.Name(), err: w.Ready()})
		}
		for _, missing := range e.Missing() {
			c := check{name: "type/" + o.name() + "/" + missing.Type.String(), err: missing.Err}
			if missing.Optional {
				c.err, c.note = nil, "not served; it is optional"
			}
			checks = append(checks, c)
		}
	}
	return checks
}

// Healthy returns nil unless the process should be restarted. The reasons for a
// restart are a lost lease, and a call of a handler that doesn't heed the end of its
// context when the operator stops. Start returns soon in both cases. Nothing else that
// goes wrong in an operator is mended by a restart. Healthy may be called concurrently.
func (m *Manager) Healthy() error {
	m.mu.Lock()
	lease := m.mu.lease
	m.mu.Unlock()
	if lease != nil && lease.Lost() != nil {
		return lease.Lost()
	}
	var errs []error
	for _, o := range m.running() {
		if e := o.begun(); e != nil {
			errs = append(errs, e.Stuck())
		}
	}
	return errors.Join(errs...)
}

// healthz answers 200 if the manager is healthy, else 500 with the reason.
func (m *Manager) healthz(w http.ResponseWriter, _ *http.Request) {
	if err := m.Healthy(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = io.WriteString(w, "ok")
}

// readyz answers 200 if the manager is ready, else 500 with the checks that fail.
// With ?verbose the answer lists every check.
func (m *Manager) readyz(w http.ResponseWriter, req *http.Request) {
	_, verbose := req.URL.Query()["verbose"]
	var lines strings.Builder
	failed := false
	for _, c := range m.checks() {
		switch {
		case c.err != nil:
			failed = true
			fmt.Fprintf(&lines, "[-]%s failed: %v\n", c.name, c.err)
		case c.note != "":
			fmt.Fprintf(&lines, "[+]%s ok: %s\n", c.name, c.note)
		case verbose:
			fmt.Fprintf(&lines, "[+]%s ok\n", c.name)
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch {
	case failed:
		w.WriteHeader(http.StatusInternalServerError)
		lines.WriteString("readyz check failed\n")
	case verbose:
		lines.WriteString("readyz check passed\n")
	default:
		lines.WriteString("ok")
	}
	_, _ = io.WriteString(w, lines.String())
}
