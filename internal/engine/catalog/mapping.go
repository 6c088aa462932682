package catalog

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// MappingOf says how a type is served where no API server can be asked. The
// answer is that of cfg.Mappings, else that of the built-in kind of this type.
// Any other type is guessed to live in namespaces and to have the usual plural.
func MappingOf(cfg config.Operator, t resource.Type) (m resource.Mapping, guessed bool) {
	for _, known := range [][]resource.Mapping{cfg.Mappings, k8s.Mappings()} {
		if i := slices.IndexFunc(known, func(m resource.Mapping) bool { return m.Type == t }); i >= 0 {
			return known[i], false
		}
	}
	plural, _ := meta.UnsafeGuessKindToResource(t.GroupVersionKind())
	return resource.Mapping{Type: t, Plural: plural.Resource}, true
}

// Offline returns what discovery would find, as far as it is known without an
// API server. Lists of custom resources are compared by their shape, and every
// type is taken to have a status subresource.
func Offline(cfg config.Operator) (*Catalog, error) {
	c, err := newCatalog(cfg, func(t resource.Type) (*Kind, error) {
		m, _ := MappingOf(cfg, t)
		return &Kind{
			Type: t, Namespaced: !m.ClusterScoped, HasStatus: true, Builtin: listkeys.For(t),
			GVR: t.GroupVersionKind().GroupVersion().WithResource(m.Plural),
		}, nil
	})
	if err != nil {
		return nil, err
	}
	for _, k := range c.Children {
		if err := k.compareAs(k.Builtin); err != nil {
			return nil, err
		}
	}
	return c, nil
}
