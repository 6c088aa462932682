package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
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
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/audit"
	"github.com/roperator/roperator/internal/testing/operatorproc"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

const (
	operatorName = "dev-copier"
	// installed is the namespace that manifests would install the operator in.
	installed = operatorName + "-system"
	// patience only bounds a hang.
	patience = 4 * time.Minute
)

var (
	cluster  *testkit.Cluster
	auditLog string // the file
)

func TestMain(m *testing.M) {
	if os.Getenv(operatorproc.Variable) != "" {
		beOperator()
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// run runs the tests on a cluster whose API server logs who writes.
func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "roperator-dev-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	flags, log, err := audit.ServerFlags(dir)
	if err != nil {
		return 1, err
	}
	auditLog = cmp.Or(os.Getenv(audit.Variable), log) // that of an existing cluster, if it is one
	cluster, err = testkit.Start(testkit.ClusterOptions{
		CRDPaths: []string{"../conformance/testdata/crds.yaml"}, APIServerFlags: flags,
	})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	return m.Run(), nil
}

func parentType() resource.Type {
	return resource.Type{APIVersion: "conformance.roperator.com/v1", Kind: "Parent"}
}

// beOperator is the main function of an operator's process: a ConfigMap for each parent,
// with the parent's value.
func beOperator() {
	cfg := config.Operator{Name: operatorName, Parent: parentType(), Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}}}
	runner.Main(cfg, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		value, _ := req.Parent.Field("spec", "value")
		return &handler.SyncResponse{
			Status:   map[string]any{"value": value},
			Children: []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": req.Parent.Name()}, "data": map[string]any{"value": fmt.Sprint(value)}}},
		}, nil
	}))
}

// A stage is a namespace with parents that change all the time, so that any operator that
// works writes.
type stage struct {
	t         *testing.T
	namespace string
	admin     *kubernetes.Clientset
	parents   dynamic.ResourceInterface
	count     atomic.Int64 // changes so far
}

func newStage(t *testing.T) *stage {
	t.Helper()
	admin, err := kubernetes.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	client, err := dynamic.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	made, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "dev-"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return &stage{
		t: t, namespace: made.Name, admin: admin,
		parents: client.Resource(schema.GroupVersionResource{Group: "conformance.roperator.com", Version: "v1", Resource: "parents"}).Namespace(made.Name),
	}
}

// traffic changes parents until the test ends.
func (s *stage) traffic() {
	s.t.Helper()
	const parents = 3
	for i := range parents {
		_, err := s.parents.Create(s.t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": parentType().APIVersion, "kind": parentType().Kind, "metadata": map[string]any{"name": fmt.Sprint("p", i)}, "spec": map[string]any{"value": 0},
		}}, metav1.CreateOptions{})
		require.NoError(s.t, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for tick := time.NewTicker(100 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
			n := s.count.Add(1)
			_, err := s.parents.Patch(ctx, fmt.Sprint("p", n%parents), types.MergePatchType, fmt.Appendf(nil, `{"spec":{"value":%d}}`, n), metav1.PatchOptions{})
			if err != nil && ctx.Err() == nil {
				s.t.Errorf("traffic: %v", err)
				return
			}
		}
	}()
	s.t.Cleanup(func() { stop(); <-ended })
}

// start starts a process for the parents of the namespace.
func (s *stage) start(user string, args ...string) *operatorproc.Process {
	s.t.Helper()
	return operatorproc.Start(s.t, user, operatorproc.Kubeconfig(s.t, cluster.Kubeconfig(), user, true), append([]string{"run", "--namespace=" + s.namespace}, args...)...)
}

// replica starts a process as a Deployment would, but outside of a Pod.
func (s *stage) replica(user string) *operatorproc.Process {
	s.t.Helper()
	return s.start(user, "--leader-elect", "--leader-elect-resource-namespace="+installed, "--metrics-bind-address=0", "--health-probe-bind-address=0")
}

