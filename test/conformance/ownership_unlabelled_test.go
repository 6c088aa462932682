package conformance

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// controlled returns a ConfigMap whose controller is the stage's parent, and which no
// operator of this library has made. The parent must exist.
func (s *stage) controlled(name, key, value string) map[string]any {
	s.t.Helper()
	cm := configMap(name, key, value)
	metadata(cm)["ownerReferences"] = []any{s.controller(s.parent)}
	return cm
}

// controller returns the owner reference to a live parent as that of a controller.
func (s *stage) controller(name string) map[string]any {
	s.t.Helper()
	it := s.it()
	metadata(it)["name"] = name
	live := s.Get(it)
	require.NotNil(s.t, live)
	return map[string]any{
		"apiVersion": live.Type().APIVersion, "kind": live.Type().Kind, "name": name, "uid": string(live.UID()), "controller": true,
	}
}

// restartWith starts a build with this configuration and handler. The parent says what
// it said.
func (s *stage) restartWith(cfg config.Operator, wanted func(*handler.SyncRequest) *handler.SyncResponse) {
	s.t.Helper()
	s.mu.Lock()
	s.mu.count, s.mu.wanted = 0, wanted
	s.mu.Unlock()
	s.config = cfg
	s.Restart(cfg, handler.SyncFunc(s.sync))
	settle(s.t, s.Kit)
}

// withChild is a configuration of the same operator with one type of children.
func (s *stage) withChild(child config.Child) config.Operator {
	cfg := s.config
	cfg.Children = []config.Child{child}
	return cfg
}

func TestC160_UnlabelledChildrenAreFound(t *testing.T) {
	scenario(t, "C160", "children that nobody has labelled are found at the start, shown with their content, planned, taken over, and from then on compared or deleted like any child; a restart is silent")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			child := config.Child{Type: k8s.ConfigMap, Strategy: strategy}
			s := newStage(t, "c160-"+lower(strategy), child)
			s.want()
			s.Stop()
			// The predecessor made names of its own.
			for _, name := range []string{"wanted-x7k2p", "unwanted-q9d4z"} {
				s.Create(s.controlled(name, "k", "theirs"))
			}
			uid := s.Get(configMap("wanted-x7k2p", "", "")).UID()
			child.Adopt = true
			var shown [][]string
			wanted := func(req *handler.SyncRequest) *handler.SyncResponse { // knows no name
				resp, names := &handler.SyncResponse{}, []string{}
				for cm := range req.Children.OfType(k8s.ConfigMap).All() {
					value, _ := cm.Field("data", "k")
					names = append(names, cm.Name()+"="+value.(string))
					if strings.HasPrefix(cm.Name(), "wanted-") {
						resp.Children = append(resp.Children, configMap(cm.Name(), "k", "ours"))
					}
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				shown = append(shown, names)
				return resp
			}
			s.mu.Lock()
			s.mu.wanted = wanted
			s.mu.Unlock()
			changes, err := s.plan(s.withChild(child))
			require.NoError(t, err)
			require.Len(t, changes, 2)
			require.Equal(t, "update wanted-x7k2p", changes[0].Verb+" "+changes[0].Object.Name)
			paths := ""
			for _, f := range changes[0].Fields {
				paths += f.Path + " "
			}
			require.Contains(t, paths, "metadata.labels")
			require.Contains(t, paths, "data.k")
			require.Equal(t, "delete unwanted-q9d4z", changes[1].Verb+" "+changes[1].Object.Name)
			require.Empty(t, changes[1].Fields)
			require.Empty(t, s.Get(configMap("wanted-x7k2p", "", "")).Labels(), "a plan writes nothing")

			s.mu.Lock()
			shown = nil
			s.mu.Unlock()
			s.restartWith(s.withChild(child), wanted)
			require.Empty(t, s.errors())
			require.Equal(t, []string{"unwanted-q9d4z=theirs", "wanted-x7k2p=theirs"}, shown[0], "in the first call")
			live := s.Get(configMap("wanted-x7k2p", "", ""))
			require.Equal(t, uid, live.UID())
			require.Len(t, live.Labels(), 2)
			require.True(t, *live.OwnerReferences()[0].BlockOwnerDeletion)
			require.Equal(t, map[string]any{"k": "ours"}, s.field(live, "data"))
			require.Nil(t, s.Get(configMap("unwanted-q9d4z", "", "")))
			require.Equal(t, "patch", verbs(s.Writes(), "ConfigMap", "wanted-x7k2p")[0])
			require.True(t, anyContains(s.Events(s.it()), "Adopted", "wanted-x7k2p"), "%q", s.Events(s.it()))
			s.restart()
			// It is watched like any child.
			drifted := s.Get(live).Unstructured()
			drifted.Object["data"] = map[string]any{"k": "drifted"}
			s.Update(drifted)
			s.Eventually(configMap("wanted-x7k2p", "k", "ours"), patience)
		})
	}
}

