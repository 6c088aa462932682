package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// patchMeta merges metadata into a ConfigMap as somebody else would.
func patchMeta(t *testing.T, namespace, name, metadata string) {
	t.Helper()
	typed, _ := clients(t, "somebody")
	_, err := typed.CoreV1().ConfigMaps(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":`+metadata+`}`), metav1.PatchOptions{})
	require.NoError(t, err)
}

// release takes the finalizers off a ConfigMap that waits for them.
func release(t *testing.T, namespace, name string) {
	t.Helper()
	patchMeta(t, namespace, name, `{"finalizers":null}`)
}

func TestC228_CopiedLabelsMakeNoChild(t *testing.T) {
	scenario(t, "C228", "an object that carries a child's labels but has another controller or none is neither shown, changed nor deleted")
	s := newStage(t, "copied-labels", configMapChild())
	s.want(configMap("real", "k", "v"))
	genuine := s.Get(configMap("real", "", ""))
	s.Create(configMap("owner", "k", "v"))
	ownerUID := string(s.Get(configMap("owner", "", "")).UID())
	copied := func(name string, owners ...any) map[string]any {
		cm := configMap(name, "k", "theirs")
		metadata(cm)["labels"] = genuine.Labels()
		metadata(cm)["ownerReferences"] = owners
		return cm
	}
	ownedBy := func(controller bool) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": ownerUID, "controller": controller, "blockOwnerDeletion": true}
	}
	s.Create(copied("no-owner"))
	s.Create(copied("other-controller", ownedBy(true)))
	parentRef := map[string]any{"apiVersion": parentType.APIVersion, "kind": parentType.Kind, "name": "one", "uid": string(s.Get(parent("one", nil)).UID())}
	s.Create(copied("parent-not-controller", ownedBy(true), parentRef))
	versions := map[string]string{}
	for _, name := range []string{"no-owner", "other-controller", "parent-not-controller"} {
		versions[name] = s.Get(configMap(name, "", "")).ResourceVersion()
	}
	settle(t, s.Kit)
	s.want(configMap("real", "k", "w")) // a pass that deletes what isn't desired
	require.Equal(t, 1, s.Snapshot(parent("one", nil)).Children.Len())

	// Nor are they taken over when their names are wanted, if somebody controls them.
	s.ask(configMap("real", "k", "w"), configMap("other-controller", "k", "ours"), configMap("parent-not-controller", "k", "ours"))
	failing(t, s.Kit, parent("one", nil), "ConfigMap "+s.Namespace+"/other-controller: already exists and is not managed by copied-labels")
	failing(t, s.Kit, parent("one", nil), "ConfigMap "+s.Namespace+"/parent-not-controller: already exists and is not managed by copied-labels")
	for name, version := range versions {
		require.Equal(t, version, s.Get(configMap(name, "", "")).ResourceVersion(), name)
	}
}

func TestC229_OwnerReferenceRestoredAfterLookingAtTheParent(t *testing.T) {
	scenario(t, "C229", "an owner reference that was taken off is restored after the parent was read live")
	log := needsAudit(t)
	s := newStage(t, "restored-owner", configMapChild())
	s.want(configMap("child", "k", "v"))
	before := s.Get(configMap("child", "", ""))
	from := log.mark(t)
	patchMeta(t, s.Namespace, "child", `{"ownerReferences":null}`)
	eventually(t, "the owner reference is back", func() bool { return len(s.Get(configMap("child", "", "")).OwnerReferences()) == 1 })
	settle(t, s.Kit)
	require.Equal(t, before.UID(), s.Get(before).UID())
	require.Empty(t, s.errors())
	seen := log.since(t, from, "restored-owner")
	looked := slices.IndexFunc(seen, func(r request) bool { return r.Verb == "get" && r.Resource == "parents" })
	patched := slices.IndexFunc(seen, func(r request) bool { return r.Verb == "patch" && r.Resource == "configmaps" })
	require.True(t, looked >= 0 && looked < patched, "%v", seen)
	s.waits()
}

