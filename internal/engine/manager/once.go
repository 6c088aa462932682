package manager

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/engine/client"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/reconcile"
)

// Plan returns what the first operator would change if it ran now, as runner.Plan
// says. The operator's configuration must have DryRun set.
func (m *Manager) Plan(ctx context.Context) ([]plan.Change, error) {
	return m.once(ctx, (*reconcile.Engine).PlanAll)
}

// PlanFor is Plan for these parents as they would be, as runner.PlanFor says.
func (m *Manager) PlanFor(ctx context.Context, edited []plan.Edited) ([]plan.Change, error) {
	return m.once(ctx, func(e *reconcile.Engine, ctx context.Context) ([]plan.Change, error) { return e.PlanFor(ctx, edited) })
}

// once has the first operator's engine plan.
func (m *Manager) once(ctx context.Context, do func(*reconcile.Engine, context.Context) ([]plan.Change, error)) ([]plan.Change, error) {
	l, err := client.Connect(m.opts.RESTConfig, m.log)
	if err != nil {
		return nil, err
	}
	e, err := m.operators[0].connect(ctx, l)
	defer m.operators[0].unregister()
	switch {
	case err != nil:
		return nil, err
	case e == nil:
		return nil, fmt.Errorf("plan: %w", context.Cause(ctx))
	}
	defer e.Close()
	return do(e, ctx)
}

// Release takes the first operator's finalizers off every parent, unless the
// configuration has DryRun set. It calls say with one line for each parent that
// had such a finalizer, and returns how many parents there are. A parent that
// fails doesn't keep the others from being released: the error joins what went
// wrong.
func (m *Manager) Release(ctx context.Context, say func(text string)) (parents int, err error) {
	l, err := client.Connect(m.opts.RESTConfig, m.log)
	if err != nil {
		return 0, err
	}
	o := m.operators[0]
	e, err := o.connectForRelease(ctx, l)
	if err != nil {
		return 0, err
	}
	namespaces := o.cfg.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	var errs []error
	for _, namespace := range namespaces {
		seen, err := e.ReleaseAll(ctx, namespace, say)
		parents += seen
		errs = append(errs, err)
	}
	return parents, errors.Join(errs...)
}

// connectForRelease makes an engine that can only release parents. It asks the API
// server for the type of the parents alone, since the types of the children may no
// longer be served.
func (o *operator) connectForRelease(ctx context.Context, l *client.Link) (*reconcile.Engine, error) {
	httpClient := l.As(o.cfg.Name, nil)
	c, err := client.New(l, httpClient, o.cfg.Name, nil, o.log)
	if err != nil {
		return nil, err
	}
	finder, err := catalog.NewFinder(l.Config, httpClient)
	if err != nil {
		return nil, err
	}
	types, err := finder.DiscoverParent(ctx, o.cfg)
	if err != nil {
		return nil, err
	}
	return reconcile.New(reconcile.Config{Settings: catalog.NewSettings(o.cfg, o.handler, types), Handler: o.handler, Client: c, Log: o.log}), nil
}
