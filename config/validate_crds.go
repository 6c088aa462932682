package config

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/internal/crd"
	"github.com/roperator/roperator/resource"
)

// validateCRDs finds what is wrong with the definitions, and those that don't serve what
// the operator uses.
func (o *Operator) validateCRDs(v *mistakes) {
	defined := map[schema.GroupKind]*crd.Definition{}
	first := map[string]string{}
	for i, text := range o.CRDs {
		field := fmt.Sprintf("CRDs[%d]", i)
		definitions, err := crd.Parse(text)
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				v.add(field, "%s", strings.TrimSuffix(line, "\n"))
			}
			continue
		}
		for _, d := range definitions {
			if before, ok := first[d.Name]; ok {
				v.add(field, "CustomResourceDefinition %s: it is in %s already; remove one", d.Name, before)
				continue
			}
			first[d.Name] = field
			defined[schema.GroupKind{Group: d.Group, Kind: d.Kind}] = d
		}
	}
	used := func(field string, t resource.Type) {
		gvk := t.GroupVersionKind()
		d := defined[gvk.GroupKind()]
		if d == nil {
			return
		}
		if version := d.Version(gvk.Version); version == nil || !version.Served {
			v.add(field, "%s: the CustomResourceDefinition %s in CRDs doesn't serve the version %s; add it there with served: true, or name another version", t, d.Name, gvk.Version)
		}
	}
	used("Parent", o.Parent)
	for i, child := range o.Children {
		used(fmt.Sprintf("Children[%d].Type", i), child.Type)
	}
	for i, related := range o.Related {
		used(fmt.Sprintf("Related[%d].Type", i), related.Type)
	}
}
