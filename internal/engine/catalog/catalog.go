package catalog

import (
	"fmt"
	"maps"
	"slices"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/resource"
)

// A Catalog holds every type that an operator watches. It is immutable: once a
// schema is read or has changed, WithSchemas makes another one.
type Catalog struct {
	Parent   *Kind   // the type of the parents
	Children []*Kind // the types of the children, in the order in which a pass writes them
	Related  []*Kind // the related types, in the order of the configuration; Of doesn't know them

	byType map[resource.Type]*Kind // Parent and Children
}

// All returns the type of the parents, and then those of the children. The
// caller may change the list.
func (c *Catalog) All() []*Kind { return append([]*Kind{c.Parent}, c.Children...) }

// Of returns the Kind of a type, nil if the operator doesn't watch that type.
func (c *Catalog) Of(t resource.Type) *Kind { return c.byType[t] }

// Custom returns the types of children that aren't built in, whose schemas are
// those that the API server publishes.
func (c *Catalog) Custom() []resource.Type {
	var out []resource.Type
	for _, k := range c.Children {
		if k.Builtin == nil {
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
	out := &Catalog{Parent: c.Parent, Related: c.Related, byType: maps.Clone(c.byType)}
	changed := false
	for _, k := range c.Children {
		now := k
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
// served. One error names all types that aren't.
func newCatalog(cfg config.Operator, find func(t resource.Type) (*Kind, error)) (*Catalog, error) {
	c := &Catalog{byType: map[resource.Type]*Kind{}}
	var missing []error
	for i, child := range append([]config.Child{{Type: cfg.Parent}}, cfg.Children...) {
		k, err := find(child.Type)
		switch {
		case err != nil:
			return nil, err
		case k == nil:
			missing = append(missing, notServed(child.Type))
			continue
		}
		k.Child = child
		c.byType[child.Type] = k
		if i == 0 {
			c.Parent = k
		} else {
			c.Children = append(c.Children, k)
		}
	}
	for _, related := range cfg.Related {
		k, err := find(related.Type)
		switch {
		case err != nil:
			return nil, err
		case k == nil && !slices.ContainsFunc(cfg.Children, func(child config.Child) bool { return child.Type == related.Type }):
			missing = append(missing, notServed(related.Type))
		}
		if k != nil {
			k.Everywhere = related.AnyNamespace || !k.Namespaced
		}
		c.Related = append(c.Related, k)
	}
	if len(missing) > 0 {
		return nil, apierror.Join(missing)
	}
	if err := CheckScope(cfg, c.Parent.Namespaced); err != nil {
		return nil, err
	}
	if err := c.checkRelated(cfg); err != nil {
		return nil, err
	}
	c.sort()
	return c, nil
}

// checkRelated returns an error if a name in a field of a parent wouldn't say which object is
// meant.
func (c *Catalog) checkRelated(cfg config.Operator) error {
	for i, related := range cfg.Related {
		if len(related.Fields) > 0 && c.Related[i].Namespaced && !c.Parent.Namespaced {
			return fmt.Errorf("config: Related[%d].Fields: %s is cluster-scoped, so a name alone doesn't say which %s is meant; say it by a handler.Relater", i, cfg.Parent, related.Type.Kind)
		}
	}
	return nil
}

// CheckScope returns an error if cfg restricts the operator to namespaces and
// the parents are cluster-scoped. namespaced says whether the parents live in
// namespaces.
func CheckScope(cfg config.Operator, namespaced bool) error {
	if namespaced || len(cfg.Namespaces) == 0 {
		return nil
	}
	return fmt.Errorf("config: Namespaces: %s is cluster-scoped, so the operator can't be restricted to namespaces; use ParentSelector", cfg.Parent)
}
