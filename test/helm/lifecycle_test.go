package helm

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/kube"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/runner"
)

// patience only bounds a hang.
const patience = 4 * time.Minute

var miceResource = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "mice"}

// leaver returns a program whose operator has a ConfigMap for each parent, and finalizes parents.
func leaver(name string) runner.Program {
	cfg := mice()
	cfg.Name = name
	return runner.Program{Name: name, Operators: []runner.Spec{{Config: cfg, Handler: handler.Funcs{
		SyncFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			return &handler.SyncResponse{Children: []any{object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": req.Parent.Name()}}}}, nil
		},
		FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
			return &handler.FinalizeResponse{Finalized: true}, nil
		},
	}}}}
}

// A release is a chart that is installed in a namespace, with parents there and in another.
type release struct {
	*kubelet
	name    string // of the program
	dir     string // of the chart
	other   string // the second namespace
	config  *action.Configuration
	dynamic dynamic.Interface
}

func newRelease(t *testing.T, name string) *release {
	t.Helper()
	if !cluster.HasControllerManager() {
		t.Skip("needs a kube-controller-manager, which makes Pods of Deployments and Jobs, and collects garbage")
	}
	admin, err := kubernetes.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	client, err := dynamic.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	r := &release{
		kubelet: &kubelet{t: t, client: admin, namespace: name + "-system", pods: map[types.UID]*podProcess{}},
		name:    name, dir: filepath.Join(t.TempDir(), "chart"), other: name + "-other", config: action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler)), dynamic: client,
	}
	for _, namespace := range []string{r.namespace, r.other} {
		_, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	flags := genericclioptions.NewConfigFlags(false)
	file, cache := cluster.Kubeconfig(), t.TempDir()
	flags.KubeConfig, flags.Namespace, flags.CacheDir = &file, &r.namespace, &cache
	require.NoError(t, r.config.Init(flags, r.namespace, "secret"))
	var stderr strings.Builder
	code := leaver(name).Execute(t.Context(), []string{
		"manifests", "--image=" + name, "-o=helm", "--output-dir=" + r.dir, "--arg=--metrics-bind-address=0", "--arg=--health-probe-bind-address=0",
	}, io.Discard, &stderr)
	require.Zero(t, code, stderr.String())
	return r
}

// install is helm install.
func (r *release) install(given string) {
	r.t.Helper()
	chart, err := loader.LoadDir(r.dir)
	require.NoError(r.t, err)
	install := action.NewInstall(r.config)
	install.ReleaseName, install.Namespace, install.Timeout, install.WaitStrategy = r.name, r.namespace, patience, kube.StatusWatcherStrategy
	require.NoError(r.t, r.during("helm install", func() error {
		_, err := install.Run(chart, values(r.t, given))
		return err
	}))
}

// upgrade is helm upgrade.
func (r *release) upgrade(given string) {
	r.t.Helper()
	chart, err := loader.LoadDir(r.dir)
	require.NoError(r.t, err)
	upgrade := action.NewUpgrade(r.config)
	upgrade.Namespace, upgrade.Timeout, upgrade.WaitStrategy = r.namespace, patience, kube.StatusWatcherStrategy
	require.NoError(r.t, r.during("helm upgrade", func() error {
		_, err := upgrade.Run(r.name, chart, values(r.t, given))
		return err
	}))
}

// uninstall is helm uninstall.
func (r *release) uninstall() error {
	r.t.Helper()
	uninstall := action.NewUninstall(r.config)
	uninstall.Timeout, uninstall.WaitStrategy = patience, kube.StatusWatcherStrategy
	return r.during("helm uninstall", func() error {
		_, err := uninstall.Run(r.name)
		return err
	})
}

// create creates a parent, and waits for its child if it is to get one.
func (r *release) create(namespace, name string, served bool) {
	r.t.Helper()
	_, err := r.dynamic.Resource(miceResource).Namespace(namespace).Create(r.t.Context(), &unstructured.Unstructured{Object: object{
		"apiVersion": "example.com/v1", "kind": "Mouse", "metadata": object{"name": name},
	}}, metav1.CreateOptions{})
	require.NoError(r.t, err)
	if served {
		r.until("the child of "+name, func() bool { return r.child(namespace, name) != nil })
	}
}

// awaitCollector waits until the garbage collector collects children of mice. It looks for new types every 30 s, which a
// drain may be too short for.
func (r *release) awaitCollector() {
	r.t.Helper()
	r.create(r.namespace, "first", true)
	require.NoError(r.t, r.dynamic.Resource(miceResource).Namespace(r.namespace).Delete(r.t.Context(), "first", metav1.DeleteOptions{}))
	r.until("the garbage collector", func() bool { return r.child(r.namespace, "first") == nil })
}

