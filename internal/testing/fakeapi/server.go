package fakeapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/resource"
)

// Hooks let a test take part in requests. Each but Changed and Touched is called without a
// lock held, so that it may block, and use the server. Nil hooks do nothing.
type Hooks struct {
	// Before is called before a request is carried out, After before it is
	// answered. An API error (apierrors.StatusError) is the answer, any other
	// error a connection that broke.
	Before, After func(Request) error
	// Changed is called for each change, with the object before (nil: it was
	// created) and after (nil: it is gone), under the server's lock: it must not
	// use the server.
	Changed func(was, is map[string]any)
	// Touched is called as Changed is, with no more than which object has changed.
	Touched func(t resource.Type, key types.NamespacedName)
	// Admit may change the object of a create or update, as an admission
	// webhook would, or refuse it with an error.
	Admit func(r Request, object map[string]any) error
	// Warn returns the warnings that the answer to a request is to have.
	Warn func(Request) []string
	// Review answers a client that asks whether it has a right. Requests are served all
	// the same. Errors are as those of Before.
	Review func(asked authorizationv1.ResourceAttributes) (authorizationv1.SubjectAccessReviewStatus, error)
}

// A Server is an API server. It is safe for concurrent use.
type Server struct {
	wake *broadcast // something has changed that watches wait for

	mu struct {
		sync.Mutex
		kinds     []*Kind
		hooks     Hooks
		version   int64
		uids      int64
		lives     map[string]int64 // of objects by their names, if these make the UIDs
		names     int64            // that were made of generateName
		objects   map[*Kind]map[types.NamespacedName]*stored
		log       []event // oldest first
		compacted int64   // what is older has left the log
		held      map[resource.Type]bool
		withdrawn map[resource.Type]bool // types that aren't served
		hidden    map[resource.Type]bool // types of which the discovery doesn't tell
		epoch     int64                  // watches from earlier ones end
		bookmark  int64                  // counts the bookmarks that were asked for
		noStream  bool
		maxPage   int             // 0: as many objects as the client wants
		pages     map[string]page // by continue token
		tokens    []string        // their keys, oldest first
		requests  []Request
		unnoted   bool // requests aren't kept
	}
}

// New returns a Server of these kinds and Events.
func New(kinds ...Kind) *Server {
	s := &Server{wake: newBroadcast()}
	s.mu.version = 100
	s.mu.objects = map[*Kind]map[types.NamespacedName]*stored{}
	s.mu.pages = map[string]page{}
	s.mu.held = map[resource.Type]bool{}
	s.mu.withdrawn, s.mu.hidden = map[resource.Type]bool{}, map[resource.Type]bool{}
	for _, k := range append(slices.Clone(kinds), Events()) {
		if k.Applies {
			k.fields, _ = k.fieldManager() // without one, what is applied is unsupported
		}
		s.mu.kinds = append(s.mu.kinds, &k)
		s.mu.objects[&k] = map[types.NamespacedName]*stored{}
	}
	return s
}

// RESTConfig returns a configuration whose requests end up here.
func (s *Server) RESTConfig() *rest.Config {
	return &rest.Config{Host: "http://fakeapi", Transport: s, QPS: -1}
}

// SetHooks replaces the hooks.
func (s *Server) SetHooks(h Hooks) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.hooks = h
}

// NameUIDs has the UID of an object follow from its type, its name, and how many of that name there
// were before. So it doesn't depend on the order of creations.
func (s *Server) NameUIDs() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.lives = map[string]int64{}
}

// Requests returns what clients have asked for so far, discovery and reviews of rights
// aside.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mu.requests)
}

// NoteRequests says whether Requests has those to come. They hold memory, which
// counts where there are very many.
func (s *Server) NoteRequests(noted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.unnoted = !noted
}

// Writes returns the requests that may have changed an object of another kind
// than Event, as "verb Kind namespace/name".
func (s *Server) Writes() []string {
	var out []string
	for _, r := range s.Requests() {
		if r.Writes() && !r.DryRun && r.Type != Events().Type {
			out = append(out, r.String())
		}
	}
	return out
}

// Hold keeps the events of these types from the watches until Release.
func (s *Server) Hold(held ...resource.Type) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range held {
		s.mu.held[t] = true
	}
}

// Release lets the watches of these types go on; without a type, every watch.
func (s *Server) Release(released ...resource.Type) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(released) == 0 {
		clear(s.mu.held)
	}
	for _, t := range released {
		delete(s.mu.held, t)
	}
	s.wake.all()
}

