package conformance

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/handler"
)

// restartReading is restart, and requires that neither the plan nor the operator
// asks for a dry run.
func (s *stage) restartReading() {
	s.t.Helper()
	from := needsAudit(s.t).mark(s.t)
	s.restart()
	require.Empty(s.t, s.triedSince(from), "dry runs of a restart")
}

// handler returns the handler that answers with what the test wants.
func (s *stage) handler() handler.Handler { return handler.SyncFunc(s.sync) }

// triedSince returns the dry runs that the operator has asked for since then.
func (s *stage) triedSince(from mark) []string {
	s.t.Helper()
	var tried []string
	for _, r := range needsAudit(s.t).since(s.t, from, s.config.Name) {
		if r.DryRun {
			tried = append(tried, r.String())
		}
	}
	return tried
}

// writtenSince returns the operator's writes since then, but for those of the
// parent. Refused writes are among them, dry runs aren't.
func (s *stage) writtenSince(from mark) []string {
	s.t.Helper()
	var written []string
	for _, r := range needsAudit(s.t).since(s.t, from, s.config.Name) {
		if r.persists() && r.Resource != "parents" && r.Resource != "events" {
			written = append(written, r.String())
		}
	}
	return written
}

// patchAs patches a child, as somebody of this name.
func (s *stage) patchAs(name string, gvr schema.GroupVersionResource, child, patch string) {
	s.t.Helper()
	_, untyped := clients(s.t, name)
	_, err := untyped.Resource(gvr).Namespace(s.Namespace).Patch(s.t.Context(), child, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(s.t, err)
}

// strip takes the managedFields off a child.
func (s *stage) strip(gvr schema.GroupVersionResource, child string) {
	s.t.Helper()
	s.patchAs("somebody", gvr, child, `{"metadata":{"managedFields":[{}]}}`)
}

var (
	deploymentsResource = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	servicesResource    = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	podsResource        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// denyUpdates lets the API server deny every update in a namespace of objects of
// this kind, whoever asks, until the test ends or calls lift. It returns when that is
// in force.
func denyUpdates(t *testing.T, namespace, group, resource string) (lift func()) {
	t.Helper()
	typed, _ := clients(t, "somebody")
	policies := typed.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	bindings := typed.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	rule := func(group, resource string) admissionregistrationv1.NamedRuleWithOperations {
		return admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{"UPDATE"},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}, Scope: new(admissionregistrationv1.NamespacedScope)},
		}}
	}
	_, err := policies.Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}},
				ResourceRules:     []admissionregistrationv1.NamedRuleWithOperations{rule(group, resource), rule("", "configmaps")},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: "frozen"}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = bindings.Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: namespace, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	var once sync.Once
	lift = func() {
		once.Do(func() {
			require.NoError(t, bindings.Delete(context.Background(), namespace, metav1.DeleteOptions{}))
			require.NoError(t, policies.Delete(context.Background(), namespace, metav1.DeleteOptions{}))
		})
	}
	t.Cleanup(lift)
	maps := typed.CoreV1().ConfigMaps(namespace)
	probe, err := maps.Create(t.Context(), configMapNamed("probe"), metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, "updates are denied", func() bool {
		_, err := maps.Update(t.Context(), &corev1.ConfigMap{ObjectMeta: probe.ObjectMeta, Data: map[string]string{"k": "v"}}, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	})
	return lift
}
