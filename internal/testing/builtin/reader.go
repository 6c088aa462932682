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
		return nil, err //nolint:wrapcheck // it is an API server's answer
	}
	for _, one := range strict {
		unknown = append(unknown, one.Error())
	}
	return unknown, nil
}

// readMeta reads metadata.
func readMeta(value any) (meta map[string]any, unknown []string, err error) {
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
	typed.Metadata.SelfLink = ""
	if meta, err = runtime.DefaultUnstructuredConverter.ToUnstructured(&typed.Metadata); err != nil {
		return nil, nil, fmt.Errorf("metadata: %w", err)
	}
	return meta, unknown, nil
}
