package security

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/testkit"
)

// readerOf returns the configuration of a user who may run the operator relating in a
// namespace, and may read Secrets of these names alone.
func readerOf(t *testing.T, namespace, name string, secrets ...string) *rest.Config {
	t.Helper()
	of := ruleOf("", "secrets", "get", "list", "watch")
	of.ResourceNames = secrets
	group := parentType.GroupVersionKind().Group
	return userWith(t, namespace, name, of,
		ruleOf(group, "parents", "get", "list", "watch", "patch"), ruleOf(group, "parents/status", "update"), ruleOf(group, "parents/finalizers", "update"),
		ruleOf("", "configmaps", "get", "list", "watch", "create", "update", "patch", "delete"),
		ruleOf("events.k8s.io", "events", "create", "patch"),
		rbacv1.PolicyRule{APIGroups: []string{"scheduling.k8s.io"}, Resources: []string{"priorityclasses"}, Verbs: []string{"get", "list", "watch"}},
	)
}

// A role for one name, and for as many as are watched one by one, is enough for parents that
// refer to no others. No list or watch is sent without one of these names.
func TestRelated_ResourceNamesAreEnough(t *testing.T) {
	for _, count := range []int{1, 64} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			t.Parallel()
			name := fmt.Sprintf("names-%d", count)
			home := bystander(t, name+"-home")
			var names []string
			for i := range count {
				names = append(names, fmt.Sprintf("token-%02d", i))
				home.Create(secret(names[i], "1"))
			}
			home.Create(secret("other", "1"))
			o := &observed{}
			opts := o.optionsAs(readerOf(t, home.Namespace, name, names...))
			opts.Namespace = home.Namespace
			kit := testkit.NewWithOptions(t, cluster, relating(name), trusting(), opts)
			kit.Create(parent("all", map[string]any{"secrets": anys(names)}))
			kit.Create(parent("one", map[string]any{"secret": names[0]}))
			shows(kit, "all", names...)
			shows(kit, "one", names[0])
			kit.Delete(secret(names[0], ""))
			shows(kit, "all", names[1:]...)
			shows(kit, "one")
			kit.Create(secret(names[0], "2"))
			shows(kit, "one", names[0])
			require.NoError(t, kit.Settle(patience))
			kit.Restart(relating(name), trusting())
			require.NoError(t, kit.Settle(patience))
			require.Empty(t, kit.HandlerErrors(parent("all", nil)))
			reads := ofSecrets(o.asked(0))
			require.GreaterOrEqual(t, len(reads), 2*count)
			for _, at := range reads {
				require.True(t, slices.ContainsFunc(names, func(name string) bool { return at.Query().Get("fieldSelector") == "metadata.name="+name }), "%s", at)
			}
		})
	}
}

func anys(names []string) (out []any) {
	for _, name := range names {
		out = append(out, name)
	}
	return out
}

// The author of a parent names what the role doesn't allow. That is an error of this parent,
// which says what rule is missing. Others go on, also after a restart.
func TestRelated_ANameBeyondTheRole(t *testing.T) {
	t.Parallel()
	home := bystander(t, "beyond-home")
	for _, name := range []string{"token", "other"} {
		home.Create(secret(name, "1"))
	}
	o := &observed{}
	opts := o.optionsAs(readerOf(t, home.Namespace, "beyond", "token"))
	opts.Namespace = home.Namespace
	kit := testkit.NewWithOptions(t, cluster, relating("beyond"), trusting(), opts)
	goesOn := func() {
		t.Helper()
		kit.Delete(secret("token", ""))
		shows(kit, "good")
		kit.Create(secret("token", "1"))
		shows(kit, "good", "token")
	}
	kit.Create(parent("good", map[string]any{"secret": "token"}))
	shows(kit, "good", "token")
	kit.Create(parent("bad", map[string]any{"secret": "other"}))
	failsWith(t, kit, "bad", "related: Secret "+home.Namespace+"/other", "secrets", "is forbidden", `add the rule {apiGroups: [""], resources: ["secrets"], verbs: ["get", "list", "watch"]}`)
	goesOn()
	for _, at := range ofSecrets(o.asked(0)) {
		require.Contains(t, []string{"metadata.name=token", "metadata.name=other"}, at.Query().Get("fieldSelector"), "%s", at)
	}
	// More names than are watched one by one.
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprint("no-such-", i))
	}
	kit.Create(parent("many", map[string]any{"secrets": anys(names)}))
	failsWith(t, kit, "many", "related: Secret", "is forbidden", "add the rule")
	goesOn()
	kit.Restart(relating("beyond"), trusting())
	goesOn()
	require.Nil(t, kit.Get(child("ConfigMap", map[string]any{"name": "bad"})))
	require.Nil(t, kit.Get(child("ConfigMap", map[string]any{"name": "many"})))
}
