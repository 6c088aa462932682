package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/journal"
	"github.com/roperator/roperator/internal/engine/lead"
	"github.com/roperator/roperator/internal/engine/observe"
	"github.com/roperator/roperator/internal/engine/reconcile"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/engine/shard"
	"github.com/roperator/roperator/resource/k8s"
)

// Replicas may share the parents: each shard of them has engines of its own, in the process
// that holds the shard's Lease. They are made when the shard is taken, and are closed when
// it is given up, so that nothing of what they know outlives the Lease.

// checkShards returns what is wrong with Options.Shards, and fills in the election.
func (m *Manager) checkShards() error {
	switch {
	case m.opts.Shards == 0:
		return nil
	case m.opts.Elected != nil:
		return errors.New("runner: Options: Sharding and Elected are both set; shards have an election of their own")
	case m.opts.TakeOver != "":
		return errors.New("runner: Options: Sharding: a process that takes a lease over has all parents; leave it out")
	case m.opts.LeaderElection == nil:
		m.opts.LeaderElection = &lead.Config{}
	}
	if err := shard.Validate(m.opts.Shards); err != nil {
		return fmt.Errorf("runner: Options: Sharding: Shards: %w", err)
	}
	if name := m.opts.LeaderElection.WithDefaults(m.operators[0].cfg.Name).Name; len(name) > maxLeaseName {
		return fmt.Errorf("runner: Options: LeaderElection: Name: it has %d characters; with Sharding it may have %d, since the Leases of replicas begin with it", len(name), maxLeaseName)
	}
	return nil
}

// maxLeaseName is how long the name of the Lease may be: those of replicas are longer by "-member-" and
// sixteen more characters.
const maxLeaseName = validation.DNS1123SubdomainMaxLength - 24

