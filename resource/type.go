package resource

import "k8s.io/apimachinery/pkg/runtime/schema"

// A Type identifies a kind of object in one version of its group. Types are
// comparable with ==. The zero Type identifies nothing.
type Type struct {
	// APIVersion is "group/version", or "version" for the core group.
	APIVersion string
	// Kind is the singular name in CamelCase, "Deployment".
	Kind string
}

// TypeFor returns the Type of a GroupVersionKind.
func TypeFor(gvk schema.GroupVersionKind) Type {
	apiVersion, kind := gvk.ToAPIVersionAndKind()
	return Type{APIVersion: apiVersion, Kind: kind}
}

// GroupVersionKind returns the same as apimachinery's GroupVersionKind. Group
// and Version are empty if APIVersion is not of the form "group/version" or
// "version".
func (t Type) GroupVersionKind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(t.APIVersion, t.Kind)
}

// String returns the API version and the kind, "apps/v1/Deployment".
func (t Type) String() string {
	return t.APIVersion + "/" + t.Kind
}

// A Mapping says how an API server serves a Type: what discovery answers.
type Mapping struct {
	Type Type
	// Plural is the name in URLs and RBAC rules, "deployments".
	Plural string
	// ClusterScoped is true for kinds whose objects have no namespace.
	ClusterScoped bool
}
