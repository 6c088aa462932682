package catalog

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/fieldpath"
	"github.com/roperator/roperator/internal/jsonvalue"
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
	// Unserved says that the API server doesn't serve the type at present. GVR, Namespaced
	// and HasStatus tell nothing then.
	Unserved bool
	// Similar are, of a type that is Unserved, the types of its group that may be meant: see
	// SimilarTo.
	Similar []resource.Type
	before  *Kind // of a type that is Unserved: as it was served last; nil: it isn't known

	Everywhere bool // of a related type: parents may refer to objects in other namespaces than theirs

	// The fields below are of types of children. For the parent's type, Child
	// holds the type alone, and the others have their zero values.

	Child      config.Child     // the configuration of the type, with its defaults
	Order      int              // the position of the type in Catalog.Children
	Comparison merge.Comparison // how live objects are compared with desired ones
	Builtin    *listkeys.Node   // the schema of a built-in type; nil for any other type

	storage string           // what the API server calls the form in which objects are stored; empty: it doesn't say
	schema  jsonvalue.Digest // of the schema of a type that isn't built in
	base    *Kind            // what Leaving was called on; nil: nothing
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

// APIPath returns the path under which the API server serves the type's group and
// version.
func (k *Kind) APIPath() string {
	if k.GVR.Group == "" {
		return "/api/" + k.GVR.Version
	}
	return "/apis/" + k.GVR.Group + "/" + k.GVR.Version
}

// SchemaPending says whether the schema of the type hasn't been read yet.
func (k *Kind) SchemaPending() bool { return k.Comparison.Pending }

// HasSchema says whether s is the schema of the type that was read last, even if it
// is pending again since.
func (k *Kind) HasSchema(s Schema) bool { return k.schema == s.digest }

// HadSchema says whether a schema of the type was read at any time.
func (k *Kind) HadSchema() bool { return k.schema != (jsonvalue.Digest{}) }

// Leaving returns a type of children that is like k, but in whose objects the fields
// at these paths are ignored as well.
func (k *Kind) Leaving(paths []fieldpath.Path) *Kind {
	if len(paths) == 0 {
		return k
	}
	other := *k
	other.base = k.Base()
	other.Comparison.Ignore = slices.Concat(k.Comparison.Ignore, paths)
	return &other
}

// Base returns the type itself of a type that Leaving has made, and any other type as
// it is.
func (k *Kind) Base() *Kind {
	if k.base != nil {
		return k.base
	}
	return k
}

// compareBy sets how objects of this type are compared: by the schema of a
// built-in type, and without the fields that the configuration ignores. It may be
// called once only, while the Kind is being made.
func (k *Kind) compareBy(builtin *listkeys.Node) error {
	k.Builtin, k.Comparison.Schema = builtin, builtin
	for _, path := range k.Child.IgnoreFields {
		p, err := fieldpath.Parse(path)
		if err != nil {
			return fmt.Errorf("config: %s: IgnoreFields: %w", k.Type, err)
		}
		k.Comparison.Ignore = append(k.Comparison.Ignore, p)
	}
	return nil
}

// with returns the Kind with another schema, k itself if it has that schema
// already.
func (k *Kind) with(s Schema) *Kind {
	if !k.SchemaPending() && k.schema == s.digest {
		return k
	}
	out := *k
	out.Comparison.Schema, out.Comparison.Pending, out.schema = s.node, false, s.digest
	return &out
}

// pending returns the Kind as one whose schema has yet to be read, k itself if it
// is one already.
func (k *Kind) pending() *Kind {
	if k.SchemaPending() {
		return k
	}
	out := *k
	out.Comparison.Schema, out.Comparison.Pending = nil, true
	return &out
}
