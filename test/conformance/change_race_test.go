package conformance

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
)

func TestC35_NoLongerDesired(t *testing.T) {
	scenario(t, "C35", "a child no longer desired is deleted, once")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply, config.Recreate, config.OnDelete} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			name := "c35-" + lower(strategy)
			children := childrenBy(strategy, k8s.ConfigMap, k8s.Deployment, k8s.PersistentVolumeClaim)
			children[1].DeleteFirst = true
			s := newStage(t, name, children...)
			keep := configMap("keep", "k", "v")
			claim := manifest(t, `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: drop}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`)
			held := manifest(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: held}, data: {k: v}}`)
			deployment := deploymentWith(t, "1")
			s.want(keep, configMap("drop", "k", "v"), held, claim, deployment)
			s.patch(k8s.ConfigMap, "held", `{"metadata":{"finalizers":["example.com/theirs"]}}`)
			settle(t, s.Kit)
			from := needsAudit(t).mark(t)
			s.want(keep)
			for _, gone := range []any{configMap("drop", "", ""), claim, deployment} {
				s.EventuallyGone(gone, patience)
			}
			require.True(t, s.Get(held).IsDeleting())
			s.want(keep) // another pass while it is going
			s.silent()
			deletes := map[string]int{}
			for _, r := range needsAudit(t).since(t, from, name) {
				if r.persists() && r.Resource != "parents" && r.Resource != "events" {
					deletes[r.String()]++
				}
			}
			ns := s.Namespace
			require.Equal(t, map[string]int{
				"delete configmaps/" + ns + "/drop: 200": 1, "delete configmaps/" + ns + "/held: 200": 1,
				"delete deployments/" + ns + "/one: 200": 1, "delete persistentvolumeclaims/" + ns + "/drop: 200": 1,
			}, deletes)
			s.patch(k8s.ConfigMap, "held", `{"metadata":{"finalizers":null}}`)
			s.EventuallyGone(held, patience)
			settle(t, s.Kit)
			require.Len(t, s.children(), 1)
			s.restart()
		})
	}
}

func TestC36_ForeignFinalizer(t *testing.T) {
	scenario(t, "C36", "a child pending deletion behind a foreign finalizer: no write to it, recreated after")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply, config.Recreate, config.OnDelete} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			name := "c36-" + lower(strategy)
			s := newStage(t, name, childrenBy(strategy, k8s.ConfigMap)...)
			child := func(value string) map[string]any { return configMap("one", "k", value) }
			s.want(child("a"))
			s.patch(k8s.ConfigMap, "one", `{"metadata":{"finalizers":["example.com/theirs"]}}`)
			settle(t, s.Kit)
			s.Delete(child(""))
			settle(t, s.Kit)
			from := needsAudit(t).mark(t)
			s.patch(k8s.ConfigMap, "one", `{"data":{"k":"drift"},"metadata":{"labels":{"more":"drift"}}}`)
			s.want(child("b"))
			old := s.Get(child(""))
			require.True(t, old.IsDeleting())
			require.Equal(t, "drift", s.field(old, "data", "k"))
			s.silent()
			for _, r := range needsAudit(t).since(t, from, name) {
				require.NotEqual(t, "configmaps", r.Resource, "%s", r)
			}
			s.rebuild(s.config, nil, child("c"))
			for _, r := range needsAudit(t).since(t, from, name) {
				require.False(t, r.persists() && r.Resource == "configmaps", "%s", r)
			}
			s.patch(k8s.ConfigMap, "one", `{"metadata":{"finalizers":null}}`)
			s.EventuallyGone(old, patience)
			s.Eventually(child("c"), patience)
			settle(t, s.Kit)
			require.Empty(t, s.errors())
			s.silent()
		})
	}
}

// A meddler changes things between the snapshot of a pass and its writes: it
// is called by the handler.
type meddler struct {
	*stage
	times atomic.Int64 // how often yet
}

func (m *meddler) sync(meddle func(ctx context.Context, n int64) error) func(*handler.SyncRequest) *handler.SyncResponse {
	return func(req *handler.SyncRequest) *handler.SyncResponse {
		resp, err := copier(context.Background(), req)
		require.NoError(m.t, err)
		resp.Children = append(resp.Children, configMap("fixed", "k", "v"))
		if n := m.times.Add(-1); n >= 0 {
			if err := meddle(context.Background(), n); err != nil && !apierrors.IsNotFound(err) {
				m.t.Errorf("meddling: %v", err)
			}
		}
		return resp
	}
}

func TestC37_ConflictsInTheMiddle(t *testing.T) {
	scenario(t, "C37", "409 and 404 in the middle of a pass: no error reported, converges")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply, config.Recreate} {
		for _, what := range []string{"changed", "deleted", "replaced", "status"} {
			t.Run(what+string(strategy), func(t *testing.T) {
				t.Parallel()
				s := newStage(t, "c37-"+what+"-"+lower(strategy), childrenBy(strategy, k8s.ConfigMap)...)
				m := &meddler{stage: s}
				typed, untyped := clients(t, "somebody")
				maps := typed.CoreV1().ConfigMaps(s.Namespace)
				parents := untyped.Resource(plural(parentType)).Namespace(s.Namespace)
				meddle := func(ctx context.Context, n int64) error {
					patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"theirs":"%d"}}}`, n)
					switch what {
					case "changed":
						_, err := maps.Patch(ctx, "one", types.MergePatchType, patch, metav1.PatchOptions{})
						return err
					case "status":
						_, err := parents.Patch(ctx, "one", types.MergePatchType, patch, metav1.PatchOptions{})
						return err
					}
					err := maps.Delete(ctx, "one", metav1.DeleteOptions{})
					if what == "replaced" && err == nil {
						// A foreign object, but only for a moment.
						if _, err = maps.Create(ctx, configMapNamed("one"), metav1.CreateOptions{}); err == nil {
							err = maps.Delete(ctx, "one", metav1.DeleteOptions{})
						}
					}
					return err
				}
				s.answer(m.sync(meddle))
				s.Update(parent("one", map[string]any{"data": map[string]any{"k": "0"}}))
				s.Eventually(configMap("one", "k", "0"), patience)
				settle(t, s.Kit)
				for round := 1; round <= 3; round++ {
					value := fmt.Sprint(round)
					m.times.Store(int64(round))
					s.Update(parent("one", map[string]any{"data": map[string]any{"k": value}}))
					eventually(t, "all of it has happened", func() bool { return m.times.Load() < 0 })
					s.Eventually(configMap("one", "k", value), patience)
					settle(t, s.Kit)
				}
				require.Empty(t, s.errors())
				s.Eventually(map[string]any{
					"apiVersion": parentType.APIVersion, "kind": parentType.Kind, "metadata": map[string]any{"name": "one"},
					"status": map[string]any{"children": 2, "observedGeneration": s.Get(parent("one", nil)).Generation()},
				}, patience)
				require.False(t, anyContains(s.Kit.Events(parent("one", nil)), "Warning"))
				s.silent()
			})
		}
	}
}

