package runner

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/probe"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// What a response is drawn from: names that meet, types that are children and
// ones that aren't, metadata that is the handler's to set and that isn't.
var (
	responseVersions   = []any{"v1", "apps/v1", "v1", "v1", "example.com/v1", "", nil, int64(5), "v1/v2"}
	responseKinds      = []any{"ConfigMap", "Pod", "Deployment", "Namespace", "PersistentVolumeClaim", "Hello", "Secret", "", nil, []any{}}
	responseNames      = []any{"a", "b", "c", "a", "../a", "", nil, int64(1), "A", strings.Repeat("n", 300)}
	responseNamespaces = []any{nil, "", "ns", "ns", nil, "other", int64(2), "a/b"}
	responseLabels     = []string{"app", "roperator.com/parent-uid", "roperator.com/operator", "a b", ""}
	responseTexts      = []any{"v", "uid-of-parent", "hello", "uid-of-another", "", nil, int64(3), map[string]any{}, "not a label!"}
	responseFields     = []string{"spec", "data", "template", "containers", "env", "name", "resources", "limits", "cpu", "ports", "value", "status", "replicas"}
	responseMarks      = []any{nil, "", "*", "data*", "v1:0:spec{containers[name:a{env}]}", strings.Repeat("(", 2000), "a{b"}
)

func oneOf[T any](s *byteSource, list []T) T { return list[s.below(len(list))] }

func (s *byteSource) childObject() map[string]any {
	meta := map[string]any{"name": []any{"a", "b"}[s.below(2)]}
	out := map[string]any{"apiVersion": "v1", "kind": oneOf(s, []any{"ConfigMap", "Pod", "PersistentVolumeClaim", "Deployment"}), "metadata": meta}
	if out["kind"] == "Deployment" {
		out["apiVersion"] = "apps/v1"
	}
	for range s.below(4) {
		out[oneOf(s, responseFields)] = s.content(4)
	}
	switch s.below(24) { // else it is a child that is only odd inside
	case 0:
		out["metadata"] = s.value(2)
	case 1:
		out["apiVersion"] = oneOf(s, responseVersions)
	case 2:
		out["kind"] = oneOf(s, responseKinds)
	case 3:
		meta["name"] = oneOf(s, responseNames)
	case 4:
		meta["namespace"] = oneOf(s, responseNamespaces)
	case 5, 6, 7, 8, 9:
		s.oddMetadata(meta)
	}
	return out
}

// oddMetadata sets what isn't the handler's to set, or of the wrong type.
func (s *byteSource) oddMetadata(meta map[string]any) {
	for range s.below(3) {
		switch s.below(9) {
		case 0:
			meta["labels"] = map[string]any{oneOf(s, responseLabels): oneOf(s, responseTexts)}
		case 1:
			meta["annotations"] = map[string]any{"roperator.com/applied": oneOf(s, responseMarks), "a": oneOf(s, responseTexts)}
		case 2:
			meta["ownerReferences"] = []any{map[string]any{
				"apiVersion": "v1", "kind": "Node", "name": oneOf(s, responseNames), "uid": oneOf(s, responseTexts), "controller": s.below(2) == 0,
			}}
		case 3:
			meta["generateName"] = oneOf(s, responseTexts)
		case 4:
			meta["uid"], meta["resourceVersion"] = oneOf(s, responseTexts), oneOf(s, responseTexts)
		case 5:
			meta["finalizers"] = s.scalars()
		case 6:
			meta["deletionTimestamp"] = oneOf(s, responseTexts)
		case 7:
			meta[oneOf(s, []string{"labels", "annotations", "ownerReferences", "managedFields", "generation"})] = s.value(2)
		}
	}
}

func (s *byteSource) content(depth int) any {
	if depth == 0 || s.below(4) == 0 {
		return s.value(0)
	}
	if s.below(3) == 0 {
		list := []any{}
		for range s.below(4) {
			list = append(list, s.content(depth-1))
		}
		return list
	}
	out := map[string]any{}
	for range s.below(4) {
		out[oneOf(s, responseFields)] = s.content(depth - 1)
	}
	return out
}

// responsePlanner plans for the answer that a test gives.
func responsePlanner(t *testing.T, clusterScoped bool, resp **handler.SyncResponse) (*offlinePlanner, *resource.Resource) {
	t.Helper()
	cfg := sampleOperator()
	cfg.Mappings[0].ClusterScoped = clusterScoped
	meta := map[string]any{"name": "p", "namespace": "ns", "uid": "uid-of-parent", "resourceVersion": "1", "generation": int64(1)}
	if clusterScoped {
		delete(meta, "namespace")
		cfg.Children = append(cfg.Children, config.Child{Type: k8s.Namespace, Strategy: config.Replace})
	}
	types, err := offlineCatalog(cfg)
	require.NoError(t, err)
	cfg.Domain, cfg.TrackingLabel, cfg.OwnershipLabel = config.DefaultDomain, config.DefaultDomain+"/parent-uid", config.DefaultDomain+"/operator"
	h := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) { return *resp, nil })
	parent, err := resource.New(map[string]any{"apiVersion": "example.com/v1", "kind": "Hello", "metadata": meta})
	require.NoError(t, err)
	return &offlinePlanner{cfg: cfg, handler: h, types: types}, parent
}

