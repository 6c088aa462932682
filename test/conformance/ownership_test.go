package conformance

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// configMapChild is the child type that most scenarios of ownership have.
func configMapChild() config.Child {
	return config.Child{Type: k8s.ConfigMap, Strategy: config.Replace}
}

// failing waits until a parent's pass has failed with this text.
func failing(t *testing.T, kit *testkit.Kit, it any, text string) {
	t.Helper()
	eventually(t, "an error that says "+text, func() bool {
		errs := kit.HandlerErrors(it)
		return len(errs) > 0 && strings.Contains(errs[len(errs)-1].Error(), text)
	})
}

func TestC40_NameTakenByForeignObject(t *testing.T) {
	scenario(t, "C40", "a name taken by a foreign object: error and Event, object unmodified; with Adopt: taken over unless another controller owns it")
	t.Run("Foreign", func(t *testing.T) {
		s := newStage(t, "c40", configMapChild())
		foreign := configMap("taken", "whose", "theirs")
		s.Create(foreign)
		before := s.Get(foreign)
		s.ask(configMap("taken", "whose", "ours"), configMap("free", "k", "v"))
		failing(t, s.Kit, parent("one", nil), "ConfigMap "+s.Namespace+"/taken: already exists and is not managed by c40")
		s.Eventually(configMap("free", "k", "v"), patience)
		eventually(t, "a Warning Event", func() bool { return anyContains(s.Events(parent("one", nil)), "Warning", "already exists") })
		require.Equal(t, before.ResourceVersion(), s.Get(foreign).ResourceVersion())

		s.Delete(foreign)
		s.Eventually(configMap("taken", "whose", "ours"), patience)
		settle(t, s.Kit)
	})
	t.Run("Adopt", func(t *testing.T) {
		child := configMapChild()
		child.Adopt = true
		s := newStage(t, "c40a", child)
		foreign := configMap("taken", "whose", "theirs")
		s.Create(foreign)
		before := s.Get(foreign)
		s.want(configMap("taken", "whose", "ours"))
		after := s.Get(foreign)
		require.Equal(t, before.UID(), after.UID())
		require.Equal(t, "ours", s.field(foreign, "data", "whose"))
		require.Len(t, after.OwnerReferences(), 1)
		s.silent()
	})
	t.Run("AdoptControlled", func(t *testing.T) {
		child := configMapChild()
		child.Adopt = true
		s := newStage(t, "c40c", child)
		s.Create(configMap("owner", "k", "v"))
		foreign := configMap("taken", "whose", "theirs")
		metadata(foreign)["ownerReferences"] = []any{map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": string(s.Get(configMap("owner", "", "")).UID()), "controller": true,
		}}
		s.Create(foreign)
		before := s.Get(foreign)
		s.ask(configMap("taken", "whose", "ours"))
		failing(t, s.Kit, parent("one", nil), "not managed by c40c")
		require.Equal(t, before.ResourceVersion(), s.Get(foreign).ResourceVersion())
	})
}

func TestC41_ClusterScopedParent(t *testing.T) {
	scenario(t, "C41", "cluster-scoped parent with namespaced children in two namespaces under one name")
	cfg := operator("c41", configMapChild(), config.Child{Type: k8s.ClusterRole, Strategy: config.Replace})
	cfg.Parent = clusterParentType
	sync := func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		here, there := configMap("same", "k", "here"), configMap("same", "k", "there")
		namespace, _ := req.Parent.Field("spec", "namespace")
		metadata(here)["namespace"], metadata(there)["namespace"] = namespace, "default"
		metadata(there)["name"], metadata(here)["name"] = req.Parent.Name(), req.Parent.Name()
		role := map[string]any{
			"apiVersion": k8s.ClusterRole.APIVersion, "kind": "ClusterRole",
			"metadata": map[string]any{"name": "conformance:" + req.Parent.Name()},
		}
		return &handler.SyncResponse{Children: []any{here, there, role}, Status: map[string]any{"children": req.Children.Len()}}, nil
	}
	kit := testkit.New(t, cluster, cfg, handler.SyncFunc(sync))
	name := kit.Namespace
	it := map[string]any{
		"apiVersion": clusterParentType.APIVersion, "kind": clusterParentType.Kind,
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"namespace": kit.Namespace},
	}
	kit.Create(it)
	settle(t, kit)
	require.Empty(t, kit.HandlerErrors(it))
	snapshot := kit.Snapshot(it)
	require.Equal(t, 3, snapshot.Children.Len())
	view := snapshot.Children.OfType(k8s.ConfigMap)
	require.True(t, view.Exists(kit.Namespace, name))
	require.True(t, view.Exists("default", name))
	children, _ := kit.Get(it).Field("status", "children")
	require.EqualValues(t, 3, children)
}

