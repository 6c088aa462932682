package conformance

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

func TestC220_WrongVersion(t *testing.T) {
	scenario(t, "C220", "a type in a version that isn't served: the versions that are served are named, of a child in a response too")
	replaced := func(apiVersion, kind string) config.Child {
		return config.Child{Type: resource.Type{APIVersion: apiVersion, Kind: kind}, Strategy: config.Replace}
	}
	cfg := operator("wrongversion", replaced("apps/v1beta1", "Deployment"), replaced("v1", "Ingress"), replaced("v1", "Configmap"))
	cfg.Parent.APIVersion = "conformance.roperator.com/v1alpha1"
	err := runner.Run(t.Context(), cfg, handler.SyncFunc(copier), runner.Options{RESTConfig: cluster.RESTConfig()})
	require.ErrorContains(t, err, "conformance.roperator.com/v1alpha1/Parent: the API server doesn't serve this type, but serves conformance.roperator.com/v1/Parent; "+
		"configure that version, or have the CustomResourceDefinition serve version v1alpha1")
	require.ErrorContains(t, err, "apps/v1beta1/Deployment: the API server doesn't serve this type, but serves apps/v1/Deployment; is that meant?")
	require.ErrorContains(t, err, "v1/Ingress: the API server doesn't serve this type, but serves networking.k8s.io/v1/Ingress; is that meant?")
	require.ErrorContains(t, err, "v1/Configmap: the API server doesn't serve this type, but serves v1/ConfigMap; is that meant?")

	kit := testkit.New(t, cluster, operator("wrongchild", config.Child{Type: k8s.Deployment, Strategy: config.Replace}),
		handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			return &handler.SyncResponse{Children: []any{map[string]any{"apiVersion": "apps/v1beta1", "kind": "Deployment", "metadata": map[string]any{"name": "web"}}}}, nil
		}))
	kit.Create(parent("one", nil))
	failing(t, kit, parent("one", nil), "apps/v1beta1/Deployment web: kind: not a configured child type, but apps/v1/Deployment is; return the child as that, or add its type to config.Operator.Children")
}

func TestC221_NamespaceOfTheLease(t *testing.T) {
	scenario(t, "C221", "outside of a Pod the Lease is in the namespace default, whatever the kubeconfig says, and the flag's help says so")
	kit := bystander(t, "leasewhere-bystander")
	admin := kubeconfigAs(t, "leasewhere", true)
	cfg, err := clientcmd.LoadFromFile(admin)
	require.NoError(t, err)
	for _, c := range cfg.Contexts {
		c.Namespace = kit.Namespace
	}
	require.NoError(t, clientcmd.WriteToFile(*cfg, admin))
	leases := kubernetes.NewForConfigOrDie(cluster.RESTConfig()).CoordinationV1().Leases("default")
	p := startOperator(t, "leasewhere", admin, nil, "--leader-elect", "--namespace="+kit.Namespace)
	t.Cleanup(func() { require.NoError(t, leases.Delete(context.Background(), "leasewhere", metav1.DeleteOptions{})) })
	p.Says("msg=leading")
	_, err = leases.Get(t.Context(), "leasewhere", metav1.GetOptions{})
	require.NoError(t, err)
	p.Signal(syscall.SIGTERM)
	require.Equal(t, 0, p.Exit())

	help := launch(t, "leasewhere", admin, nil, "--help")
	require.Equal(t, 0, help.Exit())
	require.Contains(t, help.Said(), `by a Lease in the Pod's namespace, outside of a Pod in "default"`)
}

