package fakeapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/apirequest"
	"github.com/roperator/roperator/resource"
)

// A Request is one that a client made.
type Request struct {
	Verb        string // get, list, watch, create, update, patch, apply, delete or deletecollection
	Type        resource.Type
	Key         types.NamespacedName // of a list or watch, the namespace alone; of a create, with the name in the body
	Subresource string
	DryRun      bool
	Query       url.Values
	ContentType string
	Body        []byte
	UserAgent   string
}

// Writes says whether the verb is one that changes objects.
func (r Request) Writes() bool {
	return !slices.Contains([]string{"get", "list", "watch"}, r.Verb)
}

// String returns "verb Kind namespace/name", with the subresource after the
// verb.
func (r Request) String() string {
	verb := r.Verb
	if r.Subresource != "" {
		verb += " " + r.Subresource
	}
	name := r.Key.Name
	if r.Key.Namespace != "" {
		name = r.Key.String()
	}
	return fmt.Sprintf("%s %s %s", verb, r.Type.Kind, name)
}

// RoundTrip answers a request. It is http.RoundTripper's.
func (s *Server) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		defer req.Body.Close()
		var err error
		if body, err = apirequest.Body(req); err != nil {
			return nil, err
		}
	}
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	if isReview(req) {
		return s.review(req, body)
	}
	if resp, ok := s.discovery(req); ok {
		return resp, nil
	}
	k, r, ok := s.route(req)
	if !ok {
		return failure(req, apierrors.NewGenericServerResponse(http.StatusNotFound, req.Method, schema.GroupResource{}, "", "no such path", 0, true))
	}
	r.Body = body
	noted := r
	if r.Verb == "create" && r.Key.Name == "" {
		noted.Key.Name = apirequest.NameIn(body)
	}
	s.mu.Lock()
	if !s.mu.unnoted {
		s.mu.requests = append(s.mu.requests, noted)
	}
	hooks := s.mu.hooks
	s.mu.Unlock()
	if hooks.Before != nil {
		if err := hooks.Before(noted); err != nil {
			return failure(req, err)
		}
	}
	resp, err := s.serve(req, k, r, hooks.Admit)
	if err == nil && hooks.After != nil {
		err = hooks.After(noted)
	}
	if err != nil {
		resp, err = failure(req, err)
	}
	if err == nil && hooks.Warn != nil {
		warn(resp, hooks.Warn(noted))
	}
	return resp, err
}

// route reads a request for objects.
func (s *Server) route(req *http.Request) (*Kind, Request, bool) {
	info := apirequest.Parse(req)
	query, apiVersion := req.URL.Query(), info.Resource.GroupVersion().String()
	kinds := s.served()
	at := slices.IndexFunc(kinds, func(k *Kind) bool {
		return k.Type.APIVersion == apiVersion && k.Plural == info.Resource.Resource
	})
	if at < 0 || info.Rest != "" {
		return nil, Request{}, false
	}
	k := kinds[at]
	r := Request{
		Verb: info.Verb, Type: k.Type, Key: types.NamespacedName{Namespace: info.Namespace, Name: info.Name}, Subresource: info.Subresource,
		DryRun: query.Get("dryRun") == metav1.DryRunAll, Query: query,
		ContentType: req.Header.Get("Content-Type"), UserAgent: req.UserAgent(),
	}
	return k, r, r.Subresource == "" || r.Subresource == "status" && k.Status
}

func (s *Server) serve(req *http.Request, k *Kind, r Request, admit func(Request, map[string]any) error) (*http.Response, error) {
	switch {
	case (r.Verb == "create") == (r.Key.Name != "") && r.Verb != "list" && r.Verb != "watch":
		return nil, apierrors.NewMethodNotSupported(k.groupResource(), r.Verb)
	case !k.ClusterScoped && r.Key.Namespace == "" && (r.Key.Name != "" || r.Verb == "create"):
		return nil, apierrors.NewBadRequest("an empty namespace may not be set here")
	case r.Verb == "apply" && k.fields == nil:
		return nil, unsupported(k, r)
	}
	switch r.Verb {
	case "list", "watch":
		v, err := viewOf(k, r)
		if err != nil {
			return nil, err
		}
		if r.Verb == "watch" {
			return s.watch(req, v, r)
		}
		list, err := s.list(v, r)
		if err != nil {
			return nil, err
		}
		return answer(req, http.StatusOK, list)
	case "get":
		s.mu.Lock()
		object, err := s.getLocked(k, r.Key)
		s.mu.Unlock()
		if err != nil {
			return nil, err
		}
		return respond(req, http.StatusOK, object.raw), nil
	case "delete":
		return s.delete(req, k, r)
	}
	object, warnings, err := s.write(k, r, admit)
	if err != nil {
		return nil, err
	}
	code := http.StatusOK
	if r.Verb == "create" {
		code = http.StatusCreated
	}
	return warn(respond(req, code, object.raw), warnings), nil
}

// discovery answers what isn't about objects.
func (s *Server) discovery(req *http.Request) (*http.Response, bool) {
	path := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	var apiVersion string
	switch {
	case len(path) == 1 && (path[0] == "api" || path[0] == "apis"):
		resp, err := answer(req, http.StatusOK, s.groups(path[0] == "api"))
		return resp, err == nil
	case len(path) == 2 && path[0] == "api":
		apiVersion = path[1]
	case len(path) == 3 && path[0] == "apis":
		apiVersion = path[1] + "/" + path[2]
	default:
		return nil, false
	}
	list := metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"},
		GroupVersion: apiVersion,
	}
	for _, k := range s.shown() {
		if k.Type.APIVersion != apiVersion {
			continue
		}
		r := metav1.APIResource{
			Name: k.Plural, Kind: k.Type.Kind, Namespaced: !k.ClusterScoped,
			Verbs: metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"},
		}
		list.APIResources = append(list.APIResources, r)
		if k.Status {
			r.Name, r.Verbs = k.Plural+"/status", metav1.Verbs{"get", "patch", "update"}
			list.APIResources = append(list.APIResources, r)
		}
	}
	var resp *http.Response
	var err error
	if len(list.APIResources) == 0 {
		resp, err = failure(req, apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{}, "", apiVersion, 0, true))
	} else {
		resp, err = answer(req, http.StatusOK, list)
	}
	return resp, err == nil
}

// groups answers which groups and versions are served.
func (s *Server) groups(core bool) any {
	versions := map[string][]metav1.GroupVersionForDiscovery{} // by group
	var names []string
	for _, k := range s.shown() {
		gv := k.Type.GroupVersionKind().GroupVersion()
		one := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		if versions[gv.Group] == nil && gv.Group != "" {
			names = append(names, gv.Group)
		}
		if !slices.Contains(versions[gv.Group], one) {
			versions[gv.Group] = append(versions[gv.Group], one)
		}
	}
	if core {
		out := &metav1.APIVersions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIVersions"}}
		for _, v := range versions[""] {
			out.Versions = append(out.Versions, v.Version)
		}
		return out
	}
	out := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}}
	for _, name := range names {
		out.Groups = append(out.Groups, metav1.APIGroup{Name: name, Versions: versions[name], PreferredVersion: versions[name][0]})
	}
	return out
}

// failure answers with an API error; any other one is a broken connection.
func failure(req *http.Request, err error) (*http.Response, error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return nil, err
	}
	body := status.Status()
	body.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return answer(req, int(body.Code), body)
}

func respond(req *http.Request, code int, body []byte) *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), StatusCode: code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header:        http.Header{"Content-Type": {"application/json"}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
	}
}