// observe returns an object as one of parent's, nil if it can't be one.
func (o *offlinePlanner) observe(parent *resource.Resource, obj map[string]any) *resource.Resource {
	meta, ok := obj["metadata"].(map[string]any)
	k := o.types.byType[typeIn(obj)]
	if !ok || k == nil || k == o.types.parent {
		return nil
	}
	delete(meta, "namespace")
	if k.namespaced {
		meta["namespace"] = "ns"
	}
	meta["uid"], meta["resourceVersion"] = "uid-of-child", "1"
	o.Adopt(obj, parent)
	res, err := resource.New(obj)
	if err != nil {
		return nil
	}
	return res
}

func typeIn(obj map[string]any) resource.Type {
	version, _ := obj["apiVersion"].(string)
	kind, _ := obj["kind"].(string)
	return resource.Type{APIVersion: version, Kind: kind}
}

// namesTheTrouble: which child or field of the response an error is about.
var namesTheTrouble = regexp.MustCompile(`child \d+: .*(:|: not an object|nil)|status|Resync|Events`)

// checkResponse plans for any response and any state: an error that says what
// is wrong, or actions that are all within the parent's reach, after which
// there is nothing left to do.
func checkResponse(t *testing.T, raw string, decisions []byte) {
	t.Helper()
	s := &byteSource{data: decisions}
	var resp *handler.SyncResponse
	planner, parent := responsePlanner(t, s.below(8) == 1, &resp)
	var observed []*resource.Resource
	for range s.below(4) {
		if child := planner.observe(parent, s.childObject()); child != nil {
			observed = append(observed, child)
		}
	}
	resp = &handler.SyncResponse{KeepChildren: s.below(20) == 1, Resync: time.Duration(s.below(4)-s.below(50)/49) * time.Second}
	switch s.below(12) {
	case 1, 2:
		resp.Status = s.content(3)
	case 3:
		resp.Status = json.RawMessage(raw)
	}
	if raw != "" {
		resp.Children = append(resp.Children, []byte(raw))
	}
	for range s.below(5) {
		switch s.below(24) {
		case 0:
			resp.Children = append(resp.Children, s.value(1))
		case 1:
			if len(observed) > 0 {
				resp.Children = append(resp.Children, handler.Keep(observed[0]))
			}
		default:
			resp.Children = append(resp.Children, s.childObject())
		}
	}
	req := &handler.SyncRequest{Parent: parent, Children: handler.NewChildren(observed...)}
	planned, err := planner.Plan(t.Context(), req)
	if err != nil {
		require.Regexp(t, namesTheTrouble, err.Error())
		return
	}
	left := map[objectRef]*resource.Resource{}
	for child := range req.Children.All() {
		left[refOf(child)] = child
	}
	for _, a := range planned.Actions {
		if !planner.checkAction(t, parent, left, a) {
			return
		}
	}
	var rest []*resource.Resource
	for _, child := range left {
		rest = append(rest, child)
	}
	again, err := planner.Plan(t.Context(), &handler.SyncRequest{Parent: parent, Children: handler.NewChildren(rest...)})
	require.NoError(t, err)
	require.Empty(t, again.Actions, "a plan that was carried out leaves nothing to do")
}

// checkAction requires that an action stays within the parent's reach, and
// carries it out; false if an API server would refuse the metadata.
func (o *offlinePlanner) checkAction(t *testing.T, parent *resource.Resource, left map[objectRef]*resource.Resource, a probe.Action) bool {
	t.Helper()
	k := o.types.byType[a.Type]
	require.NotNil(t, k, "%s isn't a child type", a.Type)
	require.NotEqual(t, o.types.parent, k)
	require.Equal(t, a.Type, typeIn(a.Object))
	meta, _ := a.Object["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	namespace, _ := meta["namespace"].(string)
	require.NotEmpty(t, name)
	require.Equal(t, k.namespaced, namespace != "")
	if parent.Namespace() != "" {
		require.Equal(t, parent.Namespace(), namespace)
	}
	ref := objectRef{Type: a.Type}
	ref.Key.Namespace, ref.Key.Name = namespace, name
	live := left[ref]
	delete(left, ref)
	require.Equal(t, a.Verb == "create", live == nil, "%s %s", a.Verb, ref)
	if a.Verb == "delete" {
		return true
	}
	require.True(t, slices.Contains([]string{"create", "update", "recreate"}, a.Verb), a.Verb)
	meta["uid"], meta["resourceVersion"] = "uid-of-"+name, "2"
	o.Adopt(a.Object, parent)
	res, err := resource.New(a.Object)
	if err != nil {
		return false
	}
	left[ref] = res
	return true
}

func FuzzResponse(f *testing.F) {
	for seed := range uint64(20) {
		f.Add("", randomDecisions(rand.New(rand.NewPCG(seed, 2))))
	}
	for _, raw := range []string{
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}`,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"ns"},"spec":{"containers":[{"name":"a"},{"name":"a"}]}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"a":null}}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","ownerReferences":[null,{"uid":"uid-of-parent"},{}]}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":` + strings.Repeat(`{"a":`, 12000) + `1` + strings.Repeat("}", 12001),
		`{"kind":`, `[]`, `null`, `{"metadata":[]}`, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"a":1e400}`,
	} {
		f.Add(raw, []byte{0, 1, 2, 3})
	}
	f.Fuzz(checkResponse)
}

// TestResponseProperties runs what the fuzzer checks on random input.
func TestResponseProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	n := 4000
	if testing.Short() {
		n = 1000
	}
	for range n {
		checkResponse(t, "", randomDecisions(r))
	}
}