// child returns a child, nil if it isn't there.
func (r *release) child(namespace, name string) *corev1.ConfigMap {
	r.t.Helper()
	out, err := r.client.CoreV1().ConfigMaps(namespace).Get(r.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(r.t, err)
	return out
}

// parents returns the names of the parents.
func (r *release) parents() (out []string) {
	r.t.Helper()
	list, err := r.dynamic.Resource(miceResource).List(r.t.Context(), metav1.ListOptions{})
	require.NoError(r.t, err)
	for _, o := range list.Items {
		out = append(out, o.GetNamespace()+"/"+o.GetName())
	}
	return out
}

// left returns what there is of the release and its hook, besides Helm's own Secret and what isn't made by the chart.
func (r *release) left() (out []string) {
	r.t.Helper()
	selector := metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=" + r.name}
	for _, resource := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "serviceaccounts"}, {Group: "apps", Version: "v1", Resource: "deployments"}, {Group: "batch", Version: "v1", Resource: "jobs"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
		{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
	} {
		list, err := r.dynamic.Resource(resource).List(r.t.Context(), selector)
		require.NoError(r.t, err)
		for _, o := range list.Items {
			out = append(out, o.GetKind()+" "+o.GetName())
		}
	}
	return out
}

// hook returns the process of the last hook.
func (r *release) hook() *podProcess {
	r.t.Helper()
	all := r.ran("uninstall")
	require.NotEmpty(r.t, all)
	return slices.MaxFunc(all, func(a, b *podProcess) int { return a.Pid() - b.Pid() })
}

// Helm installs, upgrades and uninstalls the chart, and the hook drains while the operator runs.
func TestLifecycle(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, values string
		kept           bool // the children, as nobody's
		outside        bool // whether parents of the other namespace are the operator's too
	}{
		"whole":      {"all parents go, and their children with them", "", false, true},
		"keeping":    {"the children stay, as nobody's", "drain: {keepChildren: true}", true, true},
		"restricted": {"only what the operator looks at goes", "watchNamespace: restricted-system", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRelease(t, name)
			r.install(tc.values)
			r.create(r.namespace, "a", true)
			r.create(r.namespace, "b", true)
			r.create(r.other, "c", tc.outside)
			before := r.child(r.namespace, "a")

			r.upgrade(strings.TrimPrefix(tc.values+"\nreplicas: 2\npodAnnotations: {rolled: again}", "\n"))
			r.create(r.namespace, "d", true)
			require.Greater(t, len(r.ran("--leader-elect")), 2, "the one of before, and two")
			require.Equal(t, before.ResourceVersion, r.child(r.namespace, "a").ResourceVersion, "nobody has touched it")
			require.Contains(t, r.left(), "Deployment "+name)

			for _, p := range r.ran("--leader-elect") { // later their rights go before they end
				for line := range strings.Lines(p.Said()) {
					// client-go says so of a request of an operator that ends.
					require.False(t, strings.Contains(line, "level=ERROR") && !strings.Contains(line, "context canceled"), line)
				}
			}
			require.NoError(t, r.uninstall(), tc.reason)
			hook := r.hook()
			require.Zero(t, hook.Exit())
			require.Equal(t, name, hook.account, "it has the rights of the operator, and those of the hook")
			require.Contains(t, hook.Said(), name+": nothing is left")
			require.Empty(t, r.left(), "neither release nor hook")
			r.until("the operators end", func() bool {
				return !slices.ContainsFunc(r.ran("--leader-elect"), func(p *podProcess) bool { return !p.Ended() })
			})
			for _, p := range r.ran("--leader-elect") {
				require.True(t, p.Exit() == 0 || p.Said() == "", "it ends well, unless it was stopped before it had begun: %d: %s", p.Exit(), p.Said())
			}
			if tc.outside {
				require.Empty(t, r.parents())
			} else {
				require.Equal(t, []string{r.other + "/c"}, r.parents(), tc.reason)
				require.NoError(t, r.dynamic.Resource(miceResource).Namespace(r.other).Delete(t.Context(), "c", metav1.DeleteOptions{}))
			}
			for _, child := range []string{"a", "b", "d"} {
				if !tc.kept {
					require.Nil(t, r.child(r.namespace, child))
					continue
				}
				live := r.child(r.namespace, child)
				require.NotNil(t, live, tc.reason)
				require.Empty(t, live.OwnerReferences)
				require.Empty(t, live.Labels)
			}
		})
	}
}

// Without an operator nobody finalizes: the hook says so and fails, nothing of the release is
// deleted, and it is done once the operator runs again.
func TestLifecycle_NoOperator(t *testing.T) {
	r := newRelease(t, "idle")
	r.install("")
	r.awaitCollector()
	r.create(r.namespace, "a", true)
	r.upgrade("replicas: 0\ndrain: {timeout: 20s}")
	r.until("the operator ends", func() bool { return r.ran("--leader-elect")[0].Ended() })
	began := time.Now()
	require.ErrorContains(t, r.uninstall(), "idle-drain")
	require.Less(t, time.Since(began), time.Minute)
	require.Equal(t, 1, r.hook().Exit())
	require.Contains(t, r.hook().Said(), "Nobody holds the Lease idle-system/idle")
	require.NotEmpty(t, r.parents())
	require.Contains(t, r.left(), "Deployment idle")
	require.Contains(t, r.left(), "Job idle-drain", "its log tells why")
	job, err := r.client.BatchV1().Jobs(r.namespace).Get(t.Context(), "idle-drain", metav1.GetOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 24*60*60, *job.Spec.TTLSecondsAfterFinished, "for a day")

	// Helm upgrades no release whose end has begun.
	scale, err := r.client.AppsV1().Deployments(r.namespace).GetScale(t.Context(), r.name, metav1.GetOptions{})
	require.NoError(t, err)
	scale.Spec.Replicas = 1
	_, err = r.client.AppsV1().Deployments(r.namespace).UpdateScale(t.Context(), r.name, scale, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, r.uninstall())
	require.Empty(t, r.parents())
	require.Empty(t, r.left())
}
