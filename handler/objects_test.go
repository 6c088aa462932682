package handler

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

func observed(t *testing.T, kind resource.Type, namespace, name string) *resource.Resource {
	t.Helper()
	r, err := resource.New(fmt.Appendf(nil,
		`{"apiVersion":%q,"kind":%q,"metadata":{"namespace":%q,"name":%q,"uid":"u-%s","resourceVersion":"1"},"spec":{"nodeName":"n"}}`,
		kind.APIVersion, kind.Kind, namespace, name, name))
	require.NoError(t, err)
	return r
}

func TestChildren(t *testing.T) {
	b, a := observed(t, k8s.Pod, "x", "b"), observed(t, k8s.Pod, "x", "a")
	w, s := observed(t, k8s.Pod, "w", "c"), observed(t, k8s.Service, "x", "a")
	d := observed(t, k8s.Deployment, "x", "a")
	children := NewChildren(s, b, nil, w, d, a)

	require.Equal(t, 5, children.Len())
	require.Equal(t, []*resource.Resource{d, w, a, b, s}, slices.Collect(children.All()))

	pods := children.OfType(k8s.Pod)
	require.Equal(t, 3, pods.Len())
	require.Equal(t, []*resource.Resource{w, a, b}, slices.Collect(pods.All()))
	first, ok := pods.First()
	require.True(t, ok)
	require.Same(t, w, first)
	got, ok := pods.Get("x", "b")
	require.True(t, ok)
	require.Same(t, b, got)
	require.True(t, pods.Exists("x", "a"))
	require.False(t, pods.Exists("w", "a"), "another namespace is another key")

	none := children.OfType(k8s.Secret)
	require.Zero(t, none.Len())
	_, ok = none.First()
	require.False(t, ok)
	require.Empty(t, slices.Collect(none.All()))
	require.False(t, none.Exists("x", "a"))
}

func TestNoChildren(t *testing.T) {
	for _, children := range []Children{{}, NewChildren(), NewChildren(nil)} {
		require.Zero(t, children.Len())
		require.Empty(t, slices.Collect(children.All()))
		require.Zero(t, children.OfType(k8s.Pod).Len())
		_, ok := children.Find(&corev1.Pod{})
		require.False(t, ok)
		data, err := json.Marshal(children)
		require.NoError(t, err)
		require.Equal(t, "[]", string(data))
	}
}

func TestNewChildrenKeepsTheLastOfEqual(t *testing.T) {
	first, second := observed(t, k8s.Pod, "x", "a"), observed(t, k8s.Pod, "x", "a")
	source := []*resource.Resource{first, second}
	children := NewChildren(source...)
	require.Equal(t, 1, children.Len())
	got, _ := children.OfType(k8s.Pod).First()
	require.Same(t, second, got)
	require.Equal(t, []*resource.Resource{first, second}, source, "the argument stays as it is")
}

func TestFind(t *testing.T) {
	pod, cluster := observed(t, k8s.Pod, "x", "a"), observed(t, k8s.ClusterRole, "", "a")
	children := NewChildren(pod, cluster, observed(t, k8s.Service, "x", "a"),
		observed(t, k8s.Secret, "x", "s"), observed(t, k8s.Secret, "y", "s"))
	meta := metav1.ObjectMeta{Namespace: "x", Name: "a"}
	object := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"namespace": "x", "name": "a"}}
	cases := map[string]struct {
		reason string
		obj    any
		want   *resource.Resource
	}{
		"Typed":         {"TypeMeta comes from client-go's scheme", &corev1.Pod{ObjectMeta: meta}, pod},
		"Map":           {"a map", object, pod},
		"Unstructured":  {"an unstructured object", &unstructured.Unstructured{Object: object}, pod},
		"Apply":         {"an apply configuration", applycorev1.Pod("a", "x"), pod},
		"Resource":      {"itself", pod, pod},
		"Keep":          {"what Keep returns", Keep(pod), pod},
		"ClusterScoped": {"no namespace", map[string]any{"apiVersion": k8s.ClusterRole.APIVersion, "kind": "ClusterRole", "metadata": map[string]any{"name": "a"}}, cluster},
		"NoNamespace":   {"the engine fills in the parent's", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, pod},
		"Ambiguous":     {"there are two", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, nil},
		"Namespace":     {"another namespace", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "y", Name: "a"}}, nil},
		"Name":          {"another name", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "b"}}, nil},
		"NoName":        {"no name", &corev1.Pod{}, nil},
		"Type":          {"another type", &corev1.ConfigMap{ObjectMeta: meta}, nil},
		"Nil":           {"nothing", nil, nil},
		"NotAnObject":   {"no object", "a", nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := children.Find(tc.obj)
			require.Equal(t, tc.want != nil, ok, tc.reason)
			require.Same(t, tc.want, got, tc.reason)
		})
	}
}

