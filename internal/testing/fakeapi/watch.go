package fakeapi

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/roperator/roperator/resource/k8s"
)

// An event is a change of an object: from was (nil: created) to is, or to
// nothing (then last is its last state, with the version of the deletion).
type event struct {
	version       int64
	kind          *Kind
	was, is, last *stored
}

func (s *Server) logLocked(e event) {
	s.mu.log = append(s.mu.log, e)
	if s.mu.hooks.Changed != nil {
		s.mu.hooks.Changed(e.was.tree(), e.is.tree())
	}
	if s.mu.hooks.Touched != nil {
		of := e.is
		if of == nil {
			of = e.last
		}
		s.mu.hooks.Touched(e.kind.Type, types.NamespacedName{Namespace: of.namespace, Name: of.name})
	}
	s.wake.all()
}

// A view is what a list or watch selects.
type view struct {
	kind      *Kind
	namespace string
	selector  labels.Selector
	fields    fields.Selector
}

// viewOf returns what a list or watch selects.
func viewOf(k *Kind, r Request) (*view, error) {
	selector, err := labels.Parse(r.Query.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(r.Query.Get("fieldSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	for _, req := range byField.Requirements() {
		if !slices.Contains(k.selectable(), req.Field) {
			return nil, apierrors.NewBadRequest("field label not supported: " + req.Field)
		}
	}
	return &view{k, r.Key.Namespace, selector, byField}, nil
}

func (v *view) selects(object *stored) bool {
	return object != nil && (v.namespace == "" || v.namespace == object.namespace) && v.selector.Matches(object.labels) &&
		(v.fields.Empty() || v.fields.Matches(v.fieldsOf(object)))
}

// selectable are the fields by which objects of a kind can be selected: of all, and of those built-in ones that
// operators look for by more.
func (k *Kind) selectable() []string {
	out := []string{"metadata.name", "metadata.namespace"}
	if k.reader == nil {
		return out
	}
	switch k.Type {
	case k8s.Pod:
		return append(out, "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase", "status.podIP")
	case k8s.Secret:
		return append(out, "type")
	case k8s.Namespace:
		return append(out, "status.phase")
	}
	return out
}

// fieldsOf returns those fields of an object that a selector is about. What isn't set is empty.
func (v *view) fieldsOf(object *stored) fields.Set {
	out := fields.Set{"metadata.name": object.name, "metadata.namespace": object.namespace}
	var tree map[string]any
	for _, req := range v.fields.Requirements() {
		if strings.HasPrefix(req.Field, "metadata.") {
			continue
		}
		if tree == nil {
			tree = object.tree()
		}
		out[req.Field], _, _ = unstructured.NestedString(tree, strings.Split(req.Field, ".")...)
	}
	return out
}

func (s *Server) selectedLocked(v *view) []*stored {
	items := []*stored{}
	for _, key := range slices.SortedFunc(maps.Keys(s.mu.objects[v.kind]), compareKeys) {
		if object := s.mu.objects[v.kind][key]; v.selects(object) {
			items = append(items, object)
		}
	}
	return items
}

// watch opens a stream. As in kube-apiserver, one that is to begin with the
// list, or names no resourceVersion, begins with an ADDED for each object; only
// the former ends those with a bookmark.
func (s *Server) watch(req *http.Request, v *view, r Request) (*http.Response, error) {
	st := &stream{
		server: s, view: *v, ended: req.Context().Done(), closed: make(chan struct{}),
		bookmarks: r.Query.Get("allowWatchBookmarks") == "true",
	}
	if seconds, err := strconv.Atoi(r.Query.Get("timeoutSeconds")); err == nil {
		st.timeout = time.NewTimer(time.Duration(seconds) * time.Second)
	} else {
		st.timeout = time.NewTimer(time.Hour)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st.epoch, st.bookmark = s.mu.epoch, s.mu.bookmark
	initial := r.Query.Get("sendInitialEvents") == "true"
	version := r.Query.Get("resourceVersion")
	switch {
	case initial && (s.mu.noStream || !st.bookmarks || r.Query.Get("resourceVersionMatch") != string(metav1.ResourceVersionMatchNotOlderThan)):
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "ListOptions"}, "", nil)
	case initial && s.futureLocked(version):
		return nil, tooLarge()
	case initial || version == "" || version == "0":
		for _, object := range s.selectedLocked(&st.view) {
			st.send(watch.Added, object.raw)
		}
		st.at = s.mu.version
		if initial {
			st.sendBookmark(map[string]any{metav1.InitialEventsAnnotationKey: "true"})
		}
	default:
		at, err := strconv.ParseInt(version, 10, 64)
		if err != nil {
			return nil, apierrors.NewBadRequest("invalid resource version: " + version)
		}
		st.at = at
	}
	resp := respond(req, http.StatusOK, nil)
	resp.Body, resp.ContentLength = st, -1
	return resp, nil
}

// A stream is the body of the answer to a watch.
type stream struct {
	server          *Server
	view            view
	bookmarks       bool
	ended           <-chan struct{}
	timeout         *time.Timer
	at              int64 // how far it has come
	epoch, bookmark int64
	buf             []byte
	over            bool

	once   sync.Once
	closed chan struct{}
}

// Read returns the frames of what has happened, and blocks while there is
// nothing. It ends with io.EOF, as a connection does that the server closes.
func (st *stream) Read(p []byte) (int, error) {
	for len(st.buf) == 0 {
		changed := st.server.wake.next()
		if st.over {
			return 0, io.EOF
		}
		st.fill()
		if len(st.buf) > 0 || st.over {
			continue
		}
		select {
		case <-changed:
		case <-st.timeout.C:
			return 0, io.EOF
		case <-st.ended:
			return 0, io.ErrUnexpectedEOF
		case <-st.closed:
			return 0, io.ErrClosedPipe
		}
	}
	n := copy(p, st.buf)
	if st.buf = st.buf[n:]; len(st.buf) == 0 {
		st.buf = nil // a first list may have been long
	}
	return n, nil
}

// Close ends a Read that blocks.
func (st *stream) Close() error {
	st.once.Do(func() { close(st.closed) })
	st.timeout.Stop()
	return nil
}

// fill takes what has happened since.
func (st *stream) fill() {
	s := st.server
	s.mu.Lock()
	defer s.mu.Unlock()
	st.over = s.mu.withdrawn[st.view.kind.Type] || !slices.Contains(s.mu.kinds, st.view.kind)
	switch {
	case st.epoch != s.mu.epoch:
		st.over = true
		return
	case s.mu.held[st.view.kind.Type]:
		return
	case st.at < s.mu.compacted:
		status := apierrors.NewResourceExpired("too old resource version").Status()
		status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		raw, err := json.Marshal(status)
		if err != nil {
			raw = []byte("{}") // can't be
		}
		st.send(watch.Error, raw)
		st.over = true
		return
	}
	first, _ := slices.BinarySearchFunc(s.mu.log, st.at+1, func(e event, at int64) int { return int(e.version - at) })
	for _, e := range s.mu.log[first:] {
		if e.kind == st.view.kind {
			st.deliver(&e)
		}
	}
	future := st.at > s.mu.version // a watch from there is silent until the server gets there
	st.at = max(st.at, s.mu.version)
	if st.bookmark != s.mu.bookmark {
		st.bookmark = s.mu.bookmark
		if st.bookmarks && !future {
			st.sendBookmark(nil)
		}
	}
}

// deliver sends an event as it looks through the selector.
func (st *stream) deliver(e *event) {
	was, is := st.view.selects(e.was), st.view.selects(e.is)
	switch {
	case is && was:
		st.send(watch.Modified, e.is.raw)
	case is:
		st.send(watch.Added, e.is.raw)
	case was && e.is == nil:
		st.send(watch.Deleted, e.last.raw)
	case was:
		left := e.was.tree()
		metaOf(left)["resourceVersion"] = strconv.FormatInt(e.version, 10)
		st.send(watch.Deleted, keep(left).raw)
	}
}

func (st *stream) sendBookmark(annotations map[string]any) {
	meta := map[string]any{"resourceVersion": strconv.FormatInt(st.at, 10)}
	if annotations != nil {
		meta["annotations"] = annotations
	}
	t := st.view.kind.Type
	st.send(watch.Bookmark, keep(map[string]any{"apiVersion": t.APIVersion, "kind": t.Kind, "metadata": meta}).raw)
}

func (st *stream) send(t watch.EventType, object []byte) {
	st.buf = fmt.Appendf(st.buf, `{"type":%q,"object":%s}`+"\n", t, object)
}

// A broadcast tells any number of goroutines that something has happened.
type broadcast struct {
	mu sync.Mutex
	c  chan struct{}
}

func newBroadcast() *broadcast { return &broadcast{c: make(chan struct{})} }

// next returns a channel that the next call of all closes.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.c
}

func (b *broadcast) all() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.c)
	b.c = make(chan struct{})
}
