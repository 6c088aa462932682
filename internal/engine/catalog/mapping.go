package catalog

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// MappingOf says how a type is served, without asking an API server. cfg.Mappings
// comes first, then the list of built-in kinds. For any other type the answer is
// a guess: a namespaced type with the usual plural.
func MappingOf(cfg config.Operator, t resource.Type) (m resource.Mapping, guessed bool) {
	for _, known := range [][]resource.Mapping{cfg.Mappings, k8s.Mappings()} {
		if i := slices.IndexFunc(known, func(m resource.Mapping) bool { return m.Type == t }); i >= 0 {
			return known[i], false
		}
	}
	plural, _ := meta.UnsafeGuessKindToResource(t.GroupVersionKind())
	return resource.Mapping{Type: t, Plural: plural.Resource}, true
}

// Offline returns a catalog of the types of cfg without asking an API server: see
// MappingOf. Lists in custom resources are compared by their shape, since no
// schema is known, and every type counts as one with a status subresource.
func Offline(cfg config.Operator) (*Catalog, error) {
	c, err := newCatalog(cfg, func(t resource.Type) (*Kind, error) {
		m, _ := MappingOf(cfg, t)
		return &Kind{
			Type: t, Namespaced: !m.ClusterScoped, HasStatus: true,
			GVR: t.GroupVersionKind().GroupVersion().WithResource(m.Plural),
		}, nil
	}, func() []resource.Type { return nil })
	if err != nil {
		return nil, err
	}
	for _, k := range c.Children {
		if err := k.compareBy(listkeys.For(k.Type)); err != nil {
			return nil, err
		}
	}
	return c, nil
}
