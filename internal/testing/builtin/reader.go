package builtin

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
	strictjson "sigs.k8s.io/json"
)

// A Reader reads objects of one type. It may be used concurrently.
type Reader struct {
	gvk schema.GroupVersionKind

	mu    sync.Mutex
	known map[string]reading // what was read already, by contents: simulations write the same ones again and again
}

// A reading is what has become of an object's contents, which are all but its metadata.
type reading struct {
	raw     []byte
	unknown []string
}

// maxKnown is how many contents a Reader remembers.
const maxKnown = 1000

// NewReader returns the reader of a type, nil if the type isn't built in.
func NewReader(gvk schema.GroupVersionKind) *Reader {
	if !scheme.Scheme.Recognizes(gvk) {
		return nil
	}
	return &Reader{gvk: gvk, known: map[string]reading{}}
}

// Read returns an object as an API server stores it, and which of its fields the type doesn't have, as
// the API server names them. The error says which field has a value of a wrong type.
func (r *Reader) Read(object map[string]any) (out map[string]any, unknown []string, err error) {
	contents := maps.Clone(object)
	delete(contents, "metadata")
	raw, err := json.Marshal(contents)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", r.gvk.Kind, err)
	}
	read, err := r.read(raw)
	if err != nil {
		return nil, nil, err
	}
	if err := kjson.Unmarshal(read.raw, &out); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", r.gvk.Kind, err)
	}
	meta, more, err := readMeta(object["metadata"])
	if err != nil {
		return nil, nil, err
	}
	out["metadata"] = meta
	return out, slices.Concat(more, read.unknown), nil
}

func (r *Reader) read(contents []byte) (reading, error) {
	r.mu.Lock()
	known, ok := r.known[string(contents)]
	r.mu.Unlock()
	if ok {
		return known, nil
	}
	typed, err := scheme.Scheme.New(r.gvk)
	if err != nil {
		return reading{}, fmt.Errorf("%s: %w", r.gvk.Kind, err)
	}
	unknown, err := decode(contents, typed)
	if err != nil {
		return reading{}, err
	}
	fill(reflect.ValueOf(typed).Elem())
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return reading{}, fmt.Errorf("%s: %w", r.gvk.Kind, err)
	}
	delete(tree, "metadata")
	raw, err := json.Marshal(tree)
	if err != nil {
		return reading{}, fmt.Errorf("%s: %w", r.gvk.Kind, err)
	}
	read := reading{raw, unknown}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) < maxKnown {
		r.known[string(contents)] = read
	}
	return read, nil
}

// decode reads JSON as an API server does, and returns which fields are unknown.
func decode(raw []byte, into any) (unknown []string, err error) {
	strict, err := strictjson.UnmarshalStrict(raw, into)
	if err != nil {
		return nil, err
	}
	for _, one := range strict {
		unknown = append(unknown, one.Error())
	}
	return unknown, nil
}

// readMeta reads metadata.
func readMeta(value any) (meta map[string]any, unknown []string, err error) {
	if given, ok := value.(map[string]any); ok && isPlain(given) {
		return maps.Clone(given), nil, nil
	}
	raw, err := json.Marshal(map[string]any{"metadata": value})
	if err != nil {
		return nil, nil, fmt.Errorf("metadata: %w", err)
	}
	var typed struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if unknown, err = decode(raw, &typed); err != nil {
		return nil, nil, err
	}
	if meta, err = runtime.DefaultUnstructuredConverter.ToUnstructured(&typed.Metadata); err != nil {
		return nil, nil, fmt.Errorf("metadata: %w", err)
	}
	delete(meta, "selfLink")
	return meta, unknown, nil
}

// isPlain says whether metadata are as an API server writes them, which most are: then they needn't be read as a type.
func isPlain(meta map[string]any) bool {
	for name, value := range meta {
		ok := false
		switch name {
		case "name", "namespace", "generateName", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp":
			ok = isText(value)
		case "generation", "deletionGracePeriodSeconds":
			_, ok = value.(int64)
		case "labels", "annotations":
			texts, _ := value.(map[string]any)
			ok = len(texts) > 0
			for _, text := range texts {
				_, is := text.(string)
				ok = ok && is
			}
		case "finalizers":
			list, _ := value.([]any)
			ok = len(list) > 0 && !slices.ContainsFunc(list, func(item any) bool { return !isText(item) })
		case "ownerReferences":
			list, _ := value.([]any)
			ok = len(list) > 0 && !slices.ContainsFunc(list, func(item any) bool { return !isOwner(item) })
		}
		if !ok {
			return false
		}
	}
	return true
}

func isText(value any) bool {
	text, ok := value.(string)
	return ok && text != ""
}

// isOwner says whether a value is a reference to an owner with all of its fields, and no others.
func isOwner(value any) bool {
	ref, _ := value.(map[string]any)
	for _, name := range []string{"apiVersion", "kind", "name", "uid"} {
		if !isText(ref[name]) {
			return false
		}
	}
	rest := len(ref) - 4
	for _, name := range []string{"controller", "blockOwnerDeletion"} {
		if _, ok := ref[name].(bool); ok {
			rest--
		}
	}
	return rest == 0
}
