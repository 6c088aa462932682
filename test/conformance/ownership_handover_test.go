package conformance

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
)

// scalable is a Deployment with this image and, unless it is negative, this number
// of replicas.
func scalable(image string, replicas int32) *appsv1.Deployment {
	d := typedDeployment()
	d.Spec.Template.Spec.Containers[0].Image = image
	if d.Spec.Replicas = &replicas; replicas < 0 {
		d.Spec.Replicas = nil
	}
	return d
}

// ownsReplicas says whether the operator owns the replicas of a child, by
// managedFields.
func ownsReplicas(s *stage, of *appsv1.Deployment) bool {
	s.t.Helper()
	typed, _ := clients(s.t, "somebody")
	live, err := typed.AppsV1().Deployments(s.Namespace).Get(s.t.Context(), of.Name, metav1.GetOptions{})
	require.NoError(s.t, err)
	for _, entry := range live.ManagedFields {
		text, err := json.Marshal(entry)
		require.NoError(s.t, err)
		if entry.Manager == s.config.Name && strings.Contains(string(text), `"f:replicas"`) {
			return true
		}
	}
	return false
}

func TestC159_FieldHandedOver(t *testing.T) {
	scenario(t, "C159", "handler.Leave hands a field over without a moment in which it is unset: it keeps its live value, isn't owned, and is owned again when Leave is taken back")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			s := newStage(t, "c159-"+lower(strategy), config.Child{Type: k8s.Deployment, Strategy: strategy})
			s.want(scalable("example.com/a", 2))
			s.want(scalable("example.com/a", 3)) // by the strategy's own write
			require.True(t, ownsReplicas(s, typedDeployment()))

			s.want(handler.Leave(scalable("example.com/a", -1), "spec.replicas"))
			require.EqualValues(t, 3, s.field(typedDeployment(), "spec", "replicas"))
			require.False(t, ownsReplicas(s, typedDeployment()), "so that another manager's apply is no conflict")
			typed, _ := clients(t, "autoscaler")
			scale := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"typed"},"spec":{"replicas":5}}`
			_, err := typed.AppsV1().Deployments(s.Namespace).Patch(t.Context(), "typed", types.ApplyPatchType, []byte(scale), metav1.PatchOptions{FieldManager: "autoscaler"})
			require.NoError(t, err)

			s.want(handler.Leave(scalable("example.com/b", 1), "spec.replicas")) // what is said of it counts for nothing
			require.EqualValues(t, 5, s.field(typedDeployment(), "spec", "replicas"))
			s.Eventually(scalable("example.com/b", -1), patience)
			require.False(t, ownsReplicas(s, typedDeployment()))
			version := s.Get(typedDeployment()).ResourceVersion()
			s.want(handler.Leave(scalable("example.com/b", 2), "spec.replicas"))
			s.want(handler.Leave(scalable("example.com/b", -1), "spec.replicas"))
			require.Equal(t, version, s.Get(typedDeployment()).ResourceVersion(), "it is no part of the desired state")
			s.restart()
			s.want(handler.Leave(scalable("example.com/c", -1), "spec.replicas"))
			require.EqualValues(t, 5, s.field(typedDeployment(), "spec", "replicas"))

			s.ask(handler.Leave(scalable("example.com/c", -1), "spec.replicas[", "spec..x"))
			failing(t, s.Kit, s.it(), `Deployment typed: handler.Leave: field path "spec.replicas["`)

			s.ask(scalable("example.com/c", 2))
			s.Eventually(scalable("example.com/c", 2), patience)
			settle(t, s.Kit)
			s.silent()
		})
	}
}

func TestC159b_FieldLeftFromTheStart(t *testing.T) {
	scenario(t, "C159b", "a field that is left to others has the handler's value when the child is created, in whatever form the child is returned")
	child := configMap("left", "a", "1")
	child["data"] = map[string]any{"a": "1", "b": "1"}
	raw, err := json.Marshal(child)
	require.NoError(t, err)
	typed := configMapNamed("left")
	typed.Data = map[string]string{"a": "1", "b": "1"}
	for name, form := range map[string]any{
		"map": child, "json": json.RawMessage(raw), "unstructured": &unstructured.Unstructured{Object: child}, "typed": typed,
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, "c159-"+name, configMapChild())
			s.want(handler.Leave(handler.Leave(form, "data.b"), `metadata.annotations["example.com/a"]`))
			require.Equal(t, "1", s.field(child, "data", "b"))
			patchData(t, s.Namespace, "left", `{"b":"theirs"}`)
			settle(t, s.Kit)
			require.Equal(t, map[string]any{"a": "1", "b": "theirs"}, s.field(child, "data"))
			patchData(t, s.Namespace, "left", `{"a":"theirs"}`)
			s.Eventually(configMap("left", "a", "1"), patience)
			settle(t, s.Kit)
			require.Equal(t, "theirs", s.field(child, "data", "b"))
			s.answer(func(req *handler.SyncRequest) *handler.SyncResponse {
				live, _ := req.Children.Find(child)
				return &handler.SyncResponse{Children: []any{handler.Leave(handler.Keep(live), "data.b")}}
			})
			settle(t, s.Kit)
			require.Empty(t, s.errors())
			patchData(t, s.Namespace, "left", `{"a":"kept"}`)
			settle(t, s.Kit)
			require.Equal(t, "kept", s.field(child, "data", "a"), "Keep goes further")
		})
	}
}

// patchData merges data into a ConfigMap as somebody else would.
func patchData(t *testing.T, namespace, name, data string) {
	t.Helper()
	typed, _ := clients(t, "somebody")
	_, err := typed.CoreV1().ConfigMaps(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(`{"data":`+data+`}`), metav1.PatchOptions{})
	require.NoError(t, err)
}
