package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/lead"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/engine/revision"
	"github.com/roperator/roperator/internal/testing/faults"
	"github.com/roperator/roperator/internal/testing/past"
	"github.com/roperator/roperator/resource/k8s"
)

func (w *world) config() config.Operator {
	strategy := func(i int) config.UpdateStrategy { return config.UpdateStrategy(w.script.Strategies[i]) }
	cfg := config.Operator{
		Name: operatorName, Parent: parentType(), MaxErrorBackoff: maxBackoff, FormerFinalizers: []string{former},
		Children: []config.Child{
			{Type: k8s.ConfigMap, Strategy: strategy(0), Adopt: w.script.is(withAdoption)},
			{Type: k8s.Secret, Strategy: strategy(1)},
			{Type: partType(), Strategy: strategy(2), Roll: w.script.roll()},
		},
		ReadyCondition: w.script.is(withReadiness) || w.script.is(conditions),
	}
	for i := range cfg.Children {
		cfg.Children[i].DeleteFirst = w.script.is(deleteFirst)
	}
	if w.script.is(dense) {
		cfg.MaxErrorBackoff = denseBackoff
	}
	if w.script.is(oneAtATime) {
		cfg.MaxConcurrentSyncs = 1
	}
	if w.script.is(withTeardown) {
		cfg.Teardown = config.TeardownOrdered
	}
	if w.script.is(withRelated) {
		cfg.Related = relatedConfig()
	}
	if w.script.is(inNamespaces) {
		cfg.Namespaces = []string{"ns", "ns2"}
	}
	if w.script.is(withSelector) {
		cfg.ParentSelector = aside + "!=true"
	}
	return cfg
}

// replica runs one process after the other.
func (w *world) replica(ctx context.Context, name string) {
	for n := 1; ctx.Err() == nil; n++ {
		pctx, cancel := context.WithCancel(ctx)
		p := w.newProcess(fmt.Sprintf("%s.%d", name, n), cancel)
		w.mu.Lock()
		w.mu.processes[name] = p
		w.mu.Unlock()
		w.Note("%s starts", p.Name)
		ended := make(chan struct{})
		go p.checkStop(pctx, ended)
		err := p.work(pctx, w.script.is(withShards) && (!w.script.is(dividing) || n > 1 || name != "replica-0"))
		close(ended)
		told := pctx.Err() != nil
		cancel()
		p.Kill()
		w.Note("%s ended: %v", p.Name, err)
		if restored := (*revision.RestoredError)(nil); errors.As(err, &restored) {
			w.count(sawRestore)
			if p.since == w.lost.Load() {
				w.Violated("%s ended, though nothing was restored since it began: %v", p.Name, err)
			}
		}
		if err != nil && !told && w.script.is(dense) && w.restores.Load() == 0 { // a lease may go back with a restore
			w.Violated("%s ended: %v", p.Name, err)
		}
		if told && w.script.is(dense) {
			continue // at once
		}
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Second):
		}
	}
}

func (w *world) newProcess(name string, stop context.CancelFunc) *process {
	p := &process{world: w, Process: faults.NewProcess(name, stop), witness: w.past.Witness(), since: w.lost.Load()}
	p.link = p.connect()
	p.mu.passes = map[string]*pass{}
	p.mu.deleting = map[types.UID]struct{}{}
	p.mu.told, p.mu.deleted, p.mu.syncing = map[string]seen{}, map[types.UID]struct{}{}, map[types.UID]struct{}{}
	p.mu.watches = map[past.Ref]int{}
	p.mu.finalized, p.mu.anew, p.mu.unsure = map[types.UID]struct{}{}, map[string]struct{}{}, map[string]struct{}{}
	p.mu.shown, p.mu.lists = map[types.UID]struct{}{}, map[string]int{}
	return p
}

// work runs the operator of a process until ctx ends.
func (p *process) work(ctx context.Context, divides bool) error {
	rc := p.server.RESTConfig()
	rc.Transport = p
	opts := manager.Options{RESTConfig: rc, ShutdownTimeout: 5 * time.Second, Logger: slog.New(slog.DiscardHandler), Jitter: p.script.jitter()}
	if p.verbose {
		opts.Logger = slog.New(slog.NewTextHandler(p.world, &slog.HandlerOptions{Level: slog.LevelDebug})).With("replica", p.Name)
	}
	if p.script.Replicas > 1 {
		opts.LeaderElection = &lead.Config{Namespace: "ns", Name: "lease", Identity: p.Name}
		if p.script.is(dense) {
			opts.LeaderElection.RetryPeriod = 4 * time.Second
		}
	}
	if divides {
		opts.Shards = shards
	}
	m, err := manager.New(opts, manager.Spec{Config: p.config(), Handler: p.world.handler(p)})
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.mu.manager = m
	p.mu.Unlock()
	return m.Start(ctx)
}

// restartRestored kills the processes that still run since before a restore: the revisions have overtaken what
// they knew. So Kubernetes advises to restart every controller.
func (w *world) restartRestored() {
	w.mu.Lock()
	running := slices.Collect(maps.Values(w.mu.processes))
	w.mu.Unlock()
	for _, p := range running {
		if p.since < w.lost.Load() && !p.Killed() {
			w.Note("%s is restarted after the restore", p.Name)
			w.count(sawOvertaken)
			p.Kill()
		}
	}
}

// process returns the one of a replica that runs, nil if none has begun.
func (w *world) process(name string) *faults.Process {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.mu.processes[name]; p != nil {
		return p.Process
	}
	return nil
}
