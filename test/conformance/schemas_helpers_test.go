package conformance

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/resource"
)

// thingOf returns the type that installThing installs in a group.
func thingOf(group string) resource.Type {
	return resource.Type{APIVersion: group + "/v1", Kind: "Thing"}
}

// thingLists is the schema of a Thing's spec with a list of each form. The lists
// byID and named have these keys.
func thingLists(idKey string) string {
	return `{type: object, properties: {
		size: {type: integer},
		byID: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [` + idKey + `], items: {type: object, required: [` + idKey + `],
			properties: {id: {type: integer}, port: {type: integer}, value: {type: string}}}},
		named: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name, protocol], items: {type: object, required: [name],
			properties: {name: {type: string}, protocol: {type: string, default: TCP}, value: {type: string}}}},
		tags: {type: array, x-kubernetes-list-type: set, items: {type: string}},
		args: {type: array, x-kubernetes-list-type: atomic, items: {type: string}}}}`
}

func crdsOf(t *testing.T) (crds dynamic.ResourceInterface, things dynamic.Interface) {
	t.Helper()
	_, untyped := clients(t, "somebody")
	return untyped.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}), untyped
}

// thingCRD returns the CRD of the Things of a group, with this schema of their
// spec and these versions, of which the first one is stored.
func thingCRD(t *testing.T, group, spec string, versions ...string) *unstructured.Unstructured {
	t.Helper()
	if len(versions) == 0 {
		versions = []string{"v1"}
	}
	crd := manifest(t, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.`+group+`},
		spec: {group: `+group+`, names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}, scope: Namespaced}}`)
	var all []any
	for i, version := range versions {
		all = append(all, map[string]any{
			"name": version, "served": true, "storage": i == 0, "subresources": map[string]any{"status": map[string]any{}},
			"schema": map[string]any{"openAPIV3Schema": manifest(t, `{type: object, properties: {spec: `+spec+`,
				status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`)},
		})
	}
	crd["spec"].(map[string]any)["versions"] = all
	return &unstructured.Unstructured{Object: crd}
}

// installThing installs the CRD of the Things of a group, and returns when the API
// server serves them. It doesn't wait for their schema.
func installThing(t *testing.T, group, spec string, versions ...string) {
	t.Helper()
	installCRD(t, group, thingCRD(t, group, spec, versions...))
}

// installCRD is installThing with the given CRD.
func installCRD(t *testing.T, group string, crd *unstructured.Unstructured) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			deleteThings(t, group)
		}
	})
	createCRD(t, group, crd)
}

// createThing is installThing for a CRD that was deleted.
func createThing(t *testing.T, group, spec string, versions ...string) {
	t.Helper()
	createCRD(t, group, thingCRD(t, group, spec, versions...))
}

func createCRD(t *testing.T, group string, crd *unstructured.Unstructured) {
	t.Helper()
	crds, things := crdsOf(t)
	_, err := crds.Create(t.Context(), crd, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, "things are served", func() bool {
		_, err := things.Resource(plural(thingOf(group))).List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
}

// deleteThings deletes the CRD of the Things of a group, and returns when it is
// gone.
func deleteThings(t *testing.T, group string) {
	t.Helper()
	_, untyped := clients(t, "somebody")
	crds := untyped.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	ctx := t.Context()
	if ctx.Err() != nil { // in a cleanup
		ctx = context.WithoutCancel(ctx)
	}
	err := crds.Delete(ctx, "things."+group, metav1.DeleteOptions{})
	require.True(t, err == nil || apierrors.IsNotFound(err), "%v", err)
	require.Eventually(t, func() bool {
		_, err := crds.Get(ctx, "things."+group, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}, patience, 20*time.Millisecond)
}

// A gate stands before the schemas of the API server.
type gate struct {
	mu       sync.Mutex
	closed   bool
	requests []string                      // those for schemas, with their query
	each     func(req *http.Request) error // called for each request for a schema; may be nil
}

// behind returns the cluster's configuration behind the gate.
func (g *gate) behind() *rest.Config {
	cfg := cluster.RESTConfig()
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if !strings.HasPrefix(req.URL.Path, "/openapi/") {
				return next.RoundTrip(req)
			}
			g.mu.Lock()
			closed, each := g.closed, g.each
			g.requests = append(g.requests, req.URL.RequestURI())
			g.mu.Unlock()
			if closed {
				return nil, errors.New("the gate is closed")
			}
			if each != nil {
				if err := each(req); err != nil {
					return nil, err
				}
			}
			return next.RoundTrip(req)
		})
	})
	return cfg
}

func (g *gate) shut(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = closed
}

func (g *gate) asked() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.requests...)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
