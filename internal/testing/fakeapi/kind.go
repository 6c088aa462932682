package fakeapi

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/roperator/roperator/internal/testing/builtin"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// A Kind is a kind that a Server serves.
type Kind struct {
	Type          resource.Type
	Plural        string
	ClusterScoped bool
	Status        bool // has a status subresource
	Generation    bool // metadata.generation counts changes of the rest
	// NewStatus is the status of a new object, as a schema's default says it. May be nil.
	NewStatus map[string]any
	// Schema is that of a custom resource; nil: anything is taken as it is.
	Schema *Schema
	// Applies: objects may be applied, and have managedFields. It takes its time.
	Applies bool

	reader *builtin.Reader             // nil unless Typed
	fields *managedfields.FieldManager // nil unless Applies
}

// Typed returns a kind whose objects are read as an API server reads those of a built-in type: it knows
// their fields, and fills in defaults. Objects of other types are taken as they are, as those of built-in ones
// are without it.
func Typed(k Kind) Kind {
	k.reader = builtin.NewReader(k.Type.GroupVersionKind())
	return k
}

// KindOf returns the kind of a type, built in or not, without plural. What isn't built in is taken to have a status
// subresource.
func KindOf(t resource.Type) Kind {
	k := Typed(Kind{Type: t, Status: true, Generation: true})
	switch t {
	case k8s.ConfigMap, k8s.Secret, k8s.ServiceAccount, k8s.Role, k8s.RoleBinding, k8s.ClusterRole, k8s.ClusterRoleBinding,
		k8s.Lease, k8s.Endpoints, k8s.ControllerRevision, k8s.LimitRange, k8s.StorageClass:
		k.Status, k.Generation = false, false
	case k8s.EndpointSlice, k8s.PriorityClass, k8s.ValidatingWebhookConfiguration, k8s.MutatingWebhookConfiguration:
		k.Status = false
	case k8s.Namespace, k8s.Service, k8s.PersistentVolumeClaim, k8s.PersistentVolume, k8s.HorizontalPodAutoscaler, k8s.ResourceQuota, k8s.Node:
		k.Generation = false
	}
	return k
}

// Custom returns the namespaced kind of a CustomResourceDefinition with a
// status subresource.
func Custom(t resource.Type, plural string) Kind {
	return Kind{Type: t, Plural: plural, Status: true, Generation: true}
}

// ConfigMaps returns the built-in kind.
func ConfigMaps() Kind { return Kind{Type: k8s.ConfigMap, Plural: "configmaps"} }

// Secrets returns the built-in kind.
func Secrets() Kind { return Kind{Type: k8s.Secret, Plural: "secrets"} }

// Leases returns the built-in kind.
func Leases() Kind {
	return Kind{Type: k8s.Lease, Plural: "leases"}
}

// Namespaces returns the built-in kind.
func Namespaces() Kind {
	return Kind{Type: k8s.Namespace, Plural: "namespaces", ClusterScoped: true, Status: true}
}

// Events returns the built-in kind, which New adds by itself.
func Events() Kind {
	return Kind{Type: resource.Type{APIVersion: "events.k8s.io/v1", Kind: "Event"}, Plural: "events"}
}

func (k *Kind) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.Type.GroupVersionKind().Group, Resource: k.Plural}
}

// builtIn says whether lists of the kind omit the types of their items.
func (k *Kind) builtIn() bool {
	group := k.Type.GroupVersionKind().Group
	return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io")
}
