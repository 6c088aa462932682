package testkit

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/apirequest"
	"github.com/roperator/roperator/resource"
)

// The verbs that a Write of the engine has. A handler's own client may have others.
const (
	WriteCreate       = "create"
	WriteUpdate       = "update"
	WritePatch        = "patch" // labels, owner references, marks; finalizers of a parent
	WriteApply        = "apply" // a server-side apply
	WriteDelete       = "delete"
	WriteUpdateStatus = "update-status" // of a parent
)

// A Write is a request of the operator that changed an object.
type Write struct {
	// Verb is WriteCreate or another of those constants, or deletecollection. For
	// a subresource it has that one's name: update-status.
	Verb string
	Type resource.Type
	Key  types.NamespacedName
	// Object is what the API server answered: the object after the write. It
	// is nil after a delete that left nothing.
	Object *resource.Resource
}

// String returns "update Deployment namespace/name".
func (w Write) String() string { return w.Verb + " " + describe(w.Type, w.Key) }

// Writes returns each write that the operator has made since the Kit was made,
// in the order in which the API server answered. Requests that were refused
// aren't among them, nor are dry runs, Events and leases.
func (k *Kit) Writes() []Write { return k.writes.all() }

// A recorder notes the writes that pass through it.
type recorder struct {
	mapper meta.RESTMapper
	mu     struct {
		sync.Mutex
		writes []Write
	}
}

func newRecorder(mapper meta.RESTMapper) *recorder { return &recorder{mapper: mapper} }

func (r *recorder) all() []Write {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.mu.writes)
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.mu.writes)
}

func (r *recorder) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper{next, func(req *http.Request) (*http.Response, error) {
		info, isWrite := parseWrite(req)
		resp, err := next.RoundTrip(req)
		if !isWrite || err != nil || resp.StatusCode >= http.StatusMultipleChoices {
			return resp, err
		}
		body, readErr := io.ReadAll(resp.Body)
		_ = resp.Body.Close() // it has been read
		resp.Body = io.NopCloser(&answer{rest: bytes.NewReader(body), err: readErr})
		r.record(info, answeredObject(resp.Header, body))
		return resp, nil
	}}
}

// An answer repeats a body that was read, with the error in which it ended.
type answer struct {
	rest *bytes.Reader
	err  error
}

func (a *answer) Read(p []byte) (int, error) {
	n, err := a.rest.Read(p)
	if err == io.EOF && a.err != nil {
		err = a.err
	}
	return n, err
}

// answeredObject returns nil if the answer is something else.
func answeredObject(header http.Header, body []byte) *resource.Resource {
	if media, _, err := mime.ParseMediaType(header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil
	}
	object, err := resource.New(body)
	if err != nil {
		return nil // a Status, which has no name
	}
	return object
}

func (r *recorder) record(info apirequest.Info, object *resource.Resource) {
	w := Write{Verb: info.Verb, Key: types.NamespacedName{Namespace: info.Namespace, Name: info.Name}, Object: object}
	if info.Subresource != "" {
		w.Verb += "-" + info.Subresource
	}
	switch {
	case object != nil && info.Subresource != "eviction" && info.Subresource != "binding":
		w.Type, w.Key = object.Type(), object.Key()
	default:
		if kind, err := r.mapper.KindFor(info.Resource); err == nil {
			w.Type = resource.TypeFor(kind)
		} else {
			w.Type = resource.Type{APIVersion: info.Resource.GroupVersion().String(), Kind: info.Resource.Resource}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.writes = append(r.mu.writes, w)
}

// parseWrite returns false for requests that change nothing, and for those
// that aren't about the operator's objects.
func parseWrite(req *http.Request) (apirequest.Info, bool) {
	info := apirequest.Parse(req)
	switch info.Verb {
	case "get", "list", "watch":
		return info, false
	}
	if info.Resource.Empty() || uninteresting(info.Resource) {
		return info, false
	}
	return info, !slices.Contains(req.URL.Query()["dryRun"], "All")
}

// uninteresting types are those that an operator reports by and elects its
// leader with, and the questions that are asked by a POST.
func uninteresting(r schema.GroupVersionResource) bool {
	switch r.Group {
	case "events.k8s.io", "coordination.k8s.io", "authorization.k8s.io", "authentication.k8s.io":
		return true
	}
	return r.Group == "" && r.Resource == "events"
}

// validateFields makes every write carry the level of field validation.
func validateFields(level string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper{next, func(req *http.Request) (*http.Response, error) {
			switch req.Method {
			case http.MethodPost, http.MethodPut, http.MethodPatch:
				req = req.Clone(req.Context())
				query := req.URL.Query()
				query.Set("fieldValidation", level)
				req.URL.RawQuery = query.Encode()
			}
			return next.RoundTrip(req)
		}}
	}
}

// A roundTripper does something around next.
type roundTripper struct {
	next http.RoundTripper
	do   func(*http.Request) (*http.Response, error)
}

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r.do(req) }

// WrappedRoundTripper lets client-go find the connections below.
func (r roundTripper) WrappedRoundTripper() http.RoundTripper { return r.next }
