package catalog

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/resource"
)

// Types come and go: a CustomResourceDefinition is installed after the operator has
// started, is removed, and is installed again.

// Served returns the Kind of a type of children that is served as found says. The schema of
// a type that isn't built in is pending then. The error says why its objects can't be
// children.
func (s *Settings) Served(found *Kind) (*Kind, error) {
	k, before := *found, s.Types.Of(found.Type)
	k.Child, k.Order, k.schema = before.Child, before.Order, before.schema
	if err := k.compareBy(listkeys.For(k.Type)); err != nil {
		return nil, err
	}
	k.Comparison.Pending = k.Builtin == nil
	return &k, checkStorage(s.Types.with(&k))
}

// ServedRelated returns the Kind of a related type that is served as found says. The error
// says why parents can't refer to its objects.
func (s *Settings) ServedRelated(found *Kind) (*Kind, error) {
	k, at := *found, s.Types.relatedAt(found.Type)
	k.Everywhere = s.Config.Related[at].AnyNamespace || !k.Namespaced
	return &k, checkRelated(s.Config, at, &k, s.Types.Parent)
}

// ServedAs says whether two Kinds of one type are served alike.
func (k *Kind) ServedAs(other *Kind) bool {
	return k.Unserved == other.Unserved && k.GVR == other.GVR && k.Namespaced == other.Namespaced
}

// Gone returns the Kind of the type while the API server doesn't serve it. similar are the
// types that it serves instead: see SimilarTo.
func (k *Kind) Gone(similar []resource.Type) *Kind {
	before := k
	if k.Unserved {
		before = k.before
	}
	return &Kind{Type: k.Type, Child: k.Child, Order: k.Order, schema: k.schema, Unserved: true, Similar: similar, before: before}
}

// Presumed returns the Kind of a type that isn't served as the API server probably serves it: as it did before, or
// as a mapping says, or by the rule for names.
func (s *Settings) Presumed(k *Kind) *Kind {
	presumed := *k
	if k.before != nil {
		presumed.GVR, presumed.Namespaced = k.before.GVR, k.before.Namespaced
		return &presumed
	}
	presumed.GVR, _ = meta.UnsafeGuessKindToResource(k.Type.GroupVersionKind())
	presumed.Namespaced = true
	for _, m := range s.Config.Mappings {
		if m.Type == k.Type {
			presumed.GVR.Resource, presumed.Namespaced = m.Plural, !m.ClusterScoped
		}
	}
	return &presumed
}

// With returns the settings with another Kind of a type of children.
func (s *Settings) With(k *Kind) *Settings { return s.WithTypes(s.Types.with(k)) }

// WithRelated returns the settings with another Kind of a related type.
func (s *Settings) WithRelated(k *Kind) *Settings {
	out := *s.Types
	out.Related = slices.Clone(out.Related)
	out.Related[out.relatedAt(k.Type)] = k
	return s.WithTypes(&out)
}

// RelatedTo returns the Kind of a related type, nil if the type isn't one.
func (c *Catalog) RelatedTo(t resource.Type) *Kind {
	if at := c.relatedAt(t); at >= 0 {
		return c.Related[at]
	}
	return nil
}

func (c *Catalog) relatedAt(t resource.Type) int {
	return slices.IndexFunc(c.Related, func(k *Kind) bool { return k.Type == t })
}

// with returns the catalog with another Kind of a type of children.
func (c *Catalog) with(k *Kind) *Catalog {
	out := *c
	out.Children, out.byType = slices.Clone(c.Children), maps.Clone(c.byType)
	out.Children[k.Order], out.byType[k.Type] = k, k
	return &out
}