func TestC37b_GoneInTheMiddle(t *testing.T) {
	scenario(t, "C37b", "a child that is to be deleted, or the parent itself, goes in the middle of a pass: no error reported")
	needsControllerManager(t)
	s := newStage(t, "c37-gone", childrenBy(config.Replace, k8s.ConfigMap)...)
	typed, untyped := clients(t, "somebody")
	s.want(configMap("one", "k", "v"), configMap("two", "k", "v"))
	s.answer(func(*handler.SyncRequest) *handler.SyncResponse {
		err := typed.CoreV1().ConfigMaps(s.Namespace).Delete(context.Background(), "two", metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("delete: %v", err)
		}
		return &handler.SyncResponse{Children: []any{configMap("one", "k", "v")}, Status: map[string]any{"phase": "Fewer"}}
	})
	s.EventuallyGone(configMap("two", "", ""), patience)
	settle(t, s.Kit)
	require.Empty(t, s.errors())
	s.answer(func(*handler.SyncRequest) *handler.SyncResponse {
		err := untyped.Resource(plural(parentType)).Namespace(s.Namespace).Delete(context.Background(), "one", metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("delete: %v", err)
		}
		return &handler.SyncResponse{Children: []any{configMap("one", "k", "w"), configMap("three", "k", "v")}, Status: map[string]any{"phase": "Gone"}}
	})
	for _, gone := range []any{parent("one", nil), configMap("one", "", ""), configMap("three", "", "")} {
		s.EventuallyGone(gone, patience)
	}
	settle(t, s.Kit)
	require.Empty(t, s.errors())
	quiet(t, "c37-gone")
}
