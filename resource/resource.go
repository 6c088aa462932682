package resource

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// A Resource is one observed object. It is immutable and may be used by any
// number of goroutines. Make one with New: the zero Resource holds no object.
type Resource struct {
	text string // compact JSON
	typ  unique.Handle[Type]
	metadata
}

// New returns a Resource that holds a copy of obj without its
// metadata.managedFields. obj is one of
//
//   - JSON, as []byte or json.RawMessage
//   - map[string]any
//   - *unstructured.Unstructured
//   - anything else that marshals to a Kubernetes object, such as a typed
//     object (with its TypeMeta set)
//
// An object that has been observed has apiVersion, kind, metadata.name,
// metadata.uid and metadata.resourceVersion: an error names what is missing.
// Malformed JSON is an error. No error quotes content of the object, apart
// from its kind and name.
func New(obj any) (*Resource, error) {
	data, err := marshal(obj)
	if err != nil {
		return nil, err
	}
	text, l, err := compact(data)
	if err != nil {
		return nil, fmt.Errorf("object: %w", err)
	}
	t, err := readType(text, l)
	if err != nil {
		return nil, fmt.Errorf("object: %w", err)
	}
	r := &Resource{text: text, typ: unique.Make(t)}
	if l.metadata.found() {
		r.metadata, err = readMetadata(text[l.metadata.start:l.metadata.end], l.metadata.start)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", describe(t.Kind, "", ""), err)
		}
	} else {
		r.namespace = unique.Make("")
	}
	if err := r.complete(); err != nil {
		return nil, err
	}
	return r, nil
}

