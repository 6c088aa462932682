package conformance

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

// A restricted operator works in a namespace of its own, as a user who may do what it takes
// to have parents and ConfigMaps, and with Secrets what is granted.
type restricted struct {
	t         *testing.T
	admin     *kubernetes.Clientset
	user      string
	namespace string
	health    string // where /readyz is
}

func newRestricted(t *testing.T, user string) *restricted {
	t.Helper()
	admin, _ := clients(t, "somebody")
	r := &restricted{t: t, admin: admin, user: user, namespace: user + "-" + rand.String(8), health: "127.0.0.1:" + freePort(t)}
	_, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	group := []string{"conformance.roperator.com"}
	r.bind("operator",
		rbacv1.PolicyRule{APIGroups: group, Resources: []string{"parents"}, Verbs: []string{"get", "list", "watch", "patch"}},
		rbacv1.PolicyRule{APIGroups: group, Resources: []string{"parents/status", "parents/finalizers"}, Verbs: []string{"update"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"}},
		rbacv1.PolicyRule{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	)
	r.bind("related")
	r.await("watch", "parents.conformance.roperator.com", "", true)
	return r
}

// bind gives the user a role.
func (r *restricted) bind(role string, rules ...rbacv1.PolicyRule) {
	r.t.Helper()
	meta := metav1.ObjectMeta{Name: role, Namespace: r.namespace}
	_, err := r.admin.RbacV1().Roles(r.namespace).Create(r.t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	require.NoError(r.t, err)
	_, err = r.admin.RbacV1().RoleBindings(r.namespace).Create(r.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: r.user}},
	}, metav1.CreateOptions{})
	require.NoError(r.t, err)
}

// grant allows these verbs on Secrets, all or those of some names, and nothing else. It
// returns when the API server goes by that.
func (r *restricted) grant(verbs []string, names ...string) {
	r.t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "related", Namespace: r.namespace}}
	if len(verbs) > 0 {
		role.Rules = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: verbs, ResourceNames: names}}
	}
	_, err := r.admin.RbacV1().Roles(r.namespace).Update(r.t.Context(), role, metav1.UpdateOptions{})
	require.NoError(r.t, err)
	name := ""
	if len(names) > 0 {
		name = names[0]
	}
	for _, verb := range []string{"get", "list", "watch"} {
		r.await(verb, "secrets.", name, strings.Contains(strings.Join(verbs, " "), verb))
	}
}

// await waits until the user may do something, or may not. The resource has its group.
func (r *restricted) await(verb, resource, name string, allowed bool) {
	r.t.Helper()
	plural, group, _ := strings.Cut(resource, ".")
	eventually(r.t, fmt.Sprintf("%s %s: %t", verb, resource, allowed), func() bool {
		review, err := r.admin.AuthorizationV1().SubjectAccessReviews().Create(r.t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: r.user, ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: r.namespace, Verb: verb, Group: group, Resource: plural, Name: name},
		}}, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed == allowed
	})
}

func (r *restricted) options() testkit.KitOptions {
	cfg := cluster.RESTConfig()
	cfg.Impersonate = rest.ImpersonationConfig{UserName: r.user}
	return testkit.KitOptions{Namespace: r.namespace, Runner: runner.Options{RESTConfig: cfg, HealthAddress: r.health}}
}

// readyz returns the answer of /readyz.
func (r *restricted) readyz() (code int, text string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+r.health+"/readyz", http.NoBody)
	require.NoError(r.t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	return resp.StatusCode, string(body)
}

// says waits until /readyz answers with this code, and says this.
func (r *restricted) says(code int, text string) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("/readyz says %d %s", code, text), func() bool {
		got, body := r.readyz()
		return got == code && strings.Contains(body, text)
	})
}

// secretsRule is what an operator must be allowed to read Secrets that parents refer to.
const secretsRule = `add the rule {apiGroups: [""], resources: ["secrets"], verbs: ["get", "list", "watch"]}`

