package upgrade

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/roperator/roperator/internal/testing/audit"
	"github.com/roperator/roperator/internal/testing/operatorproc"
)

const (
	shops = 200
	// patience only bounds a hang.
	patience = 4 * time.Minute
)

// A road is what a test of the upgrade has.
type road struct {
	*testing.T
	namespace string
	admin     *kubernetes.Clientset
	dynamic   dynamic.Interface
	version   atomic.Pointer[string] // the one in which people edit Shops
	edits     atomic.Int64           // so far
	builds    map[string]string      // the build of each replica, by its user
	users     []string
}

func newRoad(t *testing.T) *road {
	t.Helper()
	admin, err := kubernetes.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	rc := cluster.RESTConfig()
	rc.QPS = -1
	client, err := dynamic.NewForConfig(rc)
	require.NoError(t, err)
	made, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "upgrade-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return &road{T: t, namespace: made.Name, admin: admin, dynamic: client, builds: map[string]string{}}
}

// process starts a build as a user of its own.
func (r *road) process(build, user, subcommand string, args ...string) *operatorproc.Process {
	r.Helper()
	return operatorproc.Start(r.T, build, operatorproc.Kubeconfig(r.T, cluster.Kubeconfig(), user, true), append([]string{subcommand, "--namespace=" + r.namespace}, args...)...)
}

// replica starts one of a Deployment's.
func (r *road) replica(build, user string) *operatorproc.Process {
	r.Helper()
	r.builds[user] = build
	r.users = append(r.users, user)
	return r.process(build, user, "run", "--install-crds", "--leader-elect", "--leader-elect-resource-namespace="+r.namespace,
		"--metrics-bind-address=0", "--health-probe-bind-address=0")
}

// roll replaces the replicas of a build one by one, as a Deployment does.
func (r *road) roll(old []*operatorproc.Process, build string, users ...string) (now []*operatorproc.Process) {
	r.Helper()
	for i, user := range users {
		p := r.replica(build, user)
		p.Says("msg=started")
		old[i].Signal(syscall.SIGTERM)
		require.Zero(r, old[i].Exit())
		now = append(now, p)
	}
	return now
}

// objects returns the client of Shops.
func (r *road) objects(version string) dynamic.ResourceInterface {
	return r.dynamic.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: "shops"}).Namespace(r.namespace)
}

// open creates the Shops.
func (r *road) open() {
	r.Helper()
	for i := range shops {
		_, err := r.objects("v1").Create(r.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": group + "/v1", "kind": "Shop", "metadata": map[string]any{"name": fmt.Sprint("shop-", i)}, "spec": map[string]any{"size": 0},
		}}, metav1.CreateOptions{})
		require.NoError(r, err)
	}
}