func TestSyncRequestJSON(t *testing.T) {
	req := &SyncRequest{
		Parent:   observed(t, resource.Type{APIVersion: "example.com/v1", Kind: "Site"}, "x", "site"),
		Children: NewChildren(observed(t, k8s.Pod, "x", "b"), observed(t, k8s.Pod, "x", "a")),
	}
	data, err := json.Marshal(req)
	require.NoError(t, err)
	require.True(t, json.Valid(data))

	var again SyncRequest
	require.NoError(t, json.Unmarshal(data, &again))
	require.Equal(t, req.Parent.Key(), again.Parent.Key())
	require.Equal(t, 2, again.Children.Len())
	require.True(t, again.Children.OfType(k8s.Pod).Exists("x", "b"))
	repeated, err := json.Marshal(again)
	require.NoError(t, err)
	require.Equal(t, string(data), string(repeated))

	var empty SyncRequest
	data, err = json.Marshal(empty)
	require.NoError(t, err)
	require.JSONEq(t, `{"parent":null,"children":[]}`, string(data))
	require.NoError(t, json.Unmarshal(data, &empty))
	require.Nil(t, empty.Parent)
	require.NoError(t, json.Unmarshal([]byte(`{}`), &empty))
	require.NoError(t, json.Unmarshal([]byte(`{"children":null}`), &empty))
}

func TestSyncRequestJSONRefuses(t *testing.T) {
	cases := map[string]struct{ reason, data, want string }{
		"NotAnObject": {"no request", `[]`, "request: "},
		"Parent":      {"no object", `{"parent":{"kind":"A"}}`, "request: parent: A: missing apiVersion"},
		"Child":       {"no object", `{"children":[{"kind":"A","apiVersion":"v1"}]}`, "children[0]: A: missing metadata.name"},
		"Children":    {"no list", `{"children":{}}`, "children: "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var req SyncRequest
			require.ErrorContains(t, json.Unmarshal([]byte(tc.data), &req), tc.want, tc.reason)
		})
	}
}

func TestAs(t *testing.T) {
	pod := observed(t, k8s.Pod, "x", "a")
	req := &SyncRequest{Parent: pod, Children: NewChildren(pod, observed(t, k8s.Pod, "x", "b"))}

	parent, err := ParentAs[corev1.Pod](req)
	require.NoError(t, err)
	require.Equal(t, "n", parent.Spec.NodeName)
	_, err = ParentAs[corev1.Pod](&SyncRequest{})
	require.EqualError(t, err, "request: no parent")
	_, err = ParentAs[corev1.Pod](nil)
	require.EqualError(t, err, "request: no parent")

	var names []string
	for child, err := range ChildrenAs[*corev1.Pod](req, k8s.Pod) {
		require.NoError(t, err)
		names = append(names, child.Name)
	}
	require.Equal(t, []string{"a", "b"}, names)

	failures := 0
	for _, err := range ChildrenAs[struct {
		Spec int `json:"spec"`
	}](req, k8s.Pod) {
		require.ErrorContains(t, err, "Pod x/a: decode into")
		failures++
		break
	}
	require.Equal(t, 1, failures)
	for _, err := range ChildrenAs[corev1.Pod](nil, k8s.Pod) {
		t.Fatalf("a nil request has no children: %v", err)
	}
}
