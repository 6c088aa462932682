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

// A Kind is a watched type: how the API server serves the type, and what the
// operator's configuration says of the type. A Kind is immutable.
type Kind struct {
	Type       resource.Type
	GVR        schema.GroupVersionResource
	Namespaced bool // objects of the type live in namespaces
	HasStatus  bool // the type has a status subresource

	// The fields below are of types of children. For the parent's type, Child
	// holds the type alone, and the others have their zero values.

	Child      config.Child     // the configuration of the type, with its defaults
	Order      int              // the position of the type in Catalog.Children
	Comparison merge.Comparison // how live objects are compared with desired ones
	Builtin    *listkeys.Node   // the schema of a built-in type; nil for any other type
}

// Secret says whether objects of this type are Secrets, whose values no log, no
// Event, no error and no plan may show.
func (k *Kind) Secret() bool { return k.GVR.Group == "" && k.GVR.Resource == "secrets" }

// IsNamespace says whether objects of this type are namespaces.
func (k *Kind) IsNamespace() bool { return k.GVR.Group == "" && k.GVR.Resource == "namespaces" }

// Rule returns, as text for an error, the RBAC rule that allows the verbs on this
// type.
func (k *Kind) Rule(verbs ...string) string {
	return apierror.RuleText(k.GVR.Group, k.GVR.Resource, verbs...)
}

// Path returns the steps of a URL path on the API server. With an empty name the
// path is that of a collection, with an empty subresource that of an object. A
// collection without a namespace spans all namespaces.
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

// compareAs sets how objects of this type are compared: by the schema s, nil if
// none is known, and without the fields that the configuration ignores. It may
// be called once only, while the Kind is being made.
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