// Bookmark sends a bookmark to every watch that takes them.
func (s *Server) Bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.bookmark++
	s.wake.all()
}

// BreakWatches ends every watch.
func (s *Server) BreakWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.epoch++
	s.wake.all()
}

// Compact forgets all that has changed so far: a watch from an earlier
// resourceVersion is answered with 410, as is the next page of an earlier list.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.version++ // so that the version that clients know is too old
	s.mu.compacted = s.mu.version
	s.mu.log = nil
	clear(s.mu.pages)
	s.mu.tokens = nil
	s.wake.all()
}

// RefuseWatchLists makes the server one that can't stream a list.
func (s *Server) RefuseWatchLists() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.noStream = true
}

// LimitPages makes the server one that sends at most n objects of a list to
// who asks for pages.
func (s *Server) LimitPages(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.maxPage = n
}

// Version returns the resourceVersion of the last change.
func (s *Server) Version() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.version
}

// Create creates an object for somebody who is no client: without hooks, and
// not among Requests.
func (s *Server) Create(object map[string]any) (*resource.Resource, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, key, err := s.find(object)
	if err != nil {
		return nil, err
	}
	return wrap(s.createLocked(k, key.Namespace, clone(object), &writing{by: somebody}))
}

// Change changes an object for somebody who is no client, status included.
func (s *Server) Change(t resource.Type, key types.NamespacedName, change func(object map[string]any)) (*resource.Resource, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kind(t)
	if k == nil || s.mu.objects[k][key] == nil {
		return nil, fmt.Errorf("%s %s: not found", t, key)
	}
	object := s.mu.objects[k][key].tree()
	change(object)
	return wrap(s.storeLocked(k, key, object, writeAll, &writing{by: somebody}))
}

// Delete deletes an object for somebody who is no client.
func (s *Server) Delete(t resource.Type, key types.NamespacedName) error {
	return s.deleteAs(t, key, deletion{})
}

// DeleteInForeground lets an object stay until CollectGarbage has found that
// its dependents are gone.
func (s *Server) DeleteInForeground(t resource.Type, key types.NamespacedName) error {
	return s.deleteAs(t, key, deletion{foreground: true})
}

func (s *Server) deleteAs(t resource.Type, key types.NamespacedName, how deletion) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kind(t)
	if k == nil {
		return fmt.Errorf("%s: not served", t)
	}
	_, _, err := s.deleteLocked(k, key, how)
	return err
}

// Get returns an object as it is now, nil if there is none.
func (s *Server) Get(t resource.Type, key types.NamespacedName) *resource.Resource {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kind(t)
	if k == nil || s.mu.objects[k][key] == nil {
		return nil
	}
	res, err := s.mu.objects[k][key].resource()
	if err != nil {
		return nil // can't be: it was stored
	}
	return res
}

// List returns the objects of a type by namespace and name.
func (s *Server) List(t resource.Type) []*resource.Resource {
	s.mu.Lock()
	k := s.kind(t)
	var keys []types.NamespacedName
	if k != nil {
		keys = slices.SortedFunc(maps.Keys(s.mu.objects[k]), compareKeys)
	}
	s.mu.Unlock()
	var out []*resource.Resource
	for _, key := range keys {
		if res := s.Get(t, key); res != nil {
			out = append(out, res)
		}
	}
	return out
}

func (s *Server) kind(t resource.Type) *Kind {
	for _, k := range s.mu.kinds {
		if k.Type == t && !s.mu.withdrawn[t] {
			return k
		}
	}
	return nil
}

func (s *Server) find(object map[string]any) (*Kind, types.NamespacedName, error) {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	t := resource.Type{APIVersion: apiVersion, Kind: kind}
	k := s.kind(t)
	if k == nil {
		return nil, types.NamespacedName{}, fmt.Errorf("%s: not served", t)
	}
	meta := metaOf(object)
	return k, types.NamespacedName{Namespace: text(meta, "namespace"), Name: text(meta, "name")}, nil
}

func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

func wrap(object *stored, err error) (*resource.Resource, error) {
	if err != nil {
		return nil, err
	}
	return object.resource()
}

// answer returns a response with a JSON body.
func answer(req *http.Request, code int, body any) (*http.Response, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("fakeapi: encode: %w", err)
	}
	return respond(req, code, raw), nil
}