func TestC88_Forbidden(t *testing.T) {
	scenario(t, "C88", "the watch of a related type is forbidden: the parents that refer to it fail with the rule to add, /readyz names it, others go on; they follow without a restart once there is the right")
	every := []string{"get", "list", "watch"}
	for name, tc := range map[string]struct {
		verbs []string // that are allowed at first
		names []string // of the Secrets for which they are; none: all
	}{
		"nothing":  {},
		"no-watch": {verbs: []string{"get", "list"}},
		"get-only": {verbs: []string{"get"}},
		"names":    {verbs: every, names: []string{"mine"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRestricted(t, "c88-"+name)
			r.grant(tc.verbs, tc.names...)
			m := &mirror{}
			kit := testkit.NewWithOptions(t, cluster, relating("c88-"+name, secretsByName()), m.handler(), r.options())
			kit.Create(secretWith("mine", "m"))
			kit.Create(secretWith("token", "1"))
			r.says(http.StatusOK, "ok")
			kit.Create(naming("p", "token"))
			kit.Create(naming("late", "not-there-yet"))
			failing(t, kit, naming("p", ""), "related: Secret "+r.namespace+"/token: v1/Secret: watch is forbidden")
			failing(t, kit, naming("late", ""), secretsRule)
			r.says(http.StatusInternalServerError, secretsRule)
			eventually(t, "an Event", func() bool { return anyContains(kit.Events(naming("p", "")), "Warning", secretsRule) })

			kit.Create(parent("other", nil))
			saying(kit, "other", "")
			kit.Create(naming("named", "mine"))
			if tc.names != nil {
				saying(kit, "named", "secret/mine=m")
				kit.Update(secretWith("mine", "n"))
				saying(kit, "named", "secret/mine=n")
			}
			kit.Update(secretWith("token", "2"))
			require.Empty(t, m.shown("p"), "its handler isn't called before all is known")
			require.Empty(t, m.shown("late"))

			r.grant(every)
			saying(kit, "p", "secret/token=2")
			saying(kit, "late", "")
			r.says(http.StatusOK, "ok")
			require.Equal(t, []string{"secret/token=2"}, slices.Compact(m.shown("p")))
			kit.Create(secretWith("not-there-yet", "3"))
			saying(kit, "late", "secret/not-there-yet=3")
			settle(t, kit)
		})
	}
}

// The right is taken away while the operator runs, and its watches end.
func TestC88b_ForbiddenLater(t *testing.T) {
	scenario(t, "C88b", "the right to read a related type is lost while the operator runs: /readyz names the rule, parents keep what they have, new references fail with the rule, and all follow once there is the right again")
	r := newRestricted(t, "c88-later")
	every := []string{"get", "list", "watch"}
	r.grant(every)
	m, way := &mirror{}, newSecretsWay()
	opts := r.options()
	way.wrap(opts.Runner.RESTConfig)
	kit := testkit.NewWithOptions(t, cluster, relating("c88-later", secretsByName()), m.handler(), opts)
	kit.Create(secretWith("token", "1"))
	kit.Create(secretWith("another", "a"))
	kit.Create(naming("p", "token"))
	saying(kit, "p", "secret/token=1")
	settle(t, kit)

	r.grant(nil)
	way.cut()
	r.says(http.StatusInternalServerError, `add the rule {apiGroups: [""], resources: ["secrets"]`)
	kit.Create(naming("q", "another"))
	failing(t, kit, naming("q", ""), secretsRule)
	kit.Create(parent("other", nil))
	saying(kit, "other", "")
	kit.Update(secretWith("token", "2"))

	r.grant(every)
	saying(kit, "p", "secret/token=2")
	saying(kit, "q", "secret/another=a")
	r.says(http.StatusOK, "ok")
	settle(t, kit)
	require.Equal(t, []string{"secret/token=1", "secret/token=2"}, slices.Compact(m.shown("p")))
	require.Equal(t, []string{"secret/another=a"}, slices.Compact(m.shown("q")))
}

// Where more names are referred to than have a watch each, a new one is listed by itself,
// while the watch of all goes on.
func TestC88c_ForbiddenLookup(t *testing.T) {
	scenario(t, "C88c", "beyond 64 names, the right to list is lost and the watch goes on: only the parent with the new name fails, with the rule to add, which /readyz names, too")
	const many = 70
	r := newRestricted(t, "c88-lookup")
	r.grant([]string{"get", "list", "watch"})
	m := &mirror{}
	kit := testkit.NewWithOptions(t, cluster, relating("c88-lookup", secretsByName()), m.handler(), r.options())
	kit.Create(secretWith("token", "1"))
	kit.Create(parent("many", map[string]any{"secrets": numbered("s", many)}))
	saying(kit, "many", "")
	r.grant([]string{"get", "watch"})
	kit.Create(naming("p", "token"))
	const rule = `add the rule {apiGroups: [""], resources: ["secrets"], verbs: ["list"]}`
	failing(t, kit, naming("p", ""), rule)
	r.says(http.StatusInternalServerError, rule)
	require.Empty(t, m.shown("p"))
	kit.Create(secretWith("s1", "one"))
	saying(kit, "many", "secret/s1=one")
	r.grant([]string{"get", "list", "watch"})
	saying(kit, "p", "secret/token=1")
	r.says(http.StatusOK, "ok")
	settle(t, kit)
}