func TestC160b_OthersObjectsAreNeverTaken(t *testing.T) {
	scenario(t, "C160b", "what carries the labels or the mark of another operator or Domain, has another controller, or belongs to a parent that is gone or not selected, is neither shown nor touched")
	s := newStage(t, "c160-others", configMapChild())
	s.want()
	gone := parent("gone", nil)
	s.Create(gone)
	settle(t, s.Kit)
	s.Stop()
	other := map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "other"}} // a controller that is there, or else its child is garbage
	s.Create(other)
	before := map[string]string{}
	add := func(name string, change func(meta map[string]any)) {
		cm := s.controlled(name, "k", "theirs")
		change(metadata(cm))
		s.Create(cm)
		before[name] = s.Get(cm).ResourceVersion()
	}
	labels := func(pairs map[string]any) func(map[string]any) {
		return func(meta map[string]any) { meta["labels"] = pairs }
	}
	mark := func(key, maker string) func(map[string]any) {
		return func(meta map[string]any) {
			meta["annotations"] = map[string]any{key: "v2:" + maker + ":0:" + hash32 + ":data{k}"}
		}
	}
	add("labelled", labels(map[string]any{"roperator.com/operator": "someone", "roperator.com/parent-uid": "u"}))
	add("half-labelled", labels(map[string]any{"roperator.com/operator": "c160-others"}))
	add("elsewhere", labels(map[string]any{"example.com/operator": "someone", "example.com/parent-uid": "u"}))
	add("namesake", labels(map[string]any{"example.com/operator": "c160-others", "example.com/parent-uid": "u"}))
	add("marked", mark("roperator.com/applied", "someone"))
	add("marked-elsewhere", mark("example.com/applied", "c160-others"))
	add("other-controller", func(meta map[string]any) {
		meta["ownerReferences"] = []any{map[string]any{"apiVersion": "v1", "kind": "Secret", "name": "other", "uid": string(s.Get(other).UID()), "controller": true}}
	})
	add("no-controller", func(meta map[string]any) {
		ref := s.controller("one")
		ref["controller"] = false
		meta["ownerReferences"] = []any{ref}
	})
	add("of-the-dead", func(meta map[string]any) { meta["ownerReferences"] = []any{s.controller("gone")} })
	before["of-the-dead"] = "" // the garbage collector may take it
	s.Delete(gone)
	s.EventuallyGone(gone, patience)
	var shown []string
	s.restartWith(s.withChild(adopting()), func(req *handler.SyncRequest) *handler.SyncResponse {
		s.mu.Lock()
		defer s.mu.Unlock()
		for child := range req.Children.All() {
			shown = append(shown, child.Name())
		}
		return &handler.SyncResponse{}
	})
	require.Empty(t, s.errors())
	require.Empty(t, shown)
	for name, version := range before {
		live := s.Get(configMap(name, "", ""))
		if live == nil || version == "" {
			require.Contains(t, []string{"of-the-dead", "other-controller"}, name, "taken by the garbage collector")
			continue
		}
		require.Equal(t, version, live.ResourceVersion(), name)
	}
	for _, w := range s.Writes() {
		require.NotEqual(t, "ConfigMap", w.Type.Kind, "%v", w)
	}
}

