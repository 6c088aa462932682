package object

import (
	"cmp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/resource"
)

// An Ref names one object: its type, its namespace and its name.
type Ref struct {
	Type resource.Type
	Key  types.NamespacedName
}

// RefOf returns the reference to an observed object.
func RefOf(res *resource.Resource) Ref { return Ref{res.Type(), res.Key()} }

// String returns the kind and the key, as in "Pod default/web".
func (r Ref) String() string { return r.Type.Kind + " " + KeyText(r.Key) }

// DetachedFrom returns the same reference in strings of their own, so that the
// reference can be remembered without keeping in memory the text it was read
// from. The parent's namespace is shared, since it is remembered anyway.
func (r Ref) DetachedFrom(parent *resource.Resource) Ref {
	r.Key.Name = strings.Clone(r.Key.Name)
	if r.Key.Namespace == parent.Namespace() {
		r.Key.Namespace = parent.Namespace()
	} else {
		r.Key.Namespace = strings.Clone(r.Key.Namespace)
	}
	return r
}

// KeyText returns "namespace/name", or the name alone where there is no
// namespace.
func KeyText(key types.NamespacedName) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.String()
}

// CompareRef says whether an object comes before (negative), at (0) or after a
// reference in the order of handler.Children: by type, namespace and name.
func CompareRef(res *resource.Resource, ref Ref) int {
	if t := res.Type(); t != ref.Type {
		return cmp.Or(strings.Compare(t.APIVersion, ref.Type.APIVersion), strings.Compare(t.Kind, ref.Type.Kind))
	}
	return cmp.Or(strings.Compare(res.Namespace(), ref.Key.Namespace), strings.Compare(res.Name(), ref.Key.Name))
}

// Compare orders two objects as compareRef does.
func Compare(a, b *resource.Resource) int { return CompareRef(a, RefOf(b)) }

// ControllerOf returns an object's owner reference with controller: true, nil
// if there is none.
func ControllerOf(res *resource.Resource) *metav1.OwnerReference {
	refs := res.OwnerReferences()
	for i := range refs {
		if refs[i].Controller != nil && *refs[i].Controller {
			return &refs[i]
		}
	}
	return nil
}
