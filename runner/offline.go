package runner

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// offlineMapping says how a type is served where no API server can be asked:
// as cfg.Mappings says, else as the built-in kind of this type is, else guessed
// from the kind, which is then taken for namespaced.
func offlineMapping(cfg config.Operator, t resource.Type) (m resource.Mapping, guessed bool) {
	for _, known := range [][]resource.Mapping{cfg.Mappings, k8s.Mappings()} {
		if i := slices.IndexFunc(known, func(m resource.Mapping) bool { return m.Type == t }); i >= 0 {
			return known[i], false
		}
	}
	plural, _ := meta.UnsafeGuessKindToResource(t.GroupVersionKind())
	return resource.Mapping{Type: t, Plural: plural.Resource}, true
}