func TestC160c_ParentDeletedMeanwhile(t *testing.T) {
	scenario(t, "C160c", "unlabelled children of a parent that is being deleted are left to the garbage collector")
	cfg := operator("c160-dying", configMapChild())
	kit := testkit.New(t, cluster, cfg, finalizing(func(*handler.SyncRequest) (*handler.FinalizeResponse, error) {
		return &handler.FinalizeResponse{}, nil
	}))
	it := parent("one", withData("k", "v"))
	kit.Create(it)
	settle(t, kit)
	kit.Stop()
	live := kit.Get(it)
	stray := configMap("stray", "k", "theirs")
	metadata(stray)["ownerReferences"] = []any{map[string]any{
		"apiVersion": live.Type().APIVersion, "kind": live.Type().Kind, "name": "one", "uid": string(live.UID()), "controller": true,
	}}
	kit.Create(stray)
	kit.Delete(it)
	cfg.Children = []config.Child{adopting()}
	var seen int
	kit.Restart(cfg, finalizing(func(req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
		seen = req.Children.Len()
		return &handler.FinalizeResponse{Finalized: true}, nil
	}))
	kit.EventuallyGone(it, patience)
	require.Equal(t, 2, seen, "Finalize is shown what Sync would be shown")
	for _, w := range kit.Writes() {
		require.NotEqual(t, "stray", w.Key.Name, "%v", w)
	}
	if cluster.HasControllerManager() {
		kit.EventuallyGone(stray, patience)
	}
}

func TestC160d_OneListOfMetadataForTypesWithAdopt(t *testing.T) {
	scenario(t, "C160d", "only types with Adopt are listed, once, and a settled operator is silent")
	log := needsAudit(t)
	from := log.mark(t)
	adopted := adopting()
	s := newStage(t, "c160-lists", adopted, config.Child{Type: k8s.Secret, Strategy: config.Replace})
	s.want(configMap("one", "k", "v"), map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "one"}})
	lists := map[string]int{}
	for _, r := range log.since(t, from, "c160-lists") {
		if r.Verb == "list" {
			lists[r.Resource]++
			require.Equal(t, s.Namespace, r.Namespace, "%s", r)
			require.Contains(t, r.URI, "limit=")
		}
	}
	require.Equal(t, map[string]int{"configmaps": 1}, lists)
	s.silent()
}

func TestC160e_ClusterScoped(t *testing.T) {
	scenario(t, "C160e", "unlabelled children of a cluster-scoped parent are found in every namespace, and cluster-scoped ones as well")
	cfg := operator("c160-cluster", configMapChild(), config.Child{Type: k8s.ClusterRole, Strategy: config.Apply})
	cfg.Parent = clusterParentType
	nothing := func(*handler.SyncRequest) *handler.SyncResponse { return &handler.SyncResponse{} }
	s := &stage{t: t, config: cfg, parent: "c160"}
	s.mu.wanted = nothing
	s.start(handler.SyncFunc(s.sync), testkit.KitOptions{})
	s.parent = s.Namespace + "-one"
	s.Create(clusterParent(s.Kit, "one", map[string]any{}))
	settle(t, s.Kit)
	s.Stop()
	cm := s.controlled("one", "k", "theirs")
	metadata(cm)["namespace"] = s.Namespace
	s.Create(cm)
	role := map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{
		"name": s.Namespace, "ownerReferences": []any{s.controller(s.parent)},
	}}
	s.Create(role)
	t.Cleanup(func() {
		typed, _ := clients(t, "somebody")
		_ = typed.RbacV1().ClusterRoles().Delete(context.Background(), s.Namespace, metav1.DeleteOptions{})
	})
	for i := range cfg.Children {
		cfg.Children[i].Adopt = true
	}
	s.restartWith(cfg, func(req *handler.SyncRequest) *handler.SyncResponse {
		resp := &handler.SyncResponse{}
		for role := range req.Children.OfType(k8s.ClusterRole).All() {
			resp.Children = append(resp.Children, map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": role.Name()}})
		}
		return resp
	})
	require.Empty(t, s.errors())
	require.Nil(t, s.Get(cm))
	require.Len(t, s.Get(role).Labels(), 2)
}
