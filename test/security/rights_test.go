package security

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/runner"
)

func ruleOf(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

// userWith returns the configuration of a user who has these rights in a namespace, and
// no others. It returns when the API server knows of them.
func userWith(t *testing.T, namespace, name string, rules ...rbacv1.PolicyRule) *rest.Config {
	t.Helper()
	meta := metav1.ObjectMeta{Name: name}
	_, err := clients(t).RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = clients(t).RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	user := cluster.RESTConfig()
	user.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
	client, err := kubernetes.NewForConfig(user)
	require.NoError(t, err)
	eventually(t, "the user has the rights", func() bool {
		return !slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool {
			resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
			name := strings.Join(rule.ResourceNames[:min(1, len(rule.ResourceNames))], "")
			review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource, Subresource: subresource, Namespace: namespace, Name: name,
				}},
			}, metav1.CreateOptions{})
			return err != nil || !review.Status.Allowed
		})
	})
	return user
}

// runAs runs an operator of a namespace as a user, with an election, until ctx ends. An API
// server that is too busy for its start is tried again.
func runAs(ctx context.Context, user *rest.Config, namespace, name string) error {
	cfg := operator(name)
	cfg.Namespaces = []string{namespace}
	err := context.DeadlineExceeded
	for errors.Is(err, context.DeadlineExceeded) {
		err = runner.Run(ctx, cfg, handler.SyncFunc(naive), runner.Options{
			RESTConfig: user, Logger: slog.New(slog.DiscardHandler), LeaderElection: &runner.LeaderElection{Namespace: namespace},
		})
	}
	return err
}

// Without the right to list, an operator with an election waited for ever: ready, holding
// the lease, and naming no rule, since its watches need no list. It named rights one by one.
func TestRights_AMissingListDoesNotLeaveAnElectedOperatorWaiting(t *testing.T) {
	t.Parallel()
	kit := bystander(t, "rights-list")
	user := userWith(t, kit.Namespace, "rights-list-user",
		ruleOf(parentType.GroupVersionKind().Group, "parents", "get", "list", "watch", "patch"),
		ruleOf("", "configmaps", "get", "watch", "create", "update", "patch", "delete"),
		ruleOf("", "secrets", "get", "watch", "create", "update", "patch"),
		ruleOf("events.k8s.io", "events", "create", "patch"),
		ruleOf("coordination.k8s.io", "leases", "get", "create"),
	)
	err := runAs(t.Context(), user, kit.Namespace, "rights-list")
	in := " in the namespace " + kit.Namespace
	for _, line := range []string{
		`configmaps: list is forbidden` + in + `; add the rule {apiGroups: [""], resources: ["configmaps"], verbs: ["list"]}`,
		`secrets: list, delete are forbidden` + in + `; add the rule {apiGroups: [""], resources: ["secrets"], verbs: ["list", "delete"]}`,
		`leases.coordination.k8s.io: update is forbidden` + in + `; add the rule {apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["update"]}`,
		`parents.conformance.roperator.com/status: update is forbidden` + in + `; add the rule {apiGroups: ["conformance.roperator.com"], resources: ["parents/status"], verbs: ["update"]}`,
		`parents.conformance.roperator.com/finalizers: update is forbidden` + in,
	} {
		require.ErrorContains(t, err, line)
	}
	require.NotContains(t, err.Error(), "events")
	require.NotContains(t, err.Error(), "parents: ")
	_, err = clients(t).CoordinationV1().Leases(kit.Namespace).Get(t.Context(), "rights-list", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}

// A replica that only waits for the lease found out about its rights when it was needed.
func TestRights_AStandbyFindsOutAtItsStart(t *testing.T) {
	t.Parallel()
	kit := bystander(t, "rights-standby")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runAs(ctx, cluster.RESTConfig(), kit.Namespace, "rights-standby") }() // until cancel
	defer func() {
		cancel()
		require.NoError(t, <-ended)
	}()
	eventually(t, "a replica leads", func() bool {
		lease, err := clients(t).CoordinationV1().Leases(kit.Namespace).Get(t.Context(), "rights-standby", metav1.GetOptions{})
		return err == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
	})
	everything := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	user := userWith(t, kit.Namespace, "rights-standby-user",
		ruleOf(parentType.GroupVersionKind().Group, "parents", everything...), ruleOf(parentType.GroupVersionKind().Group, "parents/status", "update"),
		ruleOf("", "configmaps", everything...), ruleOf("", "secrets", everything...), ruleOf("coordination.k8s.io", "leases", "get"),
	)
	err := runAs(t.Context(), user, kit.Namespace, "rights-standby")
	require.ErrorContains(t, err, `leases.coordination.k8s.io: create, update are forbidden in the namespace `+kit.Namespace)
	require.NotContains(t, err.Error(), "secrets")
}
