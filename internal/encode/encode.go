// Package encode turns what handlers return as children (typed objects, maps,
// unstructured objects, apply configurations, resources, JSON) into one form.
package encode

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/roperator/roperator/resource"
)

// Kept is what handler.Keep returns: an observed child that shall stay exactly
// as it is. Handlers pass it on, and only the engine opens it.
type Kept struct{ Resource *resource.Resource }

// Left is what handler.Leave returns: a desired child some of whose fields are
// others'. Handlers pass it on, and only the engine opens it.
type Left struct {
	Child any      // anything that may be a child, another Left included
	Paths []string // of the fields, as the handler spelled them
}

// Gated is what handler.After and handler.When return: a desired child that isn't
// created before something is so. Handlers pass it on, and only the engine opens it.
type Gated struct {
	Child  any   // anything that may be a child, another Gated included
	Needs  []any // what has to be there and be ready, as the handler gave it
	Closed bool  // the handler's own condition isn't met
}

// Wishes are what a handler has said of a desired child beside the child.
type Wishes struct {
	Left   []string // the fields that are left to others
	Needs  []any    // what has to be there and be ready before the child is created
	Closed bool     // the child isn't to be created yet
}

// Inner returns the child inside obj, which is obj itself unless that is Left or Gated,
// and what these say of it. The lists are read only.
func Inner(obj any) (child any, w Wishes) {
	for {
		switch o := obj.(type) {
		case Left:
			obj, w.Left = o.Child, joined(w.Left, o.Paths)
		case Gated:
			obj, w.Needs, w.Closed = o.Child, joined(w.Needs, o.Needs), w.Closed || o.Closed
		default:
			return obj, w
		}
	}
}

// joined returns both lists as one, which may be one of them.
func joined[T any](a, b []T) []T {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	return slices.Concat(a, b)
}

// Map returns a fresh copy of obj as in unstructured.Unstructured: objects are
// map[string]any, lists []any, numbers int64 or float64. apiVersion and kind
// are filled in from client-go's scheme where a typed object lacks them; that
// they are there in the end is for the caller to check. A number that neither
// int64 nor float64 can hold is an error that names the field.
func Map(obj any) (map[string]any, error) {
	obj, err := resolve(obj)
	if err != nil {
		return nil, err
	}
	value, err := normal(obj)
	return objectOf(obj, value, err)
}

// objectOf returns the value of obj as an object whose type is complete.
func objectOf(obj, value any, err error) (map[string]any, error) {
	if err != nil {
		return nil, fmt.Errorf("%T: %w", obj, err)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%T: not an object", obj)
	}
	if t := typeFromScheme(obj); t != (resource.Type{}) {
		fill(object, t)
	}
	return object, nil
}

// A Summer makes hashes of objects, in a buffer that it uses again. The zero
// value is ready. It must not be used concurrently.
type Summer struct {
	buf     bytes.Buffer
	encoder *json.Encoder
	json    int // length of the JSON in buf; 0: there is none
}

// Sum returns a hash of obj that tells, in a fraction of Map's time, whether Map
// would return the same as for an earlier obj. Objects that only Map can tell
// equal may have different sums. An obj that encoding/json can't encode is an
// error; Map's says more about it.
func (s *Summer) Sum(obj any) ([sha256.Size]byte, error) {
	s.json = 0
	_, wishes := Inner(obj)
	obj, err := resolve(obj)
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	if s.encoder == nil {
		s.encoder = json.NewEncoder(&s.buf)
		s.encoder.SetEscapeHTML(false)
	}
	s.buf.Reset()
	if err := s.encoder.Encode(obj); err != nil {
		return [sha256.Size]byte{}, err
	}
	s.json = s.buf.Len()
	t := typeFromScheme(obj) // so that it isn't taken for an object of another Go type
	s.buf.WriteString(t.APIVersion)
	s.buf.WriteByte(0)
	s.buf.WriteString(t.Kind)
	for _, path := range wishes.Left {
		s.buf.WriteByte(0)
		s.buf.WriteString(path)
	}
	return sha256.Sum256(s.buf.Bytes()), nil
}