// holder returns who holds the Lease, "" if nobody does.
func (s *stage) holder() string {
	lease, err := s.admin.CoordinationV1().Leases(installed).Get(s.t.Context(), operatorName, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// serves waits until one of these users has written since now, and has kept up with the changes.
func (s *stage) serves(users ...string) {
	s.t.Helper()
	before := len(audit.WritesOf(s.t, auditLog, s.namespace, users...))
	require.Eventually(s.t, func() bool { return len(audit.WritesOf(s.t, auditLog, s.namespace, users...)) > before+20 }, patience, 100*time.Millisecond, "%v write", users)
}

// TestDev: the audit log shows one writer at a time, whatever becomes of the developer's process.
func TestDev(t *testing.T) {
	s := newStage(t)
	s.install()
	s.traffic()
	one := s.replica("one")
	one.Says("msg=leading")
	two := s.replica("two")
	s.serves("one")

	dev := s.start("dev", "--dev")
	dev.Says("msg=leading")
	require.Contains(t, dev.Said(), "this process takes the place of the deployed operator")
	require.Contains(t, dev.Said(), "leaseNamespace="+installed)
	one.Says("waiting: the lease is held by another")
	s.serves("dev")
	dev.Says("level=DEBUG ")
	require.NotContains(t, dev.Said(), "level=DEBUG+", "client-go's messages for its developers")

	held := s.holder()
	dev.Freeze()
	require.Eventually(t, func() bool { return s.holder() != held }, patience, 100*time.Millisecond, "a replica takes over")
	s.serves("one", "two")
	dev.Signal(syscall.SIGCONT)
	require.Equal(t, 1, dev.Exit())
	dev.Says("did the machine sleep?")
	s.serves("one", "two")

	again := s.start("again", "--dev")
	again.Says("msg=leading")
	s.serves("again")
	again.Signal(syscall.SIGTERM)
	require.Zero(t, again.Exit())
	s.serves("one", "two")
	require.False(t, one.Ended() || two.Ended(), "nobody restarted them")

	took := audit.Terms(t, audit.WritesOf(t, auditLog, s.namespace, "one", "two", "dev", "again"))
	t.Log(took)
	took = slices.Compact(slices.Collect(func(yield func(string) bool) {
		for _, who := range took {
			if who == "two" {
				who = "one" // any replica
			}
			if !yield(who) {
				return
			}
		}
	}))
	require.Equal(t, []string{"one", "dev", "one", "again", "one"}, took)
}

// install creates the namespace that the operator is installed in.
func (s *stage) install() {
	s.t.Helper()
	_, err := s.admin.CoreV1().Namespaces().Create(s.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: installed}}, metav1.CreateOptions{})
	require.NoError(s.t, err)
}

// TestDev_Refused: what can't be taken over is left as it is, and the error says what to do.
func TestDev_Refused(t *testing.T) {
	s := newStage(t)
	nowhere := s.start("nowhere", "--dev", "--leader-elect-resource-namespace=nowhere")
	require.Equal(t, 1, nowhere.Exit())
	nowhere.Says(`namespaces \"nowhere\" not found; create the namespace, or name that of the deployed operator by --leader-elect-resource-namespace`)

	dev := s.start("first", "--dev", "--leader-elect-resource-namespace="+s.namespace)
	dev.Says("there is no Lease to take over")
	dev.Says("msg=leading")
	second := s.start("second", "--dev", "--leader-elect-resource-namespace="+s.namespace)
	require.Equal(t, 1, second.Exit())
	second.Says("has taken it over, since ")
	require.False(t, dev.Ended())
	dev.Signal(syscall.SIGINT)
	require.Zero(t, dev.Exit())

	// A holder that knows nothing of takeovers.
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: operatorName}, Client: s.admin.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: "old"},
	}
	_, _, err := lock.Get(t.Context())
	require.NoError(t, err)
	renew := func() {
		now := metav1.Now()
		require.NoError(t, lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "old", LeaseDurationSeconds: 15, AcquireTime: now, RenewTime: now}))
	}
	renew()
	third := s.start("third", "--dev", "--leader-elect-resource-namespace="+s.namespace)
	require.Eventually(t, func() bool { renew(); return third.Ended() }, patience, time.Second, "it ends")
	require.Equal(t, 1, third.Exit())
	third.Says("its holder, old, can't be asked for it")
	lease, err := s.admin.CoordinationV1().Leases(s.namespace).Get(t.Context(), operatorName, metav1.GetOptions{})
	require.NoError(t, err)
	require.NotContains(t, lease.Annotations, "roperator.com/takeover")
}
