package storm

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/util/retry"

	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/resource"
)

// Live is a cluster on which runs happen, each in a namespace of its own.
type Live struct {
	RESTConfig *rest.Config
	// Managed says that the cluster's own controllers work: the garbage collector, and those
	// of built-in types. Otherwise the run does what is needed of their work.
	Managed bool
}

const liveTimeout = time.Minute // of a request; it only bounds a hang

// A liveServer is a namespace of a real API server.
type liveServer struct {
	*Live
	under     http.RoundTripper // with the credentials of RESTConfig
	client    dynamic.Interface
	namespace string
	kinds     []fakeapi.Kind
	touched   func(t resource.Type, key types.NamespacedName)

	mu struct {
		sync.Mutex
		watches map[*liveWatch]bool
	}
}

// serve returns the kinds as the cluster serves them. All must be namespaced.
func (l *Live) serve(kinds []fakeapi.Kind) ([]fakeapi.Kind, error) {
	client, err := discovery.NewDiscoveryClientForConfig(l.RESTConfig)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	groups, err := restmapper.GetAPIGroupResources(client)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	out := slices.Clone(kinds)
	for i, k := range out {
		gvk := k.Type.GroupVersionKind()
		mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return nil, fmt.Errorf("cluster: %s: %w; is its CustomResourceDefinition among ClusterOptions.CRDPaths?", k.Type, err)
		}
		if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
			return nil, fmt.Errorf("cluster: %s is cluster-scoped: runs would meet each other's objects. Storm, which needs no cluster, can run this operator", k.Type)
		}
		out[i].Plural = mapping.Resource.Resource
	}
	return out, nil
}

// open makes a namespace for a run.
func (l *Live) open(ctx context.Context, kinds []fakeapi.Kind) (*liveServer, error) {
	rc := rest.CopyConfig(l.RESTConfig)
	rc.QPS = -1
	under, err := rest.TransportFor(rc)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	client, err := dynamic.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	s := &liveServer{Live: l, under: under, client: client, kinds: kinds}
	s.mu.watches = map[*liveWatch]bool{}
	namespace := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"generateName": "storm-"}}}
	namespace.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
	made, err := client.Resource(namespaces()).Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("cluster: a namespace for a run: %w", err)
	}
	s.namespace = made.GetName()
	return s, nil
}

func namespaces() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
}

// close deletes the namespace, with all that is in it.
func (s *liveServer) close() {
	ctx, cancel := context.WithTimeout(context.Background(), liveTimeout)
	defer cancel()
	for _, k := range s.kinds {
		for _, r := range s.List(k.Type) {
			_, _ = s.Change(k.Type, r.Key(), func(o map[string]any) { unstructured.RemoveNestedField(o, "metadata", "finalizers") })
			_ = s.Delete(k.Type, r.Key())
		}
	}
	_ = s.client.Resource(namespaces()).Delete(ctx, s.namespace, metav1.DeleteOptions{}) // a cluster that only tests use may have leftovers
}

// RESTConfig returns a configuration for an operator whose transport carries its requests here.
func (s *liveServer) RESTConfig() *rest.Config {
	return &rest.Config{Host: s.Live.RESTConfig.Host, QPS: -1}
}

// RoundTrip carries a request of the operator.
func (s *liveServer) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := s.under.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusOK && req.URL.Query().Get("watch") != "" {
		w := &liveWatch{ReadCloser: resp.Body, server: s}
		s.mu.Lock()
		s.mu.watches[w] = true
		s.mu.Unlock()
		resp.Body = w
	}
	return resp, err
}

// A liveWatch is the body of a watch, which can be broken.
type liveWatch struct {
	io.ReadCloser
	server *liveServer
}

// Close is io.Closer's.
func (w *liveWatch) Close() error {
	w.server.mu.Lock()
	delete(w.server.mu.watches, w)
	w.server.mu.Unlock()
	return w.ReadCloser.Close()
}

// BreakWatches breaks the connections of all watches.
func (s *liveServer) BreakWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.mu.watches {
		_ = w.ReadCloser.Close()
	}
	clear(s.mu.watches)
}

// Compact does nothing: an API server compacts when it likes.
func (s *liveServer) Compact() {}

// Bookmark does nothing: an API server sends bookmarks when it likes.
func (s *liveServer) Bookmark() {}

