// Package measure is in every operator that is measured: it counts requests,
// notes when they leave and when events arrive, and tells the benchmark, which
// asks over HTTP on the loopback interface.
package measure

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// The environment that the benchmark gives an operator.
const (
	EnvKubeconfig = "BENCH_KUBECONFIG"
	EnvParents    = "BENCH_PARENTS" // how many there are
)

// Stats are totals since the start of the process.
type Stats struct {
	CPU       time.Duration  // user and system
	Requests  map[string]int // "PUT configmaps" -> how many; watches are Watch
	Conflicts int            // answers with 409
	Failures  int            // other answers of 400 and above
	Handled   int            // calls of the handler, or of Reconcile
}

// A Single is one change of a parent as the operator saw it.
type Single struct {
	Object  string // name of the first child that was written
	Arrived int64  // the parent's event, in ns since 1970
	Left    int64  // the child's request
}

// An Operator is the measured side.
type Operator struct {
	parents int
	wire    *wire

	mu struct {
		sync.Mutex
		handled int
		seen    map[string]struct{}
		all     time.Time // when every parent had been seen
	}
	allSeen chan struct{}
}

// Start serves the figures, prints the address as the first line of standard
// output, and returns the configuration to connect with. The server ends with
// the process.
func Start() (*Operator, *rest.Config, error) {
	parents, err := strconv.Atoi(os.Getenv(EnvParents))
	if err != nil {
		return nil, nil, fmt.Errorf("measure: %s: %w", EnvParents, err)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", os.Getenv(EnvKubeconfig))
	if err != nil {
		return nil, nil, fmt.Errorf("measure: %s: %w", EnvKubeconfig, err)
	}
	o := &Operator{parents: parents, wire: newWire(), allSeen: make(chan struct{})}
	o.mu.seen = make(map[string]struct{}, parents)
	cfg.QPS = -1 // the API server decides
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &transport{next: next, wire: o.wire} })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, fmt.Errorf("measure: listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) { answer(w, o.stats()) })
	mux.HandleFunc("GET /singles", func(w http.ResponseWriter, _ *http.Request) { answer(w, o.wire.takeSingles()) })
	mux.HandleFunc("GET /all", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-o.allSeen:
			o.mu.Lock()
			defer o.mu.Unlock()
			answer(w, o.mu.all)
		case <-r.Context().Done():
		}
	})
	go func() { // for the life of the process
		fmt.Fprintln(os.Stderr, "measure:", http.Serve(listener, mux))
	}()
	fmt.Println(listener.Addr())
	return o, cfg, nil
}

func answer(w http.ResponseWriter, v any) {
	if err := json.NewEncoder(w).Encode(v); err != nil {
		fmt.Fprintln(os.Stderr, "measure: answer:", err)
	}
}

// Handled notes a call of the handler for the parent with the name.
func (o *Operator) Handled(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.handled++
	if len(o.mu.seen) == o.parents {
		return
	}
	o.mu.seen[name] = struct{}{}
	if len(o.mu.seen) == o.parents {
		o.mu.all = time.Now()
		close(o.allSeen)
	}
}

func (o *Operator) stats() Stats {
	s := o.wire.stats()
	o.mu.Lock()
	s.Handled = o.mu.handled
	o.mu.Unlock()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err == nil {
		s.CPU = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	return s
}