func TestC230_EverythingTakenOff(t *testing.T) {
	scenario(t, "C230", "labels and mark taken off by hand are restored in place; without labels and owner it is foreign")
	s := newStage(t, "all-taken-off", configMapChild())
	s.want(configMap("child", "k", "v"))
	before := s.Get(configMap("child", "", ""))
	for _, what := range []string{
		`{"labels":{"roperator.com/operator":null}}`,
		`{"labels":{"roperator.com/parent-uid":"nobody"}}`,
		`{"labels":null,"annotations":null}`,
	} {
		patchMeta(t, s.Namespace, "child", what)
		eventually(t, "it is as before: "+what, func() bool {
			now := s.Get(before)
			return fmt.Sprint(now.Labels(), now.Annotations()) == fmt.Sprint(before.Labels(), before.Annotations())
		})
		settle(t, s.Kit)
		require.Equal(t, before.UID(), s.Get(before).UID())
	}
	require.Empty(t, s.errors())

	// Without labels and owner nobody can tell it from a foreign one.
	patchMeta(t, s.Namespace, "child", `{"labels":null,"ownerReferences":null}`)
	failing(t, s.Kit, parent("one", nil), "already exists and is not managed by all-taken-off")
	require.Empty(t, s.Get(before).OwnerReferences())
}

func TestC231_AdoptWaitsForWhatIsBeingDeleted(t *testing.T) {
	scenario(t, "C231", "Adopt leaves an object alone that is being deleted")
	child := configMapChild()
	child.Adopt = true
	s := newStage(t, "adopt-deleting", child)
	foreign := configMap("taken", "whose", "theirs")
	metadata(foreign)["finalizers"] = []any{"example.com/hold"}
	s.Create(foreign)
	s.Delete(foreign)
	before := s.Get(foreign)
	require.True(t, before.IsDeleting())
	s.ask(configMap("taken", "whose", "ours"))
	settle(t, s.Kit)
	require.Equal(t, before.ResourceVersion(), s.Get(foreign).ResourceVersion(), "left alone")
	release(t, s.Namespace, "taken")
	s.Eventually(configMap("taken", "whose", "ours"), patience)
	settle(t, s.Kit)
	require.NotEqual(t, before.UID(), s.Get(foreign).UID())
	require.Empty(t, s.errors())
}

func TestC232_SecondParentFollowsTheFirst(t *testing.T) {
	scenario(t, "C232", "a parent that waits for another's child gets the name as soon as it is free")
	// Two parents want one child; the second gets it when the first drops it,
	// without a backoff of minutes.
	w := newWitness()
	kit := testkit.NewWithOptions(t, cluster, unbounded(operator("second-follows", configMapChild())), handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		if drop, _ := req.Parent.Field("spec", "drop"); drop == true {
			return &handler.SyncResponse{}, nil
		}
		return &handler.SyncResponse{Children: []any{configMap("shared", "owner", req.Parent.Name())}}, nil
	}), w.options())
	kit.Create(parent("first", nil))
	kit.Eventually(configMap("shared", "owner", "first"), patience)
	kit.Create(parent("second", nil))
	failing(t, kit, parent("second", nil), "its controller is Parent first")
	eventually(t, "backoff has come to seconds", func() bool { return kit.Syncs(parent("second", nil)) >= 7 })
	kit.Update(parent("first", map[string]any{"drop": true}))
	kit.Eventually(configMap("shared", "owner", "second"), patience)
	settle(t, kit)
	require.True(t, anyContains(strings.Split(w.logged(), "\n"), "name=second", `trigger="ConfigMap `+kit.Namespace+`/shared"`),
		"the deletion has woken it")
}

func TestC233_TwoOperatorsOneParent(t *testing.T) {
	scenario(t, "C233", "two operators with the same parents don't take each other's children, not even with Adopt")
	// Two operators have the same parents; the child of one is nothing that
	// the other may take, though its controller is that very parent.
	answer := func(value string) handler.SyncFunc {
		return func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			return &handler.SyncResponse{Children: []any{configMap("shared", "k", value)}}, nil
		}
	}
	adopting := configMapChild()
	adopting.Adopt = true
	first := testkit.New(t, cluster, operator("one-parent-a", configMapChild()), answer("a"))
	it := parent("one", nil)
	first.Create(it)
	first.Eventually(configMap("shared", "k", "a"), patience)
	settle(t, first)
	version := first.Get(configMap("shared", "", "")).ResourceVersion()
	second := testkit.NewWithOptions(t, cluster, operator("one-parent-b", adopting), answer("b"), testkit.KitOptions{Namespace: first.Namespace})
	failing(t, second, it, "operator one-parent-a manages it")
	settle(t, first)
	require.Empty(t, first.HandlerErrors(it))
	require.Equal(t, version, first.Get(configMap("shared", "", "")).ResourceVersion())
}