// marshal returns the JSON of what New accepts.
func marshal(obj any) ([]byte, error) {
	switch o := obj.(type) {
	case nil:
		return nil, errors.New("object: nil")
	case []byte:
		return o, nil
	case json.RawMessage:
		return o, nil
	case *Resource:
		if o == nil {
			return nil, errors.New("object: nil *resource.Resource")
		}
		return []byte(o.text), nil
	case *unstructured.Unstructured:
		if o == nil {
			return nil, errors.New("object: nil *unstructured.Unstructured")
		}
		obj = o.Object
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(obj); err != nil {
		return nil, fmt.Errorf("%T: %w", obj, err)
	}
	return out.Bytes(), nil
}

func readType(text string, l layout) (Type, error) {
	var t Type
	var err error
	if l.apiVersion.found() {
		if t.APIVersion, err = readString(text[l.apiVersion.start:l.apiVersion.end]); err != nil {
			return t, fmt.Errorf("apiVersion%w", err)
		}
	}
	if l.kind.found() {
		if t.Kind, err = readString(text[l.kind.start:l.kind.end]); err != nil {
			return t, fmt.Errorf("kind%w", err)
		}
	}
	return t, nil
}

// complete says what a Resource must have and this one has not.
func (r *Resource) complete() error {
	t := r.Type()
	var missing []string
	for _, field := range []struct{ path, value string }{
		{"apiVersion", t.APIVersion},
		{"kind", t.Kind},
		{"metadata.name", r.name},
		{"metadata.uid", r.uid},
		{"metadata.resourceVersion", r.resourceVersion},
	} {
		if field.value == "" {
			missing = append(missing, field.path)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s: missing %s", r, strings.Join(missing, ", "))
}

// Type returns the object's API version and kind.
func (r *Resource) Type() Type { return r.typ.Value() }

// Key returns the object's namespace and name.
func (r *Resource) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace(), Name: r.name}
}

// Name returns metadata.name, which is never empty.
func (r *Resource) Name() string { return r.name }

// Namespace returns metadata.namespace, which is empty for a cluster-scoped
// object.
func (r *Resource) Namespace() string { return r.namespace.Value() }

// UID returns metadata.uid, which is never empty.
func (r *Resource) UID() types.UID { return types.UID(r.uid) }

// ResourceVersion returns metadata.resourceVersion, which is never empty.
func (r *Resource) ResourceVersion() string { return r.resourceVersion }

// Generation returns metadata.generation; 0 for the kinds that have none.
func (r *Resource) Generation() int64 { return r.generation }

// Label returns the value of a label, false if the object hasn't got it. It
// doesn't allocate. Whoever keeps the value keeps the object in memory;
// strings.Clone makes it independent.
func (r *Resource) Label(name string) (string, bool) {
	return text(r.raw(r.labels), name)
}

// Labels returns a copy of the labels, nil if there are none.
func (r *Resource) Labels() map[string]string {
	return texts(r.copied(r.labels))
}

// Annotation returns the value of an annotation, false if the object hasn't
// got it. Use it rather than Annotations to look at a few, since annotations
// may be large. Whoever keeps the value keeps the object in memory.
func (r *Resource) Annotation(name string) (string, bool) {
	return text(r.raw(r.annotations), name)
}

// Annotations returns a copy of the annotations, nil if there are none.
func (r *Resource) Annotations() map[string]string {
	return texts(r.raw(r.annotations))
}

// text returns the value of a member that is a string or null.
func text(object, name string) (value string, found bool) {
	for m := range members(object) {
		if m.is(name) { // the last of duplicates counts
			value, found = m.text(), true
		}
	}
	return value, found
}

// texts returns the members of an object of strings, nil if there are none.
func texts(object string) map[string]string {
	var all map[string]string
	for m := range members(object) {
		if all == nil {
			all = map[string]string{}
		}
		all[unquote(m.key)] = m.text()
	}
	return all
}

// Finalizers returns a copy of the finalizers, nil if there are none.
func (r *Resource) Finalizers() []string {
	var list []string
	for item := range items(r.copied(r.finalizers)) {
		finalizer, err := readString(item)
		if err != nil {
			return nil // can't be: New has checked it
		}
		list = append(list, finalizer)
	}
	return list
}

// OwnerReferences returns a copy of the owner references, nil if there are
// none.
func (r *Resource) OwnerReferences() []metav1.OwnerReference {
	raw, count := r.copied(r.owners), 0
	for range items(raw) {
		count++
	}
	if count == 0 {
		return nil
	}
	references, bools := make([]metav1.OwnerReference, 0, count), make([][2]bool, count)
	for item := range items(raw) {
		o, err := readOwner(item)
		if err != nil {
			return nil // can't be: New has checked it
		}
		references = append(references, o.reference(&bools[len(references)]))
	}
	return references
}

// IsControlledBy says whether the object's controller has this UID and is of this type, in
// any version. Whoever writes an object writes its owner references, so a UID alone doesn't
// make a controller. It doesn't allocate.
func (r *Resource) IsControlledBy(owner schema.GroupKind, uid types.UID) bool {
	for item := range items(r.raw(r.owners)) {
		o, err := readOwner(item)
		if err == nil && o.controller == isTrue {
			return o.uid == string(uid) && schema.FromAPIVersionAndKind(o.apiVersion, o.kind).GroupKind() == owner
		}
	}
	return false
}

// DeletionTimestamp returns a copy of the time at which deletion was asked
// for (or will be over, with a grace period), nil if it was not.
func (r *Resource) DeletionTimestamp() *metav1.Time { return r.deletionTimestamp.DeepCopy() }

// IsDeleting says whether the object has a deletion timestamp.
func (r *Resource) IsDeleting() bool { return r.deletionTimestamp != nil }

// Size returns how long the object's JSON is that is kept, in bytes: the
// greater part of what a Resource takes in memory, which the metrics tell.
func (r *Resource) Size() int { return len(r.text) }

// String returns kind, namespace and name, "Pod default/web", and nothing of
// the content, which may be secret.
func (r *Resource) String() string {
	if r == nil {
		return "no object"
	}
	if r.text == "" {
		return "object"
	}
	return describe(r.Type().Kind, r.Namespace(), r.name)
}

// GoString returns the same as String, so that %#v shows no content either.
func (r *Resource) GoString() string { return r.String() }

// LogValue returns the same as String, so that a log shows no content either.
func (r *Resource) LogValue() slog.Value { return slog.StringValue(r.String()) }

func describe(kind, namespace, name string) string {
	if kind == "" {
		kind = "object"
	}
	switch {
	case name == "":
		return kind
	case namespace == "":
		return kind + " " + name
	}
	return kind + " " + namespace + "/" + name
}
