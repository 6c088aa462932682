package catalog

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/fieldpath"
	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/resource"
)

// A Kind is a watched type as the API server serves it, with what the
// operator's configuration says of it. It is immutable.
type Kind struct {
	Type       resource.Type
	GVR        schema.GroupVersionResource
	Namespaced bool
	HasStatus  bool // there is a status subresource

	// What follows is of child types only.

	Child      config.Child
	Order      int // the position in which the type is written
	Comparison merge.Comparison
	Builtin    *listkeys.Node // the schema, of a type that every cluster has; else nil
}

// Secret says whether the values of this type must never leave the process.
func (k *Kind) Secret() bool { return k.GVR.Group == "" && k.GVR.Resource == "secrets" }

// IsNamespace says whether objects of this type are namespaces.
func (k *Kind) IsNamespace() bool { return k.GVR.Group == "" && k.GVR.Resource == "namespaces" }

// Rule prints an RBAC rule that allows the verbs on this type.
func (k *Kind) Rule(verbs ...string) string {
	return apierror.RuleText(k.GVR.Group, k.GVR.Resource, verbs...)
}

// Path returns the URL path of a collection (with an empty name), an object, or
// a subresource of an object, step by step.
func (k *Kind) Path(namespace, name, subresource string) []string {
	var p []string
	if k.GVR.Group == "" {
		p = append(p, "/api", k.GVR.Version)
	} else {
		p = append(p, "/apis", k.GVR.Group, k.GVR.Version)
	}
	if k.Namespaced && namespace != "" {
		p = append(p, "namespaces", namespace)
	}
	p = append(p, k.GVR.Resource)
	if name != "" {
		p = append(p, name)
	}
	if subresource != "" {
		p = append(p, subresource)
	}
	return p
}

// compareAs sets how objects of this type are compared: by a schema, nil if none
// is known, and without what the configuration ignores.
func (k *Kind) compareAs(s *listkeys.Node) error {
	k.Comparison.Schema = s
	for _, path := range k.Child.IgnoreFields {
		p, err := fieldpath.Parse(path)
		if err != nil {
			return fmt.Errorf("config: %s: IgnoreFields: %w", k.Type, err)
		}
		k.Comparison.Ignore = append(k.Comparison.Ignore, p)
	}
	return nil
}
