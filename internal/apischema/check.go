package apischema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/roperator/roperator/resource"
)

// A Problem is what an API server would refuse an object for.
type Problem struct {
	Path    string // of the field, empty: the object itself
	Message string
}

// String returns "spec.replica: unknown field".
func (p Problem) String() string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

// A Checker checks objects. It may be used concurrently.
type Checker struct {
	table *Table
	kinds map[string]*runtime.Scheme // resource.Type.String -> who knows the Go type
}

// shared is the one Checker: its table is read when the first object is to be checked.
//
//nolint:gochecknoglobals // immutable once it is read
var shared = sync.OnceValues(func() (*Checker, error) { return newChecker(tableJSON) })

// New returns a Checker. The error says that the table is broken.
func New() (*Checker, error) { return shared() }

// newChecker returns a Checker with the table in text.
func newChecker(text []byte) (*Checker, error) {
	table, err := readTable(text)
	if err != nil {
		return nil, err
	}
	extensions := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(extensions); err != nil {
		return nil, fmt.Errorf("apiextensions: %w", err)
	}
	out := &Checker{table: table, kinds: make(map[string]*runtime.Scheme, len(table.Kinds))}
	for _, kind := range table.Kinds {
		gvk := typeNamed(kind).GroupVersionKind()
		for _, known := range []*runtime.Scheme{scheme.Scheme, extensions} {
			if known.Recognizes(gvk) {
				out.kinds[kind] = known
			}
		}
	}
	return out, nil
}

// typeNamed returns the Type of which String returns text.
func typeNamed(text string) resource.Type {
	i := strings.LastIndexByte(text, '/')
	return resource.Type{APIVersion: text[:max(i, 0)], Kind: text[i+1:]}
}

// Version returns the version of Kubernetes whose kinds are known.
func (c *Checker) Version() string { return c.table.Kubernetes }

// Knows says whether the Checker knows a kind, which it does in whole or not at all.
func (c *Checker) Knows(t resource.Type) bool { return c.kinds[t.String()] != nil }

// Check returns what an API server would refuse an object for, nothing if it would accept it as
// far as schemas tell, or the kind isn't known. creation says that the object doesn't exist yet,
// so that it has to have what is required; an update needs only what changes. The object is
// JSON values, and is only read. Values of Secrets are in no message.
func (c *Checker) Check(object map[string]any, creation bool) []Problem {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	t := resource.Type{APIVersion: apiVersion, Kind: kind}
	known := c.kinds[t.String()]
	if known == nil {
		return nil
	}
	text, err := json.Marshal(object)
	if err != nil {
		return []Problem{{Message: err.Error()}}
	}
	decoder := serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, known, known, serializer.SerializerOptions{Strict: true})
	decoded, _, err := decoder.Decode(text, nil, nil)
	var out []Problem
	if err != nil {
		out = explain(known, t, object, err)
	}
	if err == nil || runtime.IsStrictDecodingError(err) {
		out = append(out, c.unmet(decoded, creation)...)
	}
	return out
}

// explain returns the reasons for which an object can't be decoded: all of them, with their
// paths, where the decoder's error tells the first.
func explain(known *runtime.Scheme, t resource.Type, object map[string]any, err error) []Problem {
	into, newErr := known.New(t.GroupVersionKind())
	if newErr != nil {
		return []Problem{{Message: newErr.Error()}}
	}
	e := explainer{silent: t.Kind == "Secret"}
	e.value(reflect.TypeOf(into), object, "")
	if len(e.found) > 0 {
		return e.found
	}
	if e.silent {
		return []Problem{{Message: "it can't be decoded"}}
	}
	return []Problem{{Message: err.Error()}}
}
