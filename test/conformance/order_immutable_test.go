package conformance

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// recreatingImmutable returns these types with RecreateImmutable, but for claims, which hold
// data.
func recreatingImmutable(strategy config.UpdateStrategy, types ...resource.Type) []config.Child {
	children := childrenBy(strategy, types...)
	for i := range children {
		children[i].RecreateImmutable = children[i].Type != k8s.PersistentVolumeClaim
	}
	return children
}

func TestC113_RecreateImmutable(t *testing.T) {
	needsWidgets(t)
	scenario(t, "C113", "RecreateImmutable: a child whose update would change an immutable field is recreated, of built-in kinds and by the rule of a custom resource; a change of anything else updates it")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			isClaim := func(child any) bool { return child.(map[string]any)["kind"] == "PersistentVolumeClaim" }
			s := newStage(t, "c113-"+lower(strategy), recreatingImmutable(strategy, immutableTypes()...)...)
			first, second := slices.DeleteFunc(immutables(t, 0), isClaim), slices.DeleteFunc(immutables(t, 1), isClaim)
			s.want(first...)
			before := s.identities()
			changes, err := s.plan(s.config)
			require.NoError(t, err)
			require.Empty(t, changes)

			s.want(second...)
			after := s.identities()
			require.Len(t, after, len(before))
			for kind, uid := range before {
				require.NotEqual(t, uid, after[kind], kind)
			}
			for _, child := range second {
				labeled := child.(map[string]any)
				labeled["metadata"].(map[string]any)["labels"] = map[string]any{"more": "x"}
			}
			s.want(second...)
			require.Equal(t, after, s.identities(), "labels are no reason")
			s.silent()
			s.restart()
			require.Equal(t, after, s.identities())
		})
	}
}

func TestC114_RefusalsThatAreNotImmutability(t *testing.T) {
	scenario(t, "C114", "RecreateImmutable: an update that a webhook, a policy or a quota refuses, in whatever words, recreates nothing")
	t.Run("Webhook", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, "c114-webhook", recreatingImmutable(config.Replace, k8s.ConfigMap)...)
		s.want(configMap("one", "k", "a"))
		before := s.identities()
		d := &denial{}
		d.set(func(r *admissionv1.AdmissionRequest) *metav1.Status {
			if r.Operation != admissionv1.Update || r.Name != "one" {
				return nil
			}
			return &metav1.Status{
				Status: metav1.StatusFailure, Code: 422, Reason: metav1.StatusReasonInvalid, Message: "data: field is immutable",
				Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseTypeFieldValueInvalid, Field: "data", Message: "field is immutable"}}},
			}
		})
		d.serve(t, s.Namespace)
		s.ask(configMap("one", "k", "b"))
		failing(t, s.Kit, s.it(), "denied the request")
		require.Equal(t, before, s.identities())
		require.NotContains(t, verbs(s.Writes(), "ConfigMap", "one"), "delete")
	})
	t.Run("Policy", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, "c114-policy", recreatingImmutable(config.Apply, k8s.ConfigMap)...)
		s.want(configMap("one", "k", "a"))
		before := s.identities()
		denyUpdates(t, s.Namespace, schema.GroupResource{Resource: "configmaps"})
		s.ask(configMap("one", "k", "b"))
		failing(t, s.Kit, s.it(), "denied request")
		require.Equal(t, before, s.identities())
		require.NotContains(t, verbs(s.Writes(), "ConfigMap", "one"), "delete")
	})
	t.Run("Quota", func(t *testing.T) {
		t.Parallel()
		needsControllerManager(t)
		s := newStage(t, "c114-quota", recreatingImmutable(config.Replace, k8s.ResourceQuota, k8s.Service)...)
		port := func(kind string) map[string]any {
			return map[string]any{
				"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "one"},
				"spec": map[string]any{"type": kind, "ports": []any{map[string]any{"port": int64(80)}}},
			}
		}
		s.want(port("ClusterIP"))
		before := s.identities()
		s.limit(map[string]any{"services.nodeports": "0"})
		s.ask(port("NodePort"))
		failing(t, s.Kit, s.it(), "exceeded quota")
		require.Equal(t, before, s.identities())
		require.NotContains(t, verbs(s.Writes(), "Service", "one"), "delete")
	})
}

func TestC115_ClaimsAreNeverRecreated(t *testing.T) {
	scenario(t, "C115", "RecreateImmutable: kinds that hold data can't have it; beside others that do, a claim whose update is refused stays")
	bad := operator("c115", config.Child{Type: k8s.PersistentVolumeClaim, Strategy: config.Replace, RecreateImmutable: true})
	require.ErrorContains(t, bad.Validate(), "Children[0].RecreateImmutable: a PersistentVolumeClaim holds data")
	s := newStage(t, "c115", recreatingImmutable(config.Replace, immutableTypes()...)...)
	claim := func(version int) any {
		for _, child := range immutables(t, version) {
			if child.(map[string]any)["kind"] == "PersistentVolumeClaim" {
				return child
			}
		}
		return nil
	}
	s.want(claim(0))
	before := s.identities()
	s.ask(claim(1))
	failing(t, s.Kit, s.it(), "can't change the immutable field spec")
	require.Equal(t, before, s.identities())
}