// people edit Shops until they are told to stop.
func (r *road) people() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { // ends when stop is called
		defer close(ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			n := r.edits.Add(1)
			_, err := r.objects(*r.version.Load()).Patch(ctx, fmt.Sprint("shop-", n*7%shops), types.MergePatchType, fmt.Appendf(nil, `{"spec":{"size":%d}}`, n), metav1.PatchOptions{})
			if err != nil && ctx.Err() == nil {
				r.Errorf("an edit: %v", err)
				return
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// served waits until people have edited so many Shops more, and the operator has written since.
func (r *road) served(users ...string) {
	r.Helper()
	edits, writes := r.edits.Load(), len(audit.WritesOf(r.T, auditLog, r.namespace, users...))
	require.Eventually(r, func() bool {
		return r.edits.Load() > edits+50 && len(audit.WritesOf(r.T, auditLog, r.namespace, users...)) > writes+50
	}, patience, 200*time.Millisecond, "%v work", users)
}

// children returns the UIDs of the ConfigMaps, once each is as its Shop says, in this format.
func (r *road) children(version, format string) map[string]types.UID {
	r.Helper()
	var out map[string]types.UID
	var wrong string
	require.Eventually(r, func() bool {
		list, err := r.objects(version).List(r.Context(), metav1.ListOptions{})
		require.NoError(r, err)
		maps, err := r.admin.CoreV1().ConfigMaps(r.namespace).List(r.Context(), metav1.ListOptions{LabelSelector: "roperator.com/operator=" + operatorName})
		require.NoError(r, err)
		data := map[string]map[string]string{}
		out = map[string]types.UID{}
		for _, m := range maps.Items {
			data[m.Name], out[m.Name] = m.Data, m.UID
		}
		for _, shop := range list.Items {
			size, _, err := unstructured.NestedInt64(shop.Object, "spec", "size")
			require.NoError(r, err)
			if got := data[shop.GetName()]; got["size"] != fmt.Sprint(size) || got["format"] != format {
				wrong = fmt.Sprintf("%s of size %d: %v", shop.GetName(), size, got)
				return false
			}
		}
		wrong = fmt.Sprintf("%d children of %d shops", len(out), len(list.Items))
		return len(out) == shops && len(list.Items) == shops
	}, patience, 100*time.Millisecond, "the children are as the shops say")
	require.Equal(r, fmt.Sprintf("%d children of %d shops", shops, shops), wrong)
	return out
}

// versions returns what the installed definition serves, and what is stored.
func (r *road) versions() (served, stored []string) {
	r.Helper()
	u, err := r.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).Get(r.Context(), definition, metav1.GetOptions{})
	require.NoError(r, err)
	list, _, err := unstructured.NestedSlice(u.Object, "spec", "versions")
	require.NoError(r, err)
	for _, v := range list {
		served = append(served, v.(map[string]any)["name"].(string))
	}
	stored, _, err = unstructured.NestedStringSlice(u.Object, "status", "storedVersions")
	require.NoError(r, err)
	return served, stored
}

// The whole road: no child is made anew, none twice, and nobody writes beside another.
func TestUpgrade(t *testing.T) {
	r := newRoad(t)
	r.version.Store(new("v1"))
	old := []*operatorproc.Process{r.replica("v1", "v1-a")}
	old[0].Says("msg=leading")
	old = append(old, r.replica("v1", "v1-b"))
	old[1].Says("waiting: the lease is held by another")
	r.open()
	made := r.children("v1", "")

	// The definition comes first: the standby of the next build installs it, and v1 works on.
	first := r.replica("v2", "v2-a")
	first.Says("waiting: the lease is held by another")
	served, stored := r.versions()
	require.Equal(t, []string{"v1", "v2"}, served)
	require.Equal(t, []string{"v1", "v2"}, stored)
	plan := r.process("v2", "v2-plan", "plan", "--fail-on=recreate,delete")
	require.Zero(t, plan.Exit(), plan.Said())
	plan.Says(fmt.Sprintf("%d changes for %d parents: %d to update.", shops, shops, shops))
	require.Empty(t, audit.WritesOf(t, auditLog, r.namespace, "v2-a", "v2-plan"), "neither the standby nor the plan writes")

	stop := r.people()
	defer func() { stop() }()
	r.served("v1-a")
	r.version.Store(new("v2"))
	old[0].Signal(syscall.SIGTERM)
	require.Zero(t, old[0].Exit())
	good := append([]*operatorproc.Process{first}, r.roll(old[1:], "v2", "v2-b")...)
	r.served("v2-a", "v2-b")

	bad := r.roll(good, "bad", "bad-a", "bad-b")
	r.served("bad-a", "bad-b")
	good = r.roll(bad, "v2", "v2-c", "v2-d")
	r.served("v2-c", "v2-d")

	refused := r.process("v3", "v3-early", "run", "--install-crds", "--metrics-bind-address=0", "--health-probe-bind-address=0")
	require.Equal(t, 1, refused.Exit())
	refused.Says("run migrate-storage")
	migration := r.process("v2", "v2-migration", "migrate-storage")
	require.Zero(t, migration.Exit(), migration.Said())
	migration.Says(fmt.Sprintf("%d objects are stored in v2", shops))
	last := r.roll(good, "v3", "v3-a", "v3-b")
	r.served("v3-a", "v3-b")
	stop()
	served, stored = r.versions()
	require.Equal(t, []string{"v2"}, served)
	require.Equal(t, []string{"v2"}, stored)
	require.Equal(t, made, r.children("v2", "second"), "no child was made anew")
	for _, p := range last {
		p.Signal(syscall.SIGTERM)
		require.Zero(t, p.Exit())
	}

	r.auditWrites()
}

// auditWrites looks at what the audit log says of all processes.
func (r *road) auditWrites() {
	r.Helper()
	writes := audit.WritesOf(r.T, auditLog, r.namespace, r.users...)
	var builds []string
	for _, user := range audit.Terms(r.T, writes) {
		builds = append(builds, r.builds[user])
	}
	require.Equal(r, []string{"v1", "v2", "bad", "v2", "v3"}, slices.Compact(builds), "one build after the other, and one process at a time")
	created := map[string]int{}
	for _, w := range writes {
		verb, object, _ := strings.Cut(w.What, " ")
		require.NotEqual(r, "delete", verb, "%s by %s", w.What, w.As)
		child, ok := strings.CutPrefix(object, "configmaps/")
		if ok && verb == "create" {
			created[child]++
		}
		if ok && r.builds[w.As] == "bad" {
			require.False(r, fails(child), "%s by %s, whose handler failed", w.What, w.As)
		}
	}
	require.Len(r, created, shops)
	require.Equal(r, []int{1}, slices.Compact(slices.Sorted(maps.Values(created))), "each child was created once")
}
