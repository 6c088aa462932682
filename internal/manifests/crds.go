package manifests

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/crd"
	"github.com/roperator/roperator/internal/defaults"
	"github.com/roperator/roperator/resource"
)

// A definition is a CustomResourceDefinition of the operators.
type definition struct {
	*crd.Definition

	text []byte // YAML
}

// definitionsOf returns the CustomResourceDefinitions of operators, each once. Two of one
// name must be the same.
func definitionsOf(operators []config.Operator) ([]definition, error) {
	var out []definition
	var errs []error
	for _, cfg := range operators {
		for i, text := range cfg.CRDs {
			read, err := crd.Parse(text)
			if err != nil {
				errs = append(errs, fmt.Errorf("config: %s: CRDs[%d]: %w", cfg.Name, i, err))
			}
			for _, d := range read {
				same := slices.IndexFunc(out, func(other definition) bool { return other.Name == d.Name })
				switch {
				case same < 0:
					text, err := yaml.Marshal(d.Object())
					errs = append(errs, err)
					out = append(out, definition{d, text})
				case out[same].Digest() != d.Digest():
					errs = append(errs, fmt.Errorf("config: %s: CRDs[%d]: CustomResourceDefinition %s: another operator has one of this name that differs; keep one of them", cfg.Name, i, d.Name))
				}
			}
		}
	}
	return out, errors.Join(errs...)
}

// mappings returns how the versions of a definition are served.
func (d *definition) mappings() []resource.Mapping {
	var out []resource.Mapping
	for _, v := range d.Versions {
		t := resource.Type{APIVersion: schema.GroupVersion{Group: d.Group, Version: v.Name}.String(), Kind: d.Kind}
		out = append(out, resource.Mapping{Type: t, Plural: d.Plural, ClusterScoped: d.ClusterScoped})
	}
	return out
}

// withMappings returns operators, with their defaults, that know how the kinds of the
// definitions are served. A Mapping that says otherwise is an error.
func withMappings(operators []config.Operator, definitions []definition) ([]config.Operator, error) {
	out := make([]config.Operator, 0, len(operators))
	var errs []error
	for _, cfg := range operators {
		cfg.Mappings = slices.Clone(cfg.Mappings)
		for _, d := range definitions {
			for _, m := range d.mappings() {
				i := slices.IndexFunc(cfg.Mappings, func(other resource.Mapping) bool { return other.Type == m.Type })
				switch {
				case i < 0:
					cfg.Mappings = append(cfg.Mappings, m)
				case cfg.Mappings[i] != m:
					errs = append(errs, fmt.Errorf("config: %s: Mappings: %s isn't served as the CustomResourceDefinition %s says; take the Mapping out", cfg.Name, m.Type, d.Name))
				}
			}
		}
		out = append(out, defaults.Apply(cfg))
	}
	return out, errors.Join(errs...)
}
