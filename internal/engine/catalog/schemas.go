package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/jsonvalue"
	"github.com/roperator/roperator/internal/listkeys"
	"github.com/roperator/roperator/resource"
)

// slowRead is after how long a read tells which documents it waits for.
const slowRead = time.Second

// ErrNotPublished is the error about a type that the OpenAPI documents of the API
// server don't describe, though the documents could be read. The API server
// describes a new custom resource a moment after it begins to serve it.
var ErrNotPublished = errors.New("the API server doesn't publish it")

// A Schema is the schema of a type that isn't built in, as the API server
// publishes it. The zero value says that there is none.
type Schema struct {
	node   *listkeys.Node
	digest jsonvalue.Digest // of the whole schema, validation included
}

// Schemas reads the schemas of custom types from the OpenAPI documents of the API
// server. There is a document for each version of an API group, whose address has
// a hash of the document. A document is read again only if its address has
// changed. One goroutine at a time may use a Schemas.
type Schemas struct {
	client    openapi.ClientWithContext
	documents map[string]*document // those read last, by API version
}

// A document is what was read of an OpenAPI document.
type document struct {
	address string // empty: the address has no hash, so that it tells nothing
	schemas map[resource.Type]Schema
}

// A SchemaError says why the schema of a type couldn't be read.
type SchemaError struct {
	Type resource.Type
	Err  error // wraps ErrNotPublished if the documents could be read
}

// Error names the type.
func (e *SchemaError) Error() string { return fmt.Sprintf("%s: schema: %v", e.Type, e.Err) }

// Unwrap returns the reason.
func (e *SchemaError) Unwrap() error { return e.Err }

// NewSchemas returns a reader of schemas. It makes no request.
func NewSchemas(rc *rest.Config, httpClient *http.Client) (*Schemas, error) {
	dc, err := discovery.NewDiscoveryClientForConfigAndClient(rc, httpClient)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return &Schemas{client: openapi.NewClientWithContext(dc.RESTClient()), documents: map[string]*document{}}, nil
}

// Read returns the schemas of these types, and an error for each type whose schema
// couldn't be read. Documents are read side by side. If that takes long, waiting is
// called once, with the types whose documents haven't come yet. An API server that
// has no OpenAPI v3 at all has no schema of any type: the zero Schema stands for
// that.
func (s *Schemas) Read(ctx context.Context, types []resource.Type, waiting func([]resource.Type)) (map[resource.Type]Schema, []*SchemaError) {
	if len(types) == 0 {
		return nil, nil
	}
	slow := time.NewTimer(slowRead)
	defer slow.Stop()
	answers := make(chan answer, 1)
	go func() { answers <- s.readIndex(ctx) }() // its answer is awaited
	index := await(answers, slow, func() { waiting(types) })
	switch {
	case apierrors.IsNotFound(index.err):
		none := map[resource.Type]Schema{}
		for _, t := range types {
			none[t] = Schema{}
		}
		return none, nil
	case index.err != nil:
		return nil, failAll(types, index.err)
	}
	return s.readDocuments(ctx, types, index.paths, slow, waiting)
}

// An answer is an index or a document, or why it couldn't be read.
type answer struct {
	version string // of a document
	paths   map[string]openapi.GroupVersionWithContext
	doc     *document
	err     error
}

// await returns the next answer. It calls late if the timer ends before.
func await(answers <-chan answer, slow *time.Timer, late func()) answer {
	for {
		select {
		case a := <-answers:
			return a
		case <-slow.C:
			late()
		}
	}
}

func (s *Schemas) readIndex(ctx context.Context) answer {
	paths, err := s.client.PathsWithContext(ctx)
	return answer{paths: paths, err: err}
}

