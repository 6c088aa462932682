package conformance

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// A policy lets the API server refuse what somebody does to namespaced objects of these
// resources, unless a CEL expression is true.
type policy struct {
	does       admissionregistrationv1.OperationType
	to         []schema.GroupResource
	expression string
}

// enforce has a policy in force in a namespace until the test ends or lift is called.
// denied says whether it is in force: enforce and lift return when that has changed.
func enforce(t *testing.T, namespace string, p policy, denied func() bool) (lift func()) {
	t.Helper()
	typed, _ := clients(t, "somebody")
	policies, bindings := typed.AdmissionregistrationV1().ValidatingAdmissionPolicies(), typed.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	var rules []admissionregistrationv1.NamedRuleWithOperations
	for _, of := range p.to {
		rules = append(rules, admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{p.does},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{of.Group}, APIVersions: []string{"*"}, Resources: []string{of.Resource}, Scope: new(admissionregistrationv1.NamespacedScope)},
		}})
	}
	_, err := policies.Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}}, ResourceRules: rules,
			},
			Validations: []admissionregistrationv1.Validation{{Expression: p.expression}},
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
	remove := sync.OnceFunc(func() {
		require.NoError(t, bindings.Delete(context.Background(), namespace, metav1.DeleteOptions{}))
		require.NoError(t, policies.Delete(context.Background(), namespace, metav1.DeleteOptions{}))
	})
	t.Cleanup(remove)
	eventually(t, "the policy is in force", denied)
	return func() {
		remove()
		eventually(t, "the policy isn't in force any more", func() bool { return !denied() })
	}
}

// denyUpdates has a policy deny every update, in a namespace, of objects of these
// resources and of ConfigMaps. The namespace gets a ConfigMap "probe".
func denyUpdates(t *testing.T, namespace string, of ...schema.GroupResource) (lift func()) {
	t.Helper()
	typed, _ := clients(t, "somebody")
	maps := typed.CoreV1().ConfigMaps(namespace)
	_, err := maps.Create(t.Context(), configMapNamed("probe"), metav1.CreateOptions{})
	require.True(t, err == nil || apierrors.IsAlreadyExists(err), err)
	frozen := policy{admissionregistrationv1.Update, append(of, schema.GroupResource{Resource: "configmaps"}), "false"}
	return enforce(t, namespace, frozen, func() bool {
		_, err := maps.Patch(context.WithoutCancel(t.Context()), "probe", types.MergePatchType, []byte(`{"data": {"k": "v"}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	})
}
