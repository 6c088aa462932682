package apischema_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/yaml"

	"github.com/roperator/roperator/internal/apischema"
	"github.com/roperator/roperator/internal/testing/plane"
	"github.com/roperator/roperator/resource"
)

// A server is an API server that is asked what it thinks of objects. It stores none.
type server struct {
	t       *testing.T
	client  rest.Interface
	config  *rest.Config
	served  map[resource.Type]resource.Mapping
	checker *apischema.Checker
}

// TestServer compares the Checker with an API server.
func TestServer(t *testing.T) {
	shared := startServer(t)
	for name, compare := range map[string]func(*server){
		"ValidObjects": (*server).acceptsValidObjects, "Fields": (*server).hasNoUnknownFields, "Mutations": (*server).agreesAboutMutations,
	} {
		t.Run(name, func(t *testing.T) {
			s := *shared
			s.t = t
			compare(&s)
		})
	}
}

// startServer runs an API server that serves all it can, until the test ends.
func startServer(t *testing.T) *server {
	t.Helper()
	if testing.Short() {
		t.Skip("needs an API server, which -short leaves out")
	}
	p, err := plane.New(plane.Options{Dir: t.TempDir(), ServerFlags: map[string]string{"runtime-config": "api/all=true"}})
	require.NoError(t, err)
	t.Cleanup(p.Stop)
	require.NoError(t, p.Start(t.Context()))
	config := p.Config()
	config.WarningHandlerWithContext = rest.NoWarnings{}
	s := &server{t: t, config: config, served: map[resource.Type]resource.Mapping{}}
	s.checker, err = apischema.New()
	require.NoError(t, err)
	plain := rest.CopyConfig(config)
	plain.GroupVersion, plain.NegotiatedSerializer = &schema.GroupVersion{}, scheme.Codecs.WithoutConversion()
	s.client, err = rest.UnversionedRESTClientFor(plain)
	require.NoError(t, err)
	_, lists, err := discovery.NewDiscoveryClientForConfigOrDie(config).ServerGroupsAndResources()
	require.NoError(t, err)
	for _, list := range lists {
		for _, r := range list.APIResources {
			if !strings.Contains(r.Name, "/") {
				typ := resource.Type{APIVersion: list.GroupVersion, Kind: r.Kind}
				s.served[typ] = resource.Mapping{Type: typ, Plural: r.Name, ClusterScoped: !r.Namespaced}
			}
		}
	}
	return s
}

// create asks the server to create an object, strictly and without doing it, and returns its
// answer: 201, or the code and the text of an error.
func (s *server) create(object map[string]any) (code int, text string) {
	m, ok := s.served[typeOf(object)]
	require.True(s.t, ok, "%s isn't served", typeOf(object))
	gv := m.Type.GroupVersionKind().GroupVersion()
	url := "/apis/" + gv.String()
	if gv.Group == "" {
		url = "/api/" + gv.Version
	}
	if !m.ClusterScoped {
		url += "/namespaces/default"
	}
	body, err := json.Marshal(object)
	require.NoError(s.t, err)
	err = s.client.Post().AbsPath(url+"/"+m.Plural).Param("dryRun", "All").Param("fieldValidation", "Strict").
		SetHeader("Content-Type", "application/json").Body(body).Do(context.Background()).Error()
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return http.StatusCreated, ""
	case errors.As(err, &status):
		return int(status.Status().Code), err.Error()
	}
	return 0, err.Error()
}

// parallel calls f for each number below n, several at a time.
func parallel(n int, f func(i int)) { workqueue.ParallelizeUntil(context.Background(), 8, n, f) }

func typeOf(object map[string]any) resource.Type {
	u := unstructured.Unstructured{Object: object}
	return resource.TypeFor(u.GroupVersionKind())
}

// validObjects returns those of testdata/valid.yaml.
func validObjects(t *testing.T) []map[string]any {
	t.Helper()
	text, err := os.ReadFile("testdata/valid.yaml")
	require.NoError(t, err)
	var out []map[string]any
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		raw, err := yaml.YAMLToJSON([]byte(doc))
		require.NoError(t, err)
		var u unstructured.Unstructured
		require.NoError(t, json.Unmarshal(raw, &u.Object), doc)
		out = append(out, normal(t, u.Object))
	}
	return out
}

// otherVersions returns the objects of version v1 in the other versions of their kinds, of those
// that have none of their own.
func (s *server) otherVersions(objects []map[string]any) []map[string]any {
	own := map[resource.Type]bool{}
	for _, object := range objects {
		own[typeOf(object)] = true
	}
	var out []map[string]any
	for _, object := range objects {
		gvk := typeOf(object).GroupVersionKind()
		for typ := range s.served {
			if other := typ.GroupVersionKind(); gvk.Version == "v1" && other.GroupKind() == gvk.GroupKind() && !own[typ] {
				copied := runtime.DeepCopyJSON(object)
				copied["apiVersion"] = typ.APIVersion
				out = append(out, copied)
			}
		}
	}
	return out
}

// normal returns an object with the Go types that unstructured objects have.
func normal(t *testing.T, object any) map[string]any {
	t.Helper()
	text, err := json.Marshal(object)
	require.NoError(t, err)
	out := &unstructured.Unstructured{}
	require.NoError(t, out.UnmarshalJSON(text))
	return out.Object
}

func nameOf(object map[string]any) string {
	name, _, _ := unstructured.NestedString(object, "metadata", "name")
	return fmt.Sprintf("%s %s", typeOf(object), name)
}

// acceptsValidObjects: what an API server accepts has no problem, neither as a map nor as a typed
// object, which has zeros and nulls besides.
func (s *server) acceptsValidObjects() {
	t := s.t
	covered := map[string]bool{}
	objects := validObjects(t)
	for _, object := range append(objects, s.otherVersions(objects)...) {
		t.Run(nameOf(object), func(t *testing.T) {
			code, text := s.create(object)
			require.Equal(t, http.StatusCreated, code, text)
			require.Empty(t, s.checker.Check(object, true))
			covered[typeOf(object).String()] = true

			typed, err := scheme.Scheme.New(typeOf(object).GroupVersionKind())
			if runtime.IsNotRegisteredError(err) {
				return
			}
			require.NoError(t, err)
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object, typed))
			raw, err := json.Marshal(typed)
			require.NoError(t, err)
			var encoded map[string]any
			require.NoError(t, json.Unmarshal(raw, &encoded))
			delete(encoded, "status") // as an operator does
			code, text = s.create(encoded)
			require.Equal(t, http.StatusCreated, code, text)
			require.Empty(t, s.checker.Check(encoded, true))
		})
	}
	for typ := range s.served {
		if s.checker.Knows(typ) && typ.Kind != "ComponentStatus" { // which nobody can create
			require.True(t, covered[typ.String()], "testdata/valid.yaml has no object of %s", typ)
		}
	}
}