// Map is the function Map of the object that was given to Sum last, with
// nothing of it encoded twice.
func (s *Summer) Map(obj any) (map[string]any, error) {
	obj, err := resolve(obj)
	if err != nil {
		return nil, err
	}
	if s.json == 0 || !marshalled(obj) {
		return Map(obj)
	}
	value, err := decodeMarshalled(s.buf.Bytes()[:s.json-len("\n")])
	return objectOf(obj, value, err)
}

// resolve unwraps and refuses nil.
func resolve(obj any) (any, error) {
	obj, _ = Inner(obj)
	switch o := obj.(type) {
	case nil:
		return nil, errors.New("object is nil")
	case Kept:
		obj = o.Resource
	case *Kept:
		if o == nil {
			return nil, errors.New("object is nil")
		}
		obj = o.Resource
	}
	if v := reflect.ValueOf(obj); (v.Kind() == reflect.Pointer || v.Kind() == reflect.Map) && v.IsNil() {
		return nil, fmt.Errorf("object is a nil %T", obj)
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		if u.Object == nil {
			return nil, errors.New("object is an empty *unstructured.Unstructured")
		}
		return u.Object, nil
	}
	return obj, nil
}

// fill sets the fields of TypeMeta that are missing, if the other one agrees.
func fill(object map[string]any, t resource.Type) {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	if (apiVersion == "" || apiVersion == t.APIVersion) && (kind == "" || kind == t.Kind) {
		object["apiVersion"], object["kind"] = t.APIVersion, t.Kind
	}
}

// typeFromScheme returns the Type under which client-go's scheme knows the Go
// type of obj, a pointer or value; the zero Type if it doesn't, or under
// several.
func typeFromScheme(obj any) resource.Type {
	typed, ok := obj.(runtime.Object)
	if !ok {
		v := reflect.ValueOf(obj)
		if v.Kind() != reflect.Struct {
			return resource.Type{}
		}
		if typed, ok = reflect.TypeAssert[runtime.Object](reflect.New(v.Type())); !ok {
			return resource.Type{}
		}
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(typed)
	if err != nil || len(kinds) != 1 {
		return resource.Type{}
	}
	return resource.TypeFor(kinds[0])
}

// Identity returns the Type and key of obj without encoding all of it. Fields
// that are missing are empty.
func Identity(obj any) (resource.Type, types.NamespacedName, error) {
	obj, err := resolve(obj)
	if err != nil {
		return resource.Type{}, types.NamespacedName{}, err
	}
	switch o := obj.(type) {
	case *resource.Resource:
		return o.Type(), o.Key(), nil
	case map[string]any:
		t, key := identityOf(o)
		return t, key, nil
	}
	typed, isObject := obj.(runtime.Object)
	meta, hasMeta := obj.(metav1.Object)
	if !isObject || !hasMeta {
		object, err := Map(obj)
		if err != nil {
			return resource.Type{}, types.NamespacedName{}, err
		}
		t, key := identityOf(object)
		return t, key, nil
	}
	key := types.NamespacedName{Namespace: meta.GetNamespace(), Name: meta.GetName()}
	t := resource.TypeFor(typed.GetObjectKind().GroupVersionKind())
	if t.APIVersion == "" || t.Kind == "" {
		if known := typeFromScheme(obj); (t.APIVersion == "" || t.APIVersion == known.APIVersion) &&
			(t.Kind == "" || t.Kind == known.Kind) {
			t = known
		}
	}
	return t, key, nil
}

func identityOf(object map[string]any) (resource.Type, types.NamespacedName) {
	text := func(m map[string]any, name string) string {
		s, _ := m[name].(string)
		return s
	}
	metadata, _ := object["metadata"].(map[string]any)
	return resource.Type{APIVersion: text(object, "apiVersion"), Kind: text(object, "kind")},
		types.NamespacedName{Namespace: text(metadata, "namespace"), Name: text(metadata, "name")}
}
