package definitions

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/internal/crd"
	"github.com/roperator/roperator/internal/engine/client"
)

const (
	group    = "example.com"
	live     = "widgets." + group // the name of the definition
	operator = "widgets-operator"
	history  = "roperator.example.com/crd-history"
)

// A server is an API server with one CustomResourceDefinition at most, and its objects. It
// does as kube-apiserver does, but for an apply: that replaces the spec as a whole.
type server struct {
	*testing.T
	log bytes.Buffer

	mu          sync.Mutex
	live        map[string]any    // the definition; nil: there is none
	objects     map[string]string // name -> the version that it is stored in
	uids        int
	establishes time.Duration              // how long after its creation the definition is served
	created     time.Time                  // when it was
	conditions  map[string]any             // further conditions: type -> status
	before      func(request string) error // is called without the lock, with "VERB path"; an error is the answer
	writes      []string                   // those that weren't dry runs
}

func newServer(t *testing.T) *server {
	return &server{T: t, objects: map[string]string{}, before: func(string) error { return nil }, conditions: map[string]any{}}
}

// beforeNth calls do before the n-th request that begins so. Its error is the answer.
func (s *server) beforeNth(n int, request string, do func() error) {
	s.before = func(r string) error {
		if strings.HasPrefix(r, request) {
			if n--; n == 0 {
				return do()
			}
		}
		return nil
	}
}

// room returns a room of the operator.
func (s *server) room() *Room {
	log := slog.New(slog.NewTextHandler(&s.log, nil))
	l, err := client.Connect(&rest.Config{Host: "http://server", Transport: s, QPS: -1}, log)
	require.NoError(s, err)
	room, err := New(l, operator, "roperator.example.com", log)
	require.NoError(s, err)
	return room
}

// install has a build of the operator install a definition.
func (s *server) install(text string, opts Options) error {
	parsed, err := crd.Parse([]byte(text))
	require.NoError(s, err)
	return s.room().Install(s.Context(), parsed, opts)
}

// text returns a definition with these versions, each a name and the further fields of spec. The
// last one is stored.
func text(versions ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "{apiVersion: %s, kind: %s, metadata: {name: %s}, spec: {group: %s, scope: Namespaced, names: {kind: Widget, plural: widgets}, versions: [", crd.APIVersion, crd.Kind, live, group)
	for i, v := range versions {
		version, fields, _ := strings.Cut(v, " ")
		fmt.Fprintf(&b, "{name: %s, served: true, storage: %t, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}%s}}}}}}, ",
			version, i == len(versions)-1, fields)
	}
	return b.String() + "]}}"
}

// RoundTrip answers a request.
func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	err := s.before(req.Method + " " + req.URL.Path)
	if _, is := err.(apierrors.APIStatus); err != nil && !is {
		return nil, err // nobody answers
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out any
	if err == nil {
		out, err = s.answer(req)
	}
	code := http.StatusOK
	if status, is := err.(apierrors.APIStatus); is {
		answer := status.Status()
		answer.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		out, code = answer, int(answer.Code)
	}
	raw, err := json.Marshal(out)
	require.NoError(s, err)
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(raw)), Request: req}, nil
}

func (s *server) answer(req *http.Request) (any, error) {
	var body any
	if req.Body != nil {
		raw, err := io.ReadAll(req.Body)
		require.NoError(s, err)
		require.NoError(s, kjson.Unmarshal(raw, &body))
	}
	path, isDefinition := strings.CutPrefix(req.URL.Path, definitionsPath+"/"+resourceName)
	if !isDefinition {
		return s.objectsAnswer(req)
	}
	dryRun := req.URL.Query().Get("dryRun") != ""
	if req.Method != http.MethodGet && !dryRun {
		s.writes = append(s.writes, req.Method+" "+path)
	}
	kept, objects := clone(s.live), maps.Clone(s.objects)
	out, err := s.definition(req, strings.HasSuffix(path, "/status"), body)
	if dryRun {
		s.live, s.objects = kept, objects
	}
	return out, err
}

func (s *server) definition(req *http.Request, status bool, body any) (any, error) {
	resource := schema.GroupResource{Group: "apiextensions.k8s.io", Resource: resourceName}
	given, _ := body.(map[string]any)
	switch {
	case req.Method == http.MethodPost && s.live != nil:
		return nil, apierrors.NewAlreadyExists(resource, live)
	case req.Method == http.MethodPost:
		s.uids++
		s.created = time.Now()
		s.live = clone(given)
		meta := s.meta()
		meta["uid"], meta["generation"], meta["resourceVersion"] = fmt.Sprint("uid-", s.uids), int64(1), fmt.Sprint(1000*s.uids)
		meta["managedFields"] = []any{s.entry("Update")}
		s.live["status"] = map[string]any{"storedVersions": []any{crd.Of(s.live).Storage().Name}}
		return s.live, nil
	case s.live == nil:
		return nil, apierrors.NewNotFound(resource, live)
	case req.Method == http.MethodGet:
		return s.withConditions(), nil
	}
	if version := metaOf(given)["resourceVersion"]; version != nil && version != s.meta()["resourceVersion"] {
		return nil, apierrors.NewConflict(resource, live, fmt.Errorf("the object has been modified"))
	}
	switch {
	case status:
		s.live["status"] = map[string]any{"storedVersions": given["status"].(map[string]any)["storedVersions"]}
		s.changed(false)
	case strings.HasPrefix(req.Header.Get("Content-Type"), "application/json-patch"):
		return s.live, s.patch(body.([]any))
	default:
		s.apply(given)
	}
	return s.live, nil
}