func TestC234_OrphanedNameIsNotWaitedForForever(t *testing.T) {
	scenario(t, "C234", "a name that a predecessor's child keeps by being orphaned is an error, not an endless wait")
	needsControllerManager(t)
	// A parent is deleted and its children are orphaned, late: its successor,
	// which waited for their names, is told.
	cfg := operator("orphaned-name", configMapChild())
	kit := testkit.New(t, cluster, cfg, handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Children: []any{configMap("shared", "k", "v")}}, nil
	}))
	first := parent("first", nil)
	metadata(first)["finalizers"] = []any{"example.com/hold"}
	kit.Create(first)
	kit.EventuallyExists(configMap("shared", "", ""), patience)
	settle(t, kit)
	before := kit.Get(configMap("shared", "", ""))
	kit.Delete(first)
	kit.Create(parent("second", nil))
	settle(t, kit)
	require.Empty(t, kit.HandlerErrors(parent("second", nil)), "the name will be free")
	quiet(t, "orphaned-name")
	patchMeta(t, kit.Namespace, "shared", `{"ownerReferences":null}`) // as the garbage collector orphans
	failing(t, kit, parent("second", nil), "already exists and is not managed by")
	require.Equal(t, before.UID(), kit.Get(before).UID())
	withFinalizers(t, kit, "first", func([]string) []string { return nil })
	kit.Delete(configMap("shared", "", ""))
	kit.EventuallyGone(before, patience)
	kit.EventuallyExists(configMap("shared", "", ""), patience)
	settle(t, kit)
}

func TestC235_OneNameTwoTypes(t *testing.T) {
	scenario(t, "C235", "children of two types under one name")
	s := newStage(t, "one-name", configMapChild(), config.Child{Type: k8s.Secret, Strategy: config.Replace})
	secret := map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "same"}}
	s.want(configMap("same", "k", "v"), secret)
	require.NotNil(t, s.Get(secret))
	s.want(secret)
	require.Nil(t, s.Get(configMap("same", "", "")))
	require.NotNil(t, s.Get(secret))
}

func TestC236_KeepOneDropOthers(t *testing.T) {
	scenario(t, "C236", "handler.Keep and KeepChildren leave children exactly as they are")
	s := newStage(t, "keep-one", configMapChild())
	s.want(configMap("kept", "k", "v"), configMap("dropped", "k", "v"))
	s.Update(configMap("kept", "k", "by hand"))
	settle(t, s.Kit)
	s.Eventually(configMap("kept", "k", "v"), patience)
	kept := s.Get(configMap("kept", "", ""))
	s.answer(func(req *handler.SyncRequest) *handler.SyncResponse {
		child, ok := req.Children.Find(configMap("kept", "", ""))
		if !ok {
			return &handler.SyncResponse{KeepChildren: true}
		}
		return &handler.SyncResponse{Children: []any{handler.Keep(child)}}
	})
	settle(t, s.Kit)
	require.Equal(t, kept.ResourceVersion(), s.Get(kept).ResourceVersion())
	require.Nil(t, s.Get(configMap("dropped", "", "")))
	s.Update(configMap("kept", "k", "by hand"))
	settle(t, s.Kit)
	require.Equal(t, "by hand", s.field(kept, "data", "k"), "exactly as it is")
	s.Delete(kept)
	settle(t, s.Kit)
	require.Nil(t, s.Get(kept), "nor made anew")
	require.Empty(t, s.errors())

	// KeepChildren keeps them all, whatever Children says.
	s.want(configMap("a", "k", "v"), configMap("b", "k", "v"))
	s.answer(func(*handler.SyncRequest) *handler.SyncResponse {
		return &handler.SyncResponse{KeepChildren: true, Children: []any{configMap("c", "k", "v")}}
	})
	settle(t, s.Kit)
	require.NotNil(t, s.Get(configMap("a", "", "")))
	require.NotNil(t, s.Get(configMap("b", "", "")))
	require.Nil(t, s.Get(configMap("c", "", "")))
}