// divided runs the operators of those shards that this process holds, until ctx ends. It
// returns an error that ends them before.
func (m *Manager) divided(outer context.Context, l *client.Link) error {
	ctx, stop := context.WithCancelCause(outer)
	defer stop(nil)
	settings := m.opts.LeaderElection.WithDefaults(m.operators[0].cfg.Name)
	members, err := lead.NewMembers(settings, m.opts.Shards, l.Config, func() *http.Client { return l.As(settings.Name, nil) }, m.log)
	if err != nil {
		return err
	}
	members.Compare(l.Storage.Of(k8s.Lease.APIVersion, k8s.Lease.Kind))
	m.mu.Lock()
	m.mu.members = members
	m.mu.Unlock()
	if err := m.tryConfigured(ctx, l, settings.Namespace); err != nil || ctx.Err() != nil {
		return err
	}
	m.tellOpenMetrics(ctx)
	for _, o := range m.operators {
		unregister, err := observe.RegisterShards(o.opts.Metrics, o.cfg.Name, m.opts.Shards)
		if err != nil {
			return err
		}
		defer unregister()
	}
	journals := map[string]*journal.Journal{}
	slots := map[string]*schedule.Slots{}
	for _, o := range m.operators {
		slots[o.cfg.Name] = schedule.NewSlots(o.cfg.MaxConcurrentSyncs)
		if m.opts.keepsJournal() {
			journals[o.cfg.Name] = journal.New()
		}
	}
	err = members.Run(ctx, stop, func(ctx, passes context.Context, index int, held interface{ Held() bool }) error {
		var operators []*operator
		for _, o := range m.operators {
			operators = append(operators, o.of(shard.Shard{Index: index, Of: m.opts.Shards}, slots[o.cfg.Name], journals[o.cfg.Name]))
		}
		return m.shard(ctx, passes, l.Under(held), operators)
	})
	if cause := context.Cause(ctx); err == nil && outer.Err() == nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// tryConfigured finds out, once, whether the operators can work: their types are served, and
// they have the rights that they need.
func (m *Manager) tryConfigured(ctx context.Context, l *client.Link, namespace string) error {
	var apart []*operator // whose metrics nobody reads: a registry remembers for ever which labels metrics have
	for _, o := range m.operators {
		opts := *o.opts
		opts.Metrics = observe.NewRegistry(nil)
		apart = append(apart, &operator{cfg: o.cfg, handler: o.handler, opts: &opts, log: o.log})
	}
	engines, err := newEngines(ctx, l.Under(readOnly{}), apart)
	defer closeAll(engines)
	if err != nil || engines == nil {
		return err
	}
	return m.checkRights(ctx, l, engines, catalog.ShardRights(namespace))
}

// shard runs the operators of one shard until ctx ends, and cuts the running passes short
// when passes ends. The Lease of the shard, by which l writes, is held. An error ends the
// process: that something still runs, or that a right is missing.
func (m *Manager) shard(ctx, passes context.Context, l *client.Link, operators []*operator) error {
	defer func() {
		for _, o := range operators {
			o.unregister()
		}
	}()
	index := operators[0].shard.Index
	m.setShard(index, operators)
	defer m.setShard(index, nil)
	engines := m.connected(ctx, l, operators)
	defer closeAll(engines)
	if engines == nil {
		return nil // the shard is given up already
	}
	// The Lease was held before the first list is asked for: no other replica writes, and the
	// list has all that one has written.
	return m.run(ctx, operators, engines, false, func(ctx context.Context, _ func(error), work passesUntil) error { return work(ctx, passes, nil) })
}

// connected returns engines for operators of which this process has had engines before, as of
// other shards. What fails is tried again every second until ctx ends. Then it returns nil. The
// log has each new text of an error.
func (m *Manager) connected(ctx context.Context, l *client.Link, operators []*operator) []*reconcile.Engine {
	said := ""
	for {
		engines, err := newEngines(ctx, l, operators)
		if err == nil {
			return engines
		}
		closeAll(engines)
		for _, o := range operators {
			o.unregister()
		}
		if text := err.Error(); text != said && ctx.Err() == nil {
			said = text
			operators[0].log.WarnContext(ctx, "can't begin yet, retrying", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// setShard notes the operators of a shard that this process holds; nil: it doesn't any more.
func (m *Manager) setShard(index int, operators []*operator) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.shards == nil {
		m.mu.shards = map[int][]*operator{}
	}
	if m.mu.shards[index] = operators; operators == nil {
		delete(m.mu.shards, index)
	}
}

// running returns the operators of this process: as configured, or, where replicas share the
// parents, each as often as the process holds shards.
func (m *Manager) running() []*operator {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.members == nil {
		return m.operators
	}
	var out []*operator
	for index := range m.opts.Shards {
		out = append(out, m.mu.shards[index]...)
	}
	return out
}

// sharing returns the members that share the parents, nil if the parents aren't divided, or nothing
// has started yet.
func (m *Manager) sharing() *lead.Members {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.members
}

// partsOf returns an operator as often as it runs in this process: once for each of its shards, or
// once; not at all if it doesn't run.
func (m *Manager) partsOf(o *operator) []*operator {
	var out []*operator
	for _, each := range m.running() {
		if each.cfg.Name == o.cfg.Name && each.begun() != nil {
			out = append(out, each)
		}
	}
	return out
}

// engineOf returns the engine of an operator that holds a parent, else any of its engines, nil
// if none runs.
func (m *Manager) engineOf(o *operator, parent types.NamespacedName) *reconcile.Engine {
	var out *reconcile.Engine
	for _, each := range m.partsOf(o) {
		e := each.begun()
		if e == nil {
			continue // it has ended since
		}
		if _, holds := e.Observed(o.cfg.Parent, parent); holds {
			return e
		}
		if out == nil {
			out = e
		}
	}
	return out
}

// of returns the operator for the parents of a shard. slots bound the reconciliations of
// all its shards in this process, whose journal is kept; nil: there is none.
func (o *operator) of(s shard.Shard, slots *schedule.Slots, kept *journal.Journal) *operator {
	return &operator{
		cfg: o.cfg, handler: o.handler, opts: o.opts, log: o.log.With("shard", s.Index), departedWithin: o.departedWithin, tap: o.tap,
		shard: s, taken: time.Now(), slots: slots, kept: kept,
	}
}

// discover asks the API server how it serves the types of the operator. A process whose operators work
// already takes a shard also while a type of children isn't served: that is followed, as for the
// shards that it has.
func (o *operator) discover(ctx context.Context, finder *catalog.Finder) (*catalog.Catalog, error) {
	if !o.shard.Divides() {
		return finder.Discover(ctx, o.cfg)
	}
	lenient := o.cfg
	lenient.Children = slices.Clone(o.cfg.Children)
	for i := range lenient.Children {
		lenient.Children[i].Optional = true
	}
	types, err := finder.Discover(ctx, lenient)
	if err != nil {
		return nil, err
	}
	for _, k := range types.Children {
		k.Child.Optional = o.cfg.Children[slices.IndexFunc(o.cfg.Children, func(c config.Child) bool { return c.Type == k.Type })].Optional
	}
	return types, nil
}

// name returns the operator's name, with the number of its shard if it has one.
func (o *operator) name() string {
	if !o.shard.Divides() {
		return o.cfg.Name
	}
	return o.cfg.Name + "/shard-" + o.shard.String()
}

// shardName returns the name of the shard, "" if the parents aren't divided.
func (o *operator) shardName() string {
	if !o.shard.Divides() {
		return ""
	}
	return o.shard.String()
}

// parentMetrics is of how many parents there are metrics at most: as many as are the shard's
// of those that the operator may have.
func (o *operator) parentMetrics() int {
	if n := o.shard.Of; n > 1 {
		return (o.opts.ParentMetrics + n - 1) / n
	}
	return o.opts.ParentMetrics
}
