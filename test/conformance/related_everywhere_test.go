package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

func TestC82c_ManyNamespaces(t *testing.T) {
	scenario(t, "C82c", "a type to which a parent refers in more than 64 namespaces has one watch for all of them; where that is forbidden, each namespace has its own")
	const count = 70
	log := needsAudit(t)
	for _, allowed := range []bool{true, false} {
		t.Run(fmt.Sprintf("allowed=%t", allowed), func(t *testing.T) {
			t.Parallel()
			name := fmt.Sprint("c82c-", allowed)
			admin, _ := clients(t, "somebody")
			subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}}
			reads := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}}
			role := func(role string, rules ...rbacv1.PolicyRule) rbacv1.RoleRef {
				_, err := admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: rules}, metav1.CreateOptions{})
				require.NoError(t, err)
				return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
			}
			everywhere := func(ref rbacv1.RoleRef) {
				_, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: ref.Name}, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
				require.NoError(t, err)
			}
			everywhere(role(name+"-operator",
				rbacv1.PolicyRule{APIGroups: []string{"conformance.roperator.com"}, Resources: []string{"*"}, Verbs: []string{"*"}},
				rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"*"}},
				rbacv1.PolicyRule{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
			))
			reader := role(name+"-reader", reads)
			if allowed {
				everywhere(reader)
			}
			namespaces := make([]string, count)
			for i := range namespaces {
				namespaces[i] = fmt.Sprintf("%s-%d-%s", name, i, rand.String(6))
				meta := metav1.ObjectMeta{Name: "reader", Namespace: namespaces[i]}
				_, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaces[i]}}, metav1.CreateOptions{})
				require.NoError(t, err)
				_, err = admin.RbacV1().RoleBindings(namespaces[i]).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: reader, Subjects: subjects}, metav1.CreateOptions{})
				require.NoError(t, err)
				_, err = admin.CoreV1().ConfigMaps(namespaces[i]).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"v": "1"}}, metav1.CreateOptions{})
				require.NoError(t, err)
			}
			cfg := operator(name, config.Child{Type: k8s.Secret, Strategy: config.Replace})
			cfg.Parent = clusterParentType
			cfg.Related = []config.Related{{Type: k8s.ConfigMap, AnyNamespace: true}}
			as := cluster.RESTConfig()
			as.Impersonate = rest.ImpersonationConfig{UserName: name}
			begin := log.mark(t)
			kit := testkit.NewWithOptions(t, cluster, cfg, handler.Funcs{
				RelateFunc: func(*resource.Resource) (refs []handler.Ref, err error) {
					for _, namespace := range namespaces {
						refs = append(refs, handler.Ref{Type: k8s.ConfigMap, Namespace: namespace, Name: "settings"})
					}
					return refs, nil
				},
				SyncFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
					var told strings.Builder
					for res := range req.Related.All() {
						v, _ := res.Field("data", "v")
						fmt.Fprint(&told, v)
					}
					return &handler.SyncResponse{Status: map[string]any{"told": told.String()}}, nil
				},
			}, testkit.KitOptions{Runner: runner.Options{RESTConfig: as}})
			it := clusterParent(kit, "one", map[string]any{})
			told := func() string {
				status, _ := kit.Get(it).Field("status", "told")
				text, _ := status.(string)
				return text
			}
			kit.Create(it)
			eventually(t, "all are shown", func() bool { return told() == strings.Repeat("1", count) })
			_, err := admin.CoreV1().ConfigMaps(namespaces[0]).Update(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"v": "2"}}, metav1.UpdateOptions{})
			require.NoError(t, err)
			eventually(t, "the edit is shown", func() bool { return strings.Contains(told(), "2") })
			settle(t, kit)
			require.Empty(t, kit.HandlerErrors(it))
			wide, narrow := 0, 0
			for _, r := range slices.DeleteFunc(log.all(t, begin), func(r request) bool {
				return r.Verb != "watch" || r.Resource != "configmaps" || r.Ended || !strings.HasPrefix(r.UserAgent, name+"/")
			}) {
				if r.Namespace == "" {
					wide++
				} else {
					narrow++
				}
			}
			require.Positive(t, wide)
			if allowed {
				require.Zero(t, narrow)
			} else {
				require.GreaterOrEqual(t, narrow, count)
				require.LessOrEqual(t, wide, 2)
			}
		})
	}
}
