package storm

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/testing/faults"
)

// leaseName is the name of the lease that the operator's processes compete for.
const leaseName = "storm"

// A process is one run of the operator's program.
type process struct {
	*faults.Process
	world   *world
	link    *faults.Link
	manager *manager.Manager
	proxy   *proxy
}

// newProcess returns a process of the world, which stop tells to end.
func (w *world) newProcess(name string, stop context.CancelFunc) *process {
	p := &process{Process: faults.NewProcess(name, stop), world: w}
	p.link = w.connect(p)
	return p
}

// killNow kills the process, unless the faults are over by now. It says whether the process is dead.
func (p *process) killNow() bool {
	if !p.world.dice.Over() {
		p.Kill()
	}
	return p.Killed()
}

// replica runs one process after the other.
func (w *world) replica(ctx context.Context, i int) {
	for n := 1; ; n++ {
		name := fmt.Sprint("process ", n)
		if w.script.Replicas > 1 {
			name = fmt.Sprintf("process %c%d", 'A'+i, n)
		}
		pctx, cancel := context.WithCancel(ctx)
		p := w.newProcess(name, cancel)
		var err error
		ended := make(chan struct{})
		w.started.Go(func() { defer close(ended); err = w.start(pctx, i, p) })
		select {
		case <-ended:
		case <-p.Dead(): // what is left of it does nothing any more
		}
		switch {
		case ctx.Err() != nil:
			cancel()
			return
		case p.Killed():
			w.say(event{text: "dies", process: name, weight: 2})
		case err != nil && !w.mayEnd(pctx):
			w.violated("start", "", "the operator ends: %v", err)
		default:
			w.say(event{text: "ends", process: name, weight: 1})
		}
		cancel()
		p.Kill()
		select {
		case <-ctx.Done():
			return
		case <-time.After(w.pace.restarting):
		}
	}
}

// mayEnd says whether a process may end with an error: it was told to, or it may have lost the
// lease.
func (w *world) mayEnd(ctx context.Context) bool {
	return ctx.Err() != nil || w.script.Replicas > 1 || !w.calm
}

// start runs a process until it ends.
func (w *world) start(ctx context.Context, i int, p *process) error {
	rc := w.server.RESTConfig()
	rc.Transport = p
	opts := manager.Options{
		RESTConfig: rc, ShutdownTimeout: 5 * time.Second, Logger: slog.New(slog.DiscardHandler), KeepHistory: true, NamespacesExist: true,
		BuiltIn: w.builtIn,
	}
	if w.script.Replicas > 1 {
		election := w.pace.lease
		election.Namespace, election.Name, election.Identity = w.namespace, leaseName, p.Name
		opts.LeaderElection = &election
	}
	p.proxy = &proxy{process: p, inner: w.newHandler()}
	p.proxy.mu.last, p.proxy.mu.calls = map[types.NamespacedName]*answered{}, map[string]int{}
	var err error
	if p.manager, err = manager.New(opts, manager.Spec{Config: w.operator, Handler: p.proxy}); err != nil {
		return err
	}
	w.mu.Lock()
	w.mu.processes[i] = p
	w.mu.Unlock()
	w.say(event{text: "starts", process: p.Name, weight: 1})
	return p.manager.Start(klog.NewContext(ctx, logr.Discard())) // client-go tells of each answer that is cut
}

// running returns the processes, by replica.
func (w *world) running() (out []*process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range slices.Sorted(maps.Keys(w.mu.processes)) {
		out = append(out, w.mu.processes[i])
	}
	return out
}

// pick returns one of the processes. At first there is none.
func (w *world) pick(n int) *faults.Process {
	all := w.running()
	if len(all) == 0 {
		return nil
	}
	return all[n%len(all)].Process
}
