package reconcile

import (
	"context"
	"slices"

	"github.com/roperator/roperator/internal/apierror"
)

// Warnings about what looks like a mistake in the configuration and keeps no operator from starting.

// WarnNoStatus logs a warning if the parent's type has no status subresource.
func (e *Engine) WarnNoStatus() {
	if !e.Types.Parent.HasStatus {
		e.log.Warn("parent type has no status subresource: a handler that returns a status will fail", "type", e.Types.Parent.Type.String())
	}
}

// WarnUnowned logs a warning of each child type of which no parent can have children: a
// cluster-scoped one, if parents have namespaces.
func (e *Engine) WarnUnowned() {
	if !e.Types.Parent.Namespaced {
		return
	}
	for _, k := range e.Types.Children {
		if !k.Namespaced && !k.Unserved {
			e.log.Warn("child type is cluster-scoped, and a parent in a namespace can't own it: a response with such a child will be refused; remove the type from config.Operator.Children, or make the parent cluster-scoped",
				"type", k.Type.String(), "parent", e.Types.Parent.Type.String())
		}
	}
}

// WarnMissingNamespaces logs which of the namespaces to which the operator is restricted
// don't exist: a name may be misspelt. Nothing else depends on it, since a namespace may be
// created later. It is called once the parents are listed: a namespace that has a parent
// exists, and only the others are asked for.
func (e *Engine) WarnMissingNamespaces(ctx context.Context) {
	if len(e.Config.Namespaces) == 0 {
		return
	}
	known := e.store.ParentNamespaces()
	doubtful := slices.DeleteFunc(slices.Clone(e.Config.Namespaces), func(name string) bool {
		_, ok := known[name]
		return ok
	})
	missing, err := e.client.MissingNamespaces(ctx, doubtful)
	if err != nil && ctx.Err() == nil {
		e.log.DebugContext(ctx, "can't find out whether the namespaces exist", "error", err)
	}
	if len(missing) == 0 {
		return
	}
	args := []any{"namespaces", missing[:min(len(missing), apierror.MaxListed)]}
	if more := len(missing) - apierror.MaxListed; more > 0 {
		args = append(args, "more", more)
	}
	e.log.WarnContext(ctx, "the operator is restricted to namespaces that don't exist: it does nothing there until somebody creates them", args...)
}
