package conformance

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

// clusterParent returns a ClusterParent of the kit with this spec.
func clusterParent(kit *testkit.Kit, name string, spec map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": clusterParentType.APIVersion, "kind": clusterParentType.Kind,
		"metadata": map[string]any{"name": kit.Namespace + "-" + name}, "spec": spec,
	}
}

// inNamespace puts an object into a namespace.
func inNamespace(namespace string, object map[string]any) map[string]any {
	metadata(object)["namespace"] = namespace
	return object
}

// removeNamespace is for one that a test made besides its Kit's.
func removeNamespace(t *testing.T, name string) {
	t.Helper()
	t.Cleanup(func() {
		typed, _ := clients(t, "somebody")
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := typed.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			require.NoError(t, err)
		}
	})
}

func TestC237_NamespacesFirst(t *testing.T) {
	scenario(t, "C237", "Namespaces are written first, the other types in the configuration's order")
	log := needsAudit(t)
	// The configuration names the types in another order than they are needed
	// in: Namespaces go first, the rest as configured.
	cfg := operator("namespaces-first", configMapChild(), config.Child{Type: k8s.Secret, Strategy: config.Replace},
		config.Child{Type: k8s.Namespace, Strategy: config.Replace}, config.Child{Type: k8s.ClusterRole, Strategy: config.Replace})
	cfg.Parent = clusterParentType
	kit := testkit.New(t, cluster, cfg, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		ns := req.Parent.Name()
		return &handler.SyncResponse{Children: []any{
			map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": ns}},
			map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "a", "namespace": ns}},
			inNamespace(ns, configMap("a", "k", "v")), inNamespace(ns, configMap("b", "k", "v")),
			map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": ns}},
		}}, nil
	}))
	from := log.mark(t)
	it := clusterParent(kit, "one", map[string]any{})
	removeNamespace(t, kit.Namespace+"-one")
	kit.Create(it)
	settle(t, kit)
	require.Empty(t, kit.HandlerErrors(it))
	var kinds []string
	for _, w := range kit.Writes() {
		require.Equal(t, "create", w.Verb)
		kinds = append(kinds, w.Type.Kind)
	}
	require.Equal(t, []string{"Namespace", "ConfigMap", "ConfigMap", "Secret", "ClusterRole"}, kinds)
	require.Len(t, traffic(t, log, from, "namespaces-first"), 5)
	require.Equal(t, 5, kit.Snapshot(it).Children.Len())
}

func TestC238_NamespaceThatIsMissing(t *testing.T) {
	scenario(t, "C238", "a child in a namespace that doesn't exist yet is retried")
	cfg := operator("missing-namespace", configMapChild())
	cfg.Parent = clusterParentType
	kit := testkit.New(t, cluster, cfg, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		ns := req.Parent.Name()
		return &handler.SyncResponse{Children: []any{inNamespace(ns, configMap("a", "k", "v"))}, Status: map[string]any{"seen": req.Children.Len()}}, nil
	}))
	it := clusterParent(kit, "late", map[string]any{})
	ns := kit.Namespace + "-late"
	kit.Create(it)
	failing(t, kit, it, "ConfigMap "+ns+"/a: create: namespaces \""+ns+"\" not found")
	removeNamespace(t, ns)
	kit.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	kit.EventuallyExists(inNamespace(ns, configMap("a", "", "")), patience)
	settle(t, kit)
}

func TestC239_DeleteFirst(t *testing.T) {
	scenario(t, "C239", "DeleteFirst frees a port before it is taken again")
	// Two Services can't have one nodePort: the old one has to go first.
	service := func(name string, port int32) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: port}},
		}}
	}
	order := func(s *stage, port int32) []string {
		s.want(service("old", port), configMap("old", "k", "v"))
		s.ask(service("new", port), configMap("new", "k", "v"))
		s.EventuallyExists(service("new", 0), patience)
		settle(t, s.Kit)
		var lines []string
		for _, w := range s.Writes() {
			if w.Type == k8s.Service || w.Type == k8s.ConfigMap {
				lines = append(lines, w.Verb+" "+w.Type.Kind+" "+w.Key.Name)
			}
		}
		return lines[2:]
	}
	first := config.Child{Type: k8s.Service, Strategy: config.Replace, DeleteFirst: true}
	s := newStage(t, "delete-first", configMapChild(), first)
	// The API server gives the lowest ports to nobody who doesn't ask for them.
	require.Equal(t, []string{"create ConfigMap new", "delete Service old", "create Service new", "delete ConfigMap old"}, order(s, 30023))
	require.Empty(t, s.errors())
}

