package catalog

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/resource"
)

// A Catalog holds every type that an operator watches. It is immutable: once a
// schema is read or has changed, WithSchemas makes another one, and so do Settings.With and
// WithRelated when a type comes or goes.
type Catalog struct {
	Parent   *Kind   // the type of the parents
	Children []*Kind // the types of the children, in the order in which a pass writes them
	Related  []*Kind // the related types, in the order of the configuration; Of doesn't know them
	Former   []*Kind // those types of config.Operator.FormerChildren that were served at the start; Of doesn't know them

	byType map[resource.Type]*Kind // Parent and Children
}

// All returns the type of the parents, and then those of the children. The
// caller may change the list.
func (c *Catalog) All() []*Kind { return append([]*Kind{c.Parent}, c.Children...) }

// Of returns the Kind of a type, nil if the operator doesn't watch that type.
func (c *Catalog) Of(t resource.Type) *Kind { return c.byType[t] }

// Custom returns the types of children that are served and aren't built in. Their
// schemas are those that the API server publishes.
func (c *Catalog) Custom() []resource.Type {
	var out []resource.Type
	for _, k := range c.Children {
		if k.Builtin == nil && !k.Unserved {
			out = append(out, k.Type)
		}
	}
	return out
}

// WithSchemas returns the catalog with these schemas. A type whose schema differs
// has a new Kind in it, and the types among pending count as ones whose schema has
// yet to be read. All other Kinds are those of c. It returns c itself if nothing
// changes.
func (c *Catalog) WithSchemas(schemas map[resource.Type]Schema, pending ...resource.Type) *Catalog {
	out := &Catalog{Parent: c.Parent, Related: c.Related, Former: c.Former, byType: maps.Clone(c.byType)}
	changed := false
	for _, k := range c.Children {
		now := k
		if k.Unserved {
			out.Children = append(out.Children, k)
			continue
		}
		if s, ok := schemas[k.Type]; ok {
			now = k.with(s)
		} else if slices.Contains(pending, k.Type) && k.Builtin == nil {
			now = k.pending()
		}
		changed = changed || now != k
		out.Children = append(out.Children, now)
		out.byType[k.Type] = now
	}
	if !changed {
		return c
	}
	return out
}

// sort puts the types of the children into the order in which a pass writes
// them. That is the order of the configuration, but with Namespaces first:
// other children may have to live in them.
func (c *Catalog) sort() {
	slices.SortStableFunc(c.Children, func(a, b *Kind) int {
		switch {
		case a.IsNamespace() == b.IsNamespace():
			return 0
		case a.IsNamespace():
			return -1
		}
		return 1
	})
	for i, k := range c.Children {
		k.Order = i
	}
}

// newCatalog makes a catalog of the types of cfg. It calls find for each of
// them, and stops at the first error. A type for which find returns nil isn't
// served. One error names all types that aren't and should be. all returns every type that
// is served; it is called, once, only if one of cfg isn't.
func newCatalog(cfg config.Operator, find func(t resource.Type) (*Kind, error), all func() []resource.Type) (*Catalog, error) {
	l := lookup{find: find, all: sync.OnceValue(all)}
	c := &Catalog{byType: map[resource.Type]*Kind{}}
	c.Parent = l.kind(cfg.Parent, false)
	for _, child := range cfg.Children {
		if k := l.kind(child.Type, child.Optional); k != nil {
			k.Child = child
			c.Children = append(c.Children, k)
		}
	}
	for _, related := range cfg.Related {
		if k := l.kind(related.Type, related.Optional); k != nil {
			k.Everywhere = related.AnyNamespace || !k.Namespaced
			c.Related = append(c.Related, k)
		}
	}
	for _, t := range cfg.FormerChildren {
		if k := l.kind(t, true); k != nil && !k.Unserved {
			c.Former = append(c.Former, k)
		}
	}
	if err := l.failed(); err != nil {
		return nil, err
	}
	c.Parent.Child = config.Child{Type: cfg.Parent}
	for _, k := range c.All() {
		c.byType[k.Type] = k
	}
	if err := checkScope(cfg, c.Parent.Namespaced); err != nil {
		return nil, err
	}
	for i, k := range c.Related {
		if err := checkRelated(cfg, i, k, c.Parent); err != nil {
			return nil, err
		}
	}
	c.sort()
	return c, nil
}

// A lookup looks types up. After the first error it looks no further.
type lookup struct {
	find    func(t resource.Type) (*Kind, error) // nil without an error: the type isn't served
	all     func() []resource.Type               // every type that is served
	err     error
	missing []resource.Type // which aren't served and should be
}

// kind returns a new Kind of a type, nil if that failed. One that isn't served is Unserved if it is
// optional, otherwise missing.
func (l *lookup) kind(t resource.Type, optional bool) *Kind {
	if l.err != nil {
		return nil
	}
	k, err := l.find(t)
	switch {
	case err != nil:
		l.err = err
	case k == nil && optional:
		return &Kind{Type: t, Unserved: true, Similar: similarOfGroup(t, l.all())}
	case k == nil && !slices.Contains(l.missing, t):
		l.missing = append(l.missing, t)
	}
	return k
}

// failed returns why the types can't be watched, nil if they can.
func (l *lookup) failed() error {
	if l.err != nil || len(l.missing) == 0 {
		return l.err
	}
	var errs []error
	for _, t := range l.missing {
		errs = append(errs, NotServed(t, SimilarTo(t, l.all())...))
	}
	return apierror.Join(errs)
}

// checkRelated returns an error if a name in a field of a parent wouldn't say which object of
// k is meant, the related type at this index.
func checkRelated(cfg config.Operator, i int, k, parent *Kind) error {
	if len(cfg.Related[i].Fields) == 0 || !k.Namespaced || parent.Namespaced {
		return nil
	}
	return fmt.Errorf("config: Related[%d].Fields: %s is cluster-scoped, so a name alone doesn't say which %s is meant; say it by a handler.Relater", i, cfg.Parent, k.Type.Kind)
}

// checkScope returns an error if cfg restricts the operator to namespaces and
// the parents are cluster-scoped. namespaced says whether the parents live in
// namespaces.
func checkScope(cfg config.Operator, namespaced bool) error {
	if namespaced || len(cfg.Namespaces) == 0 {
		return nil
	}
	return fmt.Errorf("config: Namespaces: %s is cluster-scoped, so the operator can't be restricted to namespaces; use ParentSelector", cfg.Parent)
}