// apply applies a definition.
func (s *server) apply(given map[string]any) {
	meta, spec := s.meta(), clone(given["spec"].(map[string]any))
	annotations, _ := meta["annotations"].(map[string]any)
	annotations = maps.Clone(annotations)
	wanted, _ := metaOf(given)["annotations"].(map[string]any)
	maps.Copy(annotations, wanted)
	before, _ := json.Marshal(s.live)
	changes, _ := json.Marshal(s.live["spec"])
	meta["annotations"], s.live["spec"] = annotations, spec
	stored := s.live["status"].(map[string]any)["storedVersions"].([]any)
	if version := any(crd.Of(s.live).Storage().Name); !slices.Contains(stored, version) {
		s.live["status"] = map[string]any{"storedVersions": append(slices.Clone(stored), version)}
	}
	after, _ := json.Marshal(s.live)
	is, _ := json.Marshal(spec)
	if !bytes.Equal(before, after) {
		s.changed(!bytes.Equal(changes, is))
		entries := slices.DeleteFunc(slices.Clone(meta["managedFields"].([]any)), func(e any) bool { return e.(map[string]any)["operation"] == "Apply" })
		meta["managedFields"] = append(entries, s.entry("Apply"))
	}
}

// patch carries out the JSON patch of a claim.
func (s *server) patch(ops []any) error {
	if version := ops[0].(map[string]any)["value"]; version != s.meta()["resourceVersion"] {
		return apierrors.NewInvalid(schema.GroupKind{}, live, nil)
	}
	op := ops[1].(map[string]any)
	at, err := strconv.Atoi(strings.Split(op["path"].(string), "/")[3])
	require.NoError(s, err)
	entries := s.meta()["managedFields"].([]any)
	if op["op"] == "remove" {
		entries = slices.Delete(slices.Clone(entries), at, at+1)
	} else {
		entries[at].(map[string]any)["operation"] = op["value"]
	}
	s.meta()["managedFields"] = entries
	s.changed(false)
	return nil
}

func (s *server) entry(operation string) map[string]any {
	return map[string]any{"manager": operator, "operation": operation, "time": time.Now().UTC().Format(time.RFC3339)}
}

func (s *server) meta() map[string]any { return metaOf(s.live) }

func metaOf(object map[string]any) map[string]any {
	m, _ := object["metadata"].(map[string]any)
	return m
}

// changed gives the definition another resourceVersion.
func (s *server) changed(spec bool) {
	version, err := strconv.Atoi(s.meta()["resourceVersion"].(string))
	require.NoError(s, err)
	s.meta()["resourceVersion"] = fmt.Sprint(version + 1)
	if spec {
		s.meta()["generation"] = s.meta()["generation"].(int64) + 1
	}
}

func (s *server) established() bool { return time.Since(s.created) >= s.establishes }

func (s *server) withConditions() map[string]any {
	conditions := []any{map[string]any{"type": "Established", "status": map[bool]string{true: "True", false: "False"}[s.established()], "message": "the initial names have been accepted"}}
	for name, status := range s.conditions {
		conditions = append(conditions, map[string]any{"type": name, "status": status, "message": "of somebody else"})
	}
	out := clone(s.live)
	out["status"].(map[string]any)["conditions"] = conditions
	return out
}

// objectsAnswer answers a request about a group version, or about objects.
func (s *server) objectsAnswer(req *http.Request) (any, error) {
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/") // apis, group, version, …
	missing := apierrors.NewNotFound(schema.GroupResource{Group: group, Resource: "widgets"}, parts[len(parts)-1])
	if s.live == nil || !s.established() || crd.Of(s.live).Version(parts[2]) == nil {
		return nil, missing
	}
	switch {
	case len(parts) == 3:
		return map[string]any{"resources": []any{map[string]any{"name": "widgets"}}}, nil
	case req.Method == http.MethodGet:
		names := slices.Sorted(maps.Keys(s.objects))
		from, _ := strconv.Atoi(req.URL.Query().Get("continue"))
		limit, _ := strconv.Atoi(req.URL.Query().Get("limit"))
		var list metav1.PartialObjectMetadataList
		for i := from; i < len(names); i++ {
			if limit > 0 && i == from+limit {
				list.Continue = fmt.Sprint(i)
				break
			}
			list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: names[i]}})
		}
		return list, nil
	}
	object := parts[len(parts)-1]
	if s.objects[object] == "" {
		return nil, missing
	}
	s.objects[object] = crd.Of(s.live).Storage().Name
	return map[string]any{}, nil
}

// store has objects stored in another version.
func (s *server) store(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	spec := clone(s.live["spec"].(map[string]any))
	for _, v := range spec["versions"].([]any) {
		v.(map[string]any)["storage"] = v.(map[string]any)["name"] == version
	}
	s.apply(map[string]any{"metadata": map[string]any{}, "spec": spec})
}

// stored returns status.storedVersions.
func (s *server) stored() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return (&installed{object: s.live}).stored()
}

// spec returns the spec as text.
func (s *server) spec() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	raw, err := json.Marshal(s.live["spec"])
	require.NoError(s, err)
	return string(raw)
}

// clone returns a copy of JSON values.
func clone(object map[string]any) (out map[string]any) {
	if object == nil {
		return nil
	}
	raw, err := json.Marshal(object)
	if err == nil {
		err = kjson.Unmarshal(raw, &out)
	}
	if err != nil {
		panic(err)
	}
	return out
}