func TestC240_SeveralNamespaces(t *testing.T) {
	scenario(t, "C240", "one operator in two namespaces of three")
	// One operator in two namespaces of three.
	here, there := idle(t, "several-a"), idle(t, "several-b")
	outside := idle(t, "several-c")
	cfg := operator("several", configMapChild())
	cfg.Namespaces = []string{here.Namespace, there.Namespace}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { // until cancel
		done <- insist(func() error {
			return runner.Run(ctx, cfg, finalizing(released), runner.Options{
				RESTConfig: cluster.RESTConfig(), Logger: slog.New(slog.NewTextHandler(newWitness(), nil)),
			})
		})
	}()
	defer func() {
		cancel()
		require.NoError(t, <-done)
	}()
	for _, kit := range []*testkit.Kit{here, there, outside} {
		kit.Create(parent("one", withData("k", kit.Namespace)))
	}
	for _, kit := range []*testkit.Kit{here, there} {
		kit.Eventually(configMap("one", "k", kit.Namespace), patience)
		kit.Update(configMap("one", "k", "by hand"))
		kit.Eventually(configMap("one", "k", kit.Namespace), patience)
		kit.Delete(configMap("one", "", ""))
		kit.Eventually(configMap("one", "k", kit.Namespace), patience)
	}
	require.Nil(t, outside.Get(configMap("one", "", "")))
	require.Empty(t, outside.Get(parent("one", nil)).Finalizers())
	for _, kit := range []*testkit.Kit{here, there} {
		kit.Delete(parent("one", nil))
		kit.EventuallyGone(parent("one", nil), patience)
	}
}

func TestC241_ManyChildrenInATerminatingNamespace(t *testing.T) {
	scenario(t, "C241", "a hundred children in a namespace being terminated: no error, no storm")
	needsControllerManager(t)
	log := needsAudit(t)
	const count = 100
	s := newStage(t, "terminating-many", configMapChild(), config.Child{Type: k8s.Secret, Strategy: config.Replace})
	var children []any
	for i := range count {
		children = append(children, configMap(fmt.Sprintf("child-%d", i), "k", "v"),
			map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": fmt.Sprintf("child-%d", i)}})
	}
	s.want(children...)
	withFinalizers(t, s.Kit, "one", func([]string) []string { return []string{"example.com/hold"} })
	settle(t, s.Kit)
	typed, _ := clients(t, "somebody")
	from := log.mark(t)
	require.NoError(t, typed.CoreV1().Namespaces().Delete(t.Context(), s.Namespace, metav1.DeleteOptions{}))
	eventually(t, "the children go", func() bool {
		left, err := typed.CoreV1().ConfigMaps(s.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "roperator.com/operator"})
		secrets, err2 := typed.CoreV1().Secrets(s.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "roperator.com/operator"})
		return err == nil && err2 == nil && len(left.Items)+len(secrets.Items) == 0
	})
	require.NoError(t, s.Settle(patience))
	require.Empty(t, s.errors())
	seen := log.since(t, from, "terminating-many")
	require.Less(t, len(seen), count/2, "no storm: %v", seen[:min(len(seen), 10)])
	freeParents(t, s.Kit, "one")
}

func TestC242_ResyncBesideARefusal(t *testing.T) {
	scenario(t, "C242", "a Resync beside a refused child calls the handler, not the API server")
	log := needsAudit(t)
	from := log.mark(t)
	s := newStageWith(t, patient("resync-refused", configMapChild()), testkit.KitOptions{})
	bad := configMap("bad", "not a key!", "v")
	s.answer(func(*handler.SyncRequest) *handler.SyncResponse {
		return &handler.SyncResponse{Children: []any{bad}, Resync: 200 * time.Millisecond}
	})
	failing(t, s.Kit, parent("one", nil), "ConfigMap "+s.Namespace+"/bad: create")
	eventually(t, "the handler is asked again", func() bool { return s.Syncs(parent("one", nil)) > 50 })
	require.Less(t, len(writesTo(t, log, from, "resync-refused", "configmaps")), 12, "the API server isn't")
}

func TestC243_PermanentErrorsWaitForAChange(t *testing.T) {
	scenario(t, "C243", "a permanent error waits for a change of the parent or a child")
	s := newStage(t, "permanent", configMapChild())
	s.want(configMap("child", "k", "v"))
	kit := s.Kit
	it := parent("one", nil)
	cfg := operator("permanent", configMapChild())
	kit.Restart(cfg, handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		return nil, handler.Permanent(fmt.Errorf("wrapped: %w", context.Canceled))
	}))
	eventually(t, "it fails", func() bool { return len(kit.HandlerErrors(it)) == 1 })
	settle(t, kit)
	quiet(t, s.config.Name)
	require.Len(t, kit.HandlerErrors(it), 1)
	kit.Update(configMap("child", "k", "by hand"))
	eventually(t, "a child has changed", func() bool { return len(kit.HandlerErrors(it)) == 2 })
	kit.Update(parent("one", map[string]any{"changed": true}))
	eventually(t, "the parent has changed", func() bool { return len(kit.HandlerErrors(it)) == 3 })
	require.Equal(t, "by hand", s.field(configMap("child", "", ""), "data", "k"), "on an error nothing is changed")
	eventually(t, "an Event tells of it", func() bool { return anyContains(kit.Events(it), "SyncFailed") })
}