// readDocuments is Read once the index is known. Its goroutines have all ended when
// it returns.
func (s *Schemas) readDocuments(ctx context.Context, types []resource.Type, paths map[string]openapi.GroupVersionWithContext, slow *time.Timer, waiting func([]resource.Type)) (map[resource.Type]Schema, []*SchemaError) {
	byVersion := map[string][]resource.Type{}
	for _, t := range types {
		byVersion[t.APIVersion] = append(byVersion[t.APIVersion], t)
	}
	answers := make(chan answer, len(byVersion))
	outstanding := map[string][]resource.Type{}
	for version, of := range byVersion {
		path, ok := paths["apis/"+version]
		if known := s.documents[version]; ok && known != nil && known.address != "" && known.address == path.ServerRelativeURL() {
			continue
		}
		delete(s.documents, version)
		if ok {
			outstanding[version] = of
			go func() { answers <- readDocument(ctx, version, path, of) }()
		}
	}
	failed := map[string]error{}
	for len(outstanding) > 0 {
		a := await(answers, slow, func() { waiting(listed(outstanding)) })
		delete(outstanding, a.version)
		if a.err != nil {
			failed[a.version] = a.err
		} else {
			s.documents[a.version] = a.doc
		}
	}
	found, errs := map[resource.Type]Schema{}, []*SchemaError(nil)
	for _, t := range types {
		if err := failed[t.APIVersion]; err != nil {
			errs = append(errs, &SchemaError{t, err})
		} else if schema, ok := s.documents[t.APIVersion].of(t); ok {
			found[t] = schema
		} else {
			errs = append(errs, &SchemaError{t, ErrNotPublished})
		}
	}
	return found, errs
}

// of returns the schema of a type, false if the document has none. It may be
// called on nil.
func (d *document) of(t resource.Type) (Schema, bool) {
	if d == nil {
		return Schema{}, false
	}
	schema, ok := d.schemas[t]
	return schema, ok
}

// listed returns all types of a map, in alphabetic order.
func listed(byVersion map[string][]resource.Type) []resource.Type {
	var out []resource.Type
	for _, types := range byVersion {
		out = append(out, types...)
	}
	slices.SortFunc(out, func(a, b resource.Type) int { return strings.Compare(a.String(), b.String()) })
	return out
}

func failAll(types []resource.Type, err error) []*SchemaError {
	out := make([]*SchemaError, 0, len(types))
	for _, t := range types {
		out = append(out, &SchemaError{t, err})
	}
	return out
}

// readDocument reads the schemas of these types from one document.
func readDocument(ctx context.Context, version string, at openapi.GroupVersionWithContext, types []resource.Type) answer {
	out := answer{version: version}
	var raw []byte
	if raw, out.err = at.SchemaWithContext(ctx, "application/json"); out.err != nil {
		return out
	}
	out.doc = &document{}
	if address := at.ServerRelativeURL(); strings.Contains(address, "hash=") {
		out.doc.address = address
	}
	out.doc.schemas, out.err = schemasIn(raw, types)
	return out
}

// schemasIn returns the schemas of these types in an OpenAPI document. Only the
// schemas that they need are decoded.
func schemasIn(raw []byte, types []resource.Type) (map[resource.Type]Schema, error) {
	var doc struct {
		Components struct {
			Schemas map[string]json.RawMessage `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	decode := func(name string) map[string]any {
		var schema map[string]any
		if json.Unmarshal(doc.Components.Schemas[name], &schema) != nil {
			return nil
		}
		return schema
	}
	out := map[resource.Type]Schema{}
	for name, text := range doc.Components.Schemas {
		for _, t := range describedTypes(text) {
			if !slices.Contains(types, t) {
				continue
			}
			schema := decode(name)
			out[t] = Schema{
				node:   listkeys.FromSchema(schema, func(ref string) map[string]any { return decode(strings.TrimPrefix(ref, "#/components/schemas/")) }),
				digest: jsonvalue.Sum(schema),
			}
		}
	}
	return out, nil
}

// describedTypes returns the types that a schema of an OpenAPI document describes,
// mostly none or one.
func describedTypes(schema []byte) []resource.Type {
	var head struct {
		Kinds []metav1.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
	}
	if json.Unmarshal(schema, &head) != nil {
		return nil
	}
	out := make([]resource.Type, 0, len(head.Kinds))
	for _, k := range head.Kinds {
		t := resource.Type{APIVersion: k.Version, Kind: k.Kind}
		if k.Group != "" {
			t.APIVersion = k.Group + "/" + k.Version
		}
		out = append(out, t)
	}
	return out
}