func TestC222_HandlerThatIgnoresSIGTERM(t *testing.T) {
	scenario(t, "C222", "a process whose handler ignores its context fails its liveness probe, releases the lease and ends, a few seconds after the shutdown timeout")
	kit := bystander(t, "stubborn-bystander")
	kit.Create(parent("slow", map[string]any{"data": map[string]any{"wait": "for a word"}}))
	leases := kubernetes.NewForConfigOrDie(cluster.RESTConfig()).CoordinationV1().Leases("default")
	t.Cleanup(func() { require.NoError(t, leases.Delete(context.Background(), "stubborn", metav1.DeleteOptions{})) })
	p := startOperator(t, "stubborn", kubeconfigAs(t, "stubborn", true), []string{shutdownVariable + "=1s"}, "--leader-elect", "--namespace="+kit.Namespace)
	p.Says("waiting for slow")
	p.Signal(syscall.SIGTERM)
	require.Equal(t, 1, p.Exit(), "nobody lets the handler go on")
	require.Contains(t, p.Said(), "handler: Sync: Parent "+kit.Namespace+"/slow: didn't return within 5s after its context had ended, and still runs")
	lease, err := leases.Get(t.Context(), "stubborn", metav1.GetOptions{})
	require.NoError(t, err)
	require.Empty(t, *lease.Spec.HolderIdentity)
}

func TestC223_UnknownFields(t *testing.T) {
	scenario(t, "C223", "an unknown field is told of by a line of the log and an Event, once for each object, which they name; a Secret's value never; then there is silence")
	log := needsAudit(t)
	logs := &rig.Logs{}
	typo := func(apiVersion, kind, name string, fields map[string]any) map[string]any {
		out := map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}}
		maps.Copy(out, fields)
		return out
	}
	web := map[string]any{"spec": map[string]any{
		"replica": 3, "selector": map[string]any{"matchLabels": map[string]any{"a": "b"}},
		"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}, "spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i", "imagePullPolcy": "Always"}}}},
	}}
	children := []any{
		typo("apps/v1", "Deployment", "web", web), typo("v1", "ConfigMap", "a", map[string]any{"dta": map[string]any{"k": "v"}}), typo("v1", "ConfigMap", "b", map[string]any{"dta": map[string]any{"k": "v"}}),
		typo("v1", "Secret", "s", map[string]any{"stringDta": map[string]any{"password": "hunter2"}}),
	}
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Recreate, config.Apply} {
		name := "unknown-" + lower(strategy)
		cfg := operator(name, childrenBy(strategy, k8s.Deployment, k8s.ConfigMap, k8s.Secret)...)
		kit := bystander(t, name+"-bystander")
		cfg.Namespaces = []string{kit.Namespace}
		opts := runner.Options{RESTConfig: cluster.RESTConfig(), Logger: slog.New(slog.NewTextHandler(logs, nil))}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { // until cancel
			ended <- runner.Run(ctx, cfg, handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
				return &handler.SyncResponse{Children: children}, nil
			}), opts)
		}()
		t.Cleanup(cancel)
		kit.Create(parent("one", nil))
		it := parent("one", nil)
		eventually(t, "an Event of each warning", func() bool {
			events := kit.Events(it)
			return anyContains(events, "Warning", "APIWarning", `unknown field "spec.replica": Deployment web`) &&
				anyContains(events, "Warning", "APIWarning", `unknown field "spec.template.spec.containers[0].imagePullPolcy": Deployment web`) &&
				anyContains(events, "Warning", "APIWarning", `unknown field "dta": ConfigMap a, ConfigMap b`) &&
				anyContains(events, "Warning", "APIWarning", `unknown field "stringDta": Secret s`) &&
				anyContains(events, "Normal", "Created")
		})
		eventually(t, "a settled operator is silent", func() bool { // an Event about an unread schema may come later
			from := log.mark(t)
			during(t, 3*time.Second)
			return len(log.since(t, from, name)) == 0
		})
		cancel()
		require.NoError(t, <-ended)
		require.Equal(t, 4, strings.Count(strings.Join(kit.Events(it), "\n"), "APIWarning"))
		for _, line := range []string{
			`type=apps/v1/Deployment object=` + kit.Namespace + `/web warning="unknown field \"spec.replica\""`, `type=v1/ConfigMap object=` + kit.Namespace + `/a warning="unknown field \"dta\""`,
			`type=v1/ConfigMap object=` + kit.Namespace + `/b warning="unknown field \"dta\""`, `type=v1/Secret object=` + kit.Namespace + `/s warning="unknown field \"stringDta\""`,
		} {
			require.Equal(t, 1, strings.Count(logs.String(), line), line)
		}
	}
	require.NotContains(t, logs.String(), "hunter2")
}

