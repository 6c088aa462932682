package reconcile

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
	"github.com/roperator/roperator/internal/defaults"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/object"
	"github.com/roperator/roperator/internal/testing/budget"
	"github.com/roperator/roperator/internal/testing/sample"
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
	responseMarks      = []any{nil, "", "*", "data*", "v2:op:0:" + strings.Repeat("0", 32) + ":spec{containers[name:a{env}]}", strings.Repeat("(", 2000), "a{b"}
)

// A responseSource makes responses of bytes.
type responseSource struct{ *sample.ByteSource }

func oneOf[T any](s *responseSource, list []T) T { return list[s.Below(len(list))] }

func (s *responseSource) childObject() map[string]any {
	meta := map[string]any{"name": []any{"a", "b"}[s.Below(2)]}
	out := map[string]any{"apiVersion": "v1", "kind": oneOf(s, []any{"ConfigMap", "Pod", "PersistentVolumeClaim", "Deployment"}), "metadata": meta}
	if out["kind"] == "Deployment" {
		out["apiVersion"] = "apps/v1"
	}
	for range s.Below(4) {
		out[oneOf(s, responseFields)] = s.content(4)
	}
	switch s.Below(24) { // else it is a child that is only odd inside
	case 0:
		out["metadata"] = s.Value(2)
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
func (s *responseSource) oddMetadata(meta map[string]any) {
	for range s.Below(3) {
		switch s.Below(9) {
		case 0:
			meta["labels"] = map[string]any{oneOf(s, responseLabels): oneOf(s, responseTexts)}
		case 1:
			meta["annotations"] = map[string]any{"roperator.com/applied": oneOf(s, responseMarks), "a": oneOf(s, responseTexts)}
		case 2:
			meta["ownerReferences"] = []any{map[string]any{
				"apiVersion": "v1", "kind": "Node", "name": oneOf(s, responseNames), "uid": oneOf(s, responseTexts), "controller": s.Below(2) == 0,
			}}
		case 3:
			meta["generateName"] = oneOf(s, responseTexts)
		case 4:
			meta["uid"], meta["resourceVersion"] = oneOf(s, responseTexts), oneOf(s, responseTexts)
		case 5:
			meta["finalizers"] = s.Scalars()
		case 6:
			meta["deletionTimestamp"] = oneOf(s, responseTexts)
		case 7:
			meta[oneOf(s, []string{"labels", "annotations", "ownerReferences", "managedFields", "generation"})] = s.Value(2)
		}
	}
}

func (s *responseSource) content(depth int) any {
	if depth == 0 || s.Below(4) == 0 {
		return s.Value(0)
	}
	if s.Below(3) == 0 {
		list := []any{}
		for range s.Below(4) {
			list = append(list, s.content(depth-1))
		}
		return list
	}
	out := map[string]any{}
	for range s.Below(4) {
		out[oneOf(s, responseFields)] = s.content(depth - 1)
	}
	return out
}

// responsePlanner plans for the answer that a test gives.
func responsePlanner(t *testing.T, clusterScoped bool, resp **handler.SyncResponse) (*OfflinePlanner, *resource.Resource) {
	t.Helper()
	cfg := sample.Operator()
	cfg.Mappings[0].ClusterScoped = clusterScoped
	meta := map[string]any{"name": "p", "namespace": "ns", "uid": "uid-of-parent", "resourceVersion": "1", "generation": int64(1)}
	if clusterScoped {
		delete(meta, "namespace")
		cfg.Children = append(cfg.Children, config.Child{Type: k8s.Namespace, Strategy: config.Replace})
	}
	h := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) { return *resp, nil })
	parent, err := resource.New(map[string]any{"apiVersion": "example.com/v1", "kind": "Hello", "metadata": meta})
	require.NoError(t, err)
	planner, err := NewOfflinePlanner(defaults.Apply(cfg), h)
	require.NoError(t, err)
	return planner, parent
}

// observe returns an object as one of parent's, nil if it can't be one.
func (o *OfflinePlanner) observe(parent *resource.Resource, obj map[string]any) *resource.Resource {
	meta, ok := obj["metadata"].(map[string]any)
	k := o.settings.Types.Of(typeIn(obj))
	if !ok || k == nil || k == o.settings.Types.Parent {
		return nil
	}
	delete(meta, "namespace")
	if k.Namespaced {
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
	s := &responseSource{&sample.ByteSource{Data: decisions}}
	var resp *handler.SyncResponse
	planner, parent := responsePlanner(t, s.Below(8) == 1, &resp)
	var observed []*resource.Resource
	for range s.Below(4) {
		if child := planner.observe(parent, s.childObject()); child != nil {
			observed = append(observed, child)
		}
	}
	resp = &handler.SyncResponse{KeepChildren: s.Below(20) == 1, Resync: time.Duration(s.Below(4)-s.Below(50)/49) * time.Second}
	switch s.Below(12) {
	case 1, 2:
		resp.Status = s.content(3)
	case 3:
		resp.Status = json.RawMessage(raw)
	}
	if raw != "" {
		resp.Children = append(resp.Children, []byte(raw))
	}
	for range s.Below(5) {
		switch s.Below(24) {
		case 0:
			resp.Children = append(resp.Children, s.Value(1))
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
	left := map[object.Ref]*resource.Resource{}
	for child := range req.Children.All() {
		left[object.RefOf(child)] = child
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
func (o *OfflinePlanner) checkAction(t *testing.T, parent *resource.Resource, left map[object.Ref]*resource.Resource, a plan.ForeseenAction) bool {
	t.Helper()
	k := o.settings.Types.Of(a.Type)
	require.NotNil(t, k, "%s isn't a child type", a.Type)
	require.NotEqual(t, o.settings.Types.Parent, k)
	require.Equal(t, a.Type, typeIn(a.Object))
	meta, _ := a.Object["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	namespace, _ := meta["namespace"].(string)
	require.NotEmpty(t, name)
	require.Equal(t, k.Namespaced, namespace != "")
	if parent.Namespace() != "" {
		require.Equal(t, parent.Namespace(), namespace)
	}
	ref := object.Ref{Type: a.Type}
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
		f.Add("", sample.RandomDecisions(rand.New(rand.NewPCG(seed, 2))))
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

// TestResponseProperties runs what the fuzzer checks on random input. make fuzz searches further.
func TestResponseProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range budget.Runs(1200) {
		checkResponse(t, "", sample.RandomDecisions(r))
	}
}
