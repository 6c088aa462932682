package object

import (
	"cmp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
)

// A Ref is a reference to one object. It is comparable and may be the key of a map.
type Ref struct {
	Type resource.Type
	Key  types.NamespacedName // Namespace is "" for a cluster-scoped object
}

// RefOf returns the reference to an observed object.
func RefOf(res *resource.Resource) Ref { return Ref{res.Type(), res.Key()} }

// String returns the kind and the key, as in "Pod default/web". Errors and log lines
// name objects so.
func (r Ref) String() string { return r.Type.Kind + " " + KeyText(r.Key) }

// Detached returns an equal reference that can be kept for long: its strings are copies.
func (r Ref) Detached() Ref {
	r.Key = types.NamespacedName{Namespace: strings.Clone(r.Key.Namespace), Name: strings.Clone(r.Key.Name)}
	return r
}

// DetachedFrom is Detached for a child of parent: the strings don't keep in memory the
// text of the object that they were read from. A namespace that is the parent's is shared with the parent, which is
// kept anyway.
func (r Ref) DetachedFrom(parent *resource.Resource) Ref {
	r.Key.Name = strings.Clone(r.Key.Name)
	if r.Key.Namespace == parent.Namespace() {
		r.Key.Namespace = parent.Namespace()
	} else {
		r.Key.Namespace = strings.Clone(r.Key.Namespace)
	}
	return r
}

// KeyText returns "namespace/name", or the name alone if there is no namespace.
func KeyText(key types.NamespacedName) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.String()
}

// CompareRef compares an object with a reference in the order of handler.Children:
// by apiVersion, kind, namespace and name. The result is negative if the object comes
// before the reference, 0 if the reference is the object's, and positive otherwise.
func CompareRef(res *resource.Resource, ref Ref) int {
	if t := res.Type(); t != ref.Type {
		return cmp.Or(strings.Compare(t.APIVersion, ref.Type.APIVersion), strings.Compare(t.Kind, ref.Type.Kind))
	}
	return cmp.Or(strings.Compare(res.Namespace(), ref.Key.Namespace), strings.Compare(res.Name(), ref.Key.Name))
}

// Compare compares two objects as CompareRef does.
func Compare(a, b *resource.Resource) int { return CompareRef(a, RefOf(b)) }

// ControllerOf returns the owner reference of an object with controller: true, nil if
// there is none.
func ControllerOf(res *resource.Resource) *metav1.OwnerReference {
	refs := res.OwnerReferences()
	for i := range refs {
		if refs[i].Controller != nil && *refs[i].Controller {
			return &refs[i]
		}
	}
	return nil
}

// IsOf says whether an owner reference names an object of type t, in any version. Whoever
// writes an object writes its owner references: they may name anything.
func IsOf(t resource.Type, ref *metav1.OwnerReference) bool {
	return schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind() == t.GroupVersionKind().GroupKind()
}

// Controls says whether the controller of an object is this parent.
func Controls(parent, of *resource.Resource) bool {
	return of.IsControlledBy(parent.Type().GroupVersionKind().GroupKind(), parent.UID())
}
