package manifests

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// The engine tells by the admission plugin's words whether a right is missing, and which
// (internal/engine/apply/owner_refused.go). These are the words.
func TestOwnerReferencesAreRefusedInTheseWords(t *testing.T) {
	s := newStage(t, false, func(_ string, rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
		return slices.DeleteFunc(rules, func(r rbacv1.PolicyRule) bool { return r.Resources[0] == "parents/finalizers" })
	})
	user, err := kubernetes.NewForConfig(s.user)
	require.NoError(t, err)
	yes := true
	for name, tc := range map[string]struct {
		reason, apiVersion, kind, want string
	}{
		"finalizers": {
			"the right on the parent is missing", parentType.APIVersion, parentType.Kind,
			"cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>",
		},
		"unknown kind": {
			"no right would help", parentType.APIVersion, "Nonesuch",
			"cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion " + parentType.APIVersion + ` Kind Nonesuch: no matches for kind "Nonesuch"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := user.CoreV1().ConfigMaps(s.namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Name:            "one",
				OwnerReferences: []metav1.OwnerReference{{APIVersion: tc.apiVersion, Kind: tc.kind, Name: "p", UID: "p", BlockOwnerDeletion: &yes}},
			}}, metav1.CreateOptions{})
			require.ErrorContains(t, err, `configmaps "one" is forbidden: `+tc.want, tc.reason)
		})
	}
}