func TestC224_SameNamedOperators(t *testing.T) {
	scenario(t, "C224", "two builds of one operator that run side by side: the conflict loop's message suspects the other process, whatever they fight over")
	for name, c := range map[string]struct {
		child    config.Child
		response func(build string) *handler.SyncResponse
	}{
		"status": {configMapChild(), func(build string) *handler.SyncResponse {
			return &handler.SyncResponse{Status: map[string]any{"build": build}}
		}},
		"names": {configMapChild(), func(build string) *handler.SyncResponse {
			return &handler.SyncResponse{Children: []any{configMap("child-"+build, "k", "v")}}
		}},
		"dropped": {configMapChild(), func(build string) *handler.SyncResponse { // one build has a field that the other one lacks
			child := configMap("child", "k", "v")
			if build == "a" {
				child["data"].(map[string]any)["more"] = "x"
			}
			return &handler.SyncResponse{Children: []any{child}}
		}},
		"secret": {config.Child{Type: k8s.Secret, Strategy: config.Replace}, func(build string) *handler.SyncResponse {
			return &handler.SyncResponse{Children: []any{map[string]any{
				"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "child"}, "stringData": map[string]any{"password": "hunter2-" + build},
			}}}
		}},
		"apply": {config.Child{Type: k8s.ConfigMap, Strategy: config.Apply}, func(build string) *handler.SyncResponse {
			return &handler.SyncResponse{Children: []any{configMap("child", "k", build)}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			witnesses := []*witness{newWitness(), newWitness()}
			cfg := unbounded(operator("namesake-"+name, c.child))
			namespace := ""
			for i, w := range witnesses {
				opts := w.options()
				opts.Namespace = namespace
				kit := testkit.NewWithOptions(t, cluster, cfg, handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
					return c.response(string(rune('a' + i))), nil
				}), opts)
				if i == 0 {
					namespace = kit.Namespace
					kit.Create(parent("one", nil))
				}
			}
			for _, w := range witnesses {
				eventually(t, "both find a loop", func() bool { return strings.Contains(w.logged(), "conflict loop") })
				require.Contains(t, w.logged(), `suspect="another process of the operator \"namesake-`+name)
				require.NotContains(t, w.logged(), "hunter2")
			}
		})
	}
}

func TestC225_EventsBesideAnError(t *testing.T) {
	scenario(t, "C225", "Events of a response that comes with an error are recorded, beside the one of the error; so are those of a response that is refused")
	for name, answer := range map[string]func() (*handler.SyncResponse, error){
		"error": func() (*handler.SyncResponse, error) {
			return &handler.SyncResponse{Events: []handler.Event{{Type: handler.EventWarning, Reason: "NoBucket", Message: "the bucket is gone"}}}, errors.New("broken")
		},
		"invalid": func() (*handler.SyncResponse, error) {
			return &handler.SyncResponse{Children: []any{7}, Events: []handler.Event{{Type: handler.EventWarning, Reason: "NoBucket", Message: "the bucket is gone"}}}, nil
		},
		"negative": func() (*handler.SyncResponse, error) {
			return &handler.SyncResponse{Resync: -1, Events: []handler.Event{{Type: handler.EventWarning, Reason: "NoBucket", Message: "the bucket is gone"}}}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kit := testkit.New(t, cluster, operator("eventserror-"+name, configMapChild()), handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) { return answer() }))
			it := parent("one", nil)
			kit.Create(it)
			eventually(t, "both are told", func() bool {
				events := kit.Events(it)
				return anyContains(events, "Warning", "NoBucket", "the bucket is gone") && (anyContains(events, "Warning", "SyncFailed") || anyContains(events, "Warning", "InvalidResponse"))
			})
			require.NotEmpty(t, kit.HandlerErrors(it))
		})
	}
}
