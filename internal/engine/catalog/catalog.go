package catalog

import (
	"fmt"
	"slices"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/resource"
)

// A Catalog is every type of an operator. It is immutable once it is made.
type Catalog struct {
	Parent   *Kind
	Children []*Kind // in the order in which they are written

	byType map[resource.Type]*Kind
}

// All returns the parent's type and those of the children.
func (c *Catalog) All() []*Kind { return append([]*Kind{c.Parent}, c.Children...) }

// Of returns what is known of a type, nil if the operator doesn't watch it.
func (c *Catalog) Of(t resource.Type) *Kind { return c.byType[t] }

// ChildKind returns what is known of a type of children, nil if it isn't one.
func (c *Catalog) ChildKind(t resource.Type) *Kind {
	if k := c.byType[t]; k != c.Parent {
		return k
	}
	return nil
}

// sort puts the types of children into the order in which they are written:
// that of the configuration, but Namespaces first, since other children may
// have to live in them.
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

// newCatalog makes a catalog of the types of cfg, each of which find looks up.
// It stops at the first error of find; a type for which find returns nil is
// missing, and all of these are joined into one error.
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
	if len(missing) > 0 {
		return nil, apierror.Join(missing)
	}
	if err := CheckScope(cfg, c.Parent.Namespaced); err != nil {
		return nil, err
	}
	c.sort()
	return c, nil
}

// CheckScope returns an error if an operator is restricted to namespaces though
// its parents don't live in any.
func CheckScope(cfg config.Operator, namespaced bool) error {
	if namespaced || len(cfg.Namespaces) == 0 {
		return nil
	}
	return fmt.Errorf("config: Namespaces: %s is cluster-scoped, so the operator can't be restricted to namespaces; use ParentSelector", cfg.Parent)
}