func (s *liveServer) of(t resource.Type) dynamic.ResourceInterface {
	at := slices.IndexFunc(s.kinds, func(k fakeapi.Kind) bool { return k.Type == t })
	if at < 0 {
		return s.client.Resource(schema.GroupVersionResource{Resource: "none"}) // the API server says so
	}
	return s.client.Resource(t.GroupVersionKind().GroupVersion().WithResource(s.kinds[at].Plural)).Namespace(s.namespace)
}

// Get returns an object, nil if it isn't there.
func (s *liveServer) Get(t resource.Type, key types.NamespacedName) *resource.Resource {
	ctx, cancel := context.WithTimeout(context.Background(), liveTimeout)
	defer cancel()
	object, err := s.of(t).Get(ctx, key.Name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	r, err := resource.New(object)
	if err != nil {
		return nil
	}
	return r
}

// List returns the objects of a type in the namespace, by name.
func (s *liveServer) List(t resource.Type) (out []*resource.Resource) {
	ctx, cancel := context.WithTimeout(context.Background(), liveTimeout)
	defer cancel()
	list, err := s.of(t).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	for i := range list.Items {
		if r, err := resource.New(&list.Items[i]); err == nil {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *resource.Resource) int { return strings.Compare(a.Name(), b.Name()) })
	return out
}

// Create creates an object.
func (s *liveServer) Create(object map[string]any) (*resource.Resource, error) {
	ctx, cancel := context.WithTimeout(context.Background(), liveTimeout)
	defer cancel()
	o := (&unstructured.Unstructured{Object: object}).DeepCopy()
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	made, err := s.of(resource.TypeFor(o.GroupVersionKind())).Create(ctx, o, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return resource.New(made)
}

// Change changes an object and its status.
func (s *liveServer) Change(t resource.Type, key types.NamespacedName, change func(object map[string]any)) (out *resource.Resource, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), liveTimeout)
	defer cancel()
	client := s.of(t)
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		was, err := client.Get(ctx, key.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		is := was.DeepCopy()
		change(is.Object)
		status, had := is.Object["status"], was.Object["status"]
		if is.Object["status"] = had; had == nil {
			delete(is.Object, "status")
		}
		live := was
		if !reflect.DeepEqual(is.Object, was.Object) {
			if live, err = client.Update(ctx, is, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		if !reflect.DeepEqual(status, had) {
			live.Object["status"] = status
			if live, err = client.UpdateStatus(ctx, live, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		out, err = resource.New(live)
		return err
	})
	return out, err
}

// Delete deletes an object.
func (s *liveServer) Delete(t resource.Type, key types.NamespacedName) error {
	ctx, cancel := context.WithTimeout(context.Background(), liveTimeout)
	defer cancel()
	return s.of(t).Delete(ctx, key.Name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
}

// CollectGarbage deletes objects whose owners are gone, unless the cluster does so. It returns them.
func (s *liveServer) CollectGarbage() (deleted []*resource.Resource) {
	if s.Managed {
		return nil
	}
	lives := map[types.UID]bool{}
	var all []*resource.Resource
	for _, k := range s.kinds {
		for _, r := range s.List(k.Type) {
			all, lives[r.UID()] = append(all, r), true
		}
	}
	for _, r := range all {
		owners := r.OwnerReferences()
		if len(owners) > 0 && !r.IsDeleting() && !slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return lives[o.UID] }) {
			if s.Delete(r.Type(), r.Key()) == nil {
				deleted = append(deleted, r)
			}
		}
	}
	return deleted
}

func (s *liveServer) tell(touched func(t resource.Type, key types.NamespacedName)) {
	s.touched = touched
}

// run looks for what has changed until ctx ends.
func (s *liveServer) run(ctx context.Context) {
	ticker := time.NewTicker(liveLook)
	defer ticker.Stop()
	last := map[object.Ref]string{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		versions := map[object.Ref]string{}
		for _, k := range s.kinds {
			for _, r := range s.List(k.Type) {
				versions[object.RefOf(r)] = string(r.UID()) + r.ResourceVersion()
			}
		}
		for one, version := range versions {
			if last[one] != version {
				s.touched(one.Type, one.Key)
			}
		}
		for one := range last {
			if _, exists := versions[one]; !exists {
				s.touched(one.Type, one.Key)
			}
		}
		last = versions
	}
}

const liveLook = 300 * time.Millisecond // between two looks