func TestC42_ForeignNamespaceAndClusterScopedChild(t *testing.T) {
	scenario(t, "C42", "namespaced parent returning a foreign-namespace or cluster-scoped child: error, nothing written, no loop")
	for name, tc := range map[string]struct {
		child map[string]any
		text  string
	}{
		"foreign-namespace": {map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x", "namespace": "default"}}, "metadata.namespace"},
		"cluster-scoped":    {map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "c42-ns"}}, "cluster-scoped"},
	} {
		t.Run(name, func(t *testing.T) {
			log := needsAudit(t)
			from := log.mark(t)
			s := newStage(t, "c42"+name[:1], configMapChild(), config.Child{Type: k8s.Namespace, Strategy: config.Replace})
			s.ask(configMap("good", "k", "v"), tc.child)
			failing(t, s.Kit, parent("one", nil), tc.text)
			require.ErrorContains(t, s.errors()[0], tc.child["kind"].(string))
			require.Nil(t, s.Get(configMap("good", "", "")), "nothing is written")
			for _, r := range log.since(t, from, s.config.Name) {
				require.False(t, r.persists() && r.Resource != "events", "nothing is written: %s", r)
			}
			s.ask(configMap("good", "k", "v"))
			s.Eventually(configMap("good", "k", "v"), patience)
			settle(t, s.Kit)
		})
	}
}

func TestC43_TwoParentsOneChild(t *testing.T) {
	scenario(t, "C43", "two parents that want the same child: the second is told")
	sync := func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Children: []any{configMap("shared", "k", "v")}}, nil
	}
	kit := testkit.New(t, cluster, operator("c43", configMapChild()), handler.SyncFunc(sync))
	kit.Create(parent("first", nil))
	kit.EventuallyExists(configMap("shared", "", ""), patience)
	settle(t, kit)
	version := kit.Get(configMap("shared", "", "")).ResourceVersion()
	kit.Create(parent("second", nil))
	failing(t, kit, parent("second", nil), "its controller is Parent first")
	require.Empty(t, kit.HandlerErrors(parent("first", nil)))
	require.Equal(t, version, kit.Get(configMap("shared", "", "")).ResourceVersion())
}

func TestC44_TrackingLabelRemoved(t *testing.T) {
	scenario(t, "C44", "a child whose tracking label was removed by hand")
	s := newStage(t, "c44", configMapChild())
	s.want(configMap("child", "k", "v"))
	before := s.Get(configMap("child", "", ""))
	typed, _ := clients(t, "somebody")
	_, err := typed.CoreV1().ConfigMaps(s.Namespace).Patch(t.Context(), "child", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"roperator.com/parent-uid":null}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	eventually(t, "the label is back", func() bool {
		_, ok := s.Get(configMap("child", "", "")).Label("roperator.com/parent-uid")
		return ok
	})
	settle(t, s.Kit)
	require.Equal(t, before.UID(), s.Get(configMap("child", "", "")).UID())
	require.Empty(t, s.errors())
	s.silent()
}

func TestC45_DuplicateChildren(t *testing.T) {
	scenario(t, "C45", "duplicate children in one response refused")
	s := newStage(t, "c45", configMapChild())
	s.ask(configMap("twin", "k", "1"), configMap("other", "k", "v"), configMap("twin", "k", "2"))
	failing(t, s.Kit, parent("one", nil), "twin")
	require.ErrorContains(t, s.errors()[0], "same object")
	require.Nil(t, s.Get(configMap("other", "", "")))
}

func TestC46_UnconfiguredType(t *testing.T) {
	scenario(t, "C46", "an unconfigured child type refused")
	s := newStage(t, "c46", configMapChild())
	s.ask(configMap("good", "k", "v"), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "unknown"}})
	failing(t, s.Kit, parent("one", nil), "v1/Secret")
	require.ErrorContains(t, s.errors()[0], "not a configured child type")
	require.Nil(t, s.Get(configMap("good", "", "")))
}
