package conformance

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/plane"
	"github.com/roperator/roperator/runner"
)

// A remoteOperator is an operator whose way to the API server can be cut. If it ends by an error, it is
// started again, as a Deployment would.
type remoteOperator struct {
	w       *witness
	process atomic.Pointer[restartable]
	cut     atomic.Bool
	lists   atomic.Int64 // of all objects of a type in a namespace
	writes  atomic.Int64 // requests that change something
	calls   atomic.Int64 // of Finalize

	mu struct {
		sync.Mutex
		connections []net.Conn
	}
}

// dial connects the operator to the API server.
func (o *remoteOperator) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.mu.connections = append(o.mu.connections, conn)
	}
	return conn, err
}

// breakConnections closes all connections of the operator.
func (o *remoteOperator) breakConnections() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, conn := range o.mu.connections {
		_ = conn.Close() // it may be closed already
	}
	o.mu.connections = nil
}

// A restartable is one process of an operator.
type restartable struct {
	runner *runner.Runner
	end    context.CancelFunc
}

// ready says why the process isn't ready, nil if it is.
func (o *remoteOperator) ready() error { return o.process.Load().runner.Ready() }

// config returns the way from the operator to an API server.
func (o *remoteOperator) config(to *rest.Config) *rest.Config {
	cfg := rest.CopyConfig(to)
	cfg.Dial = o.dial
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if o.cut.Load() {
				return nil, syscall.ECONNREFUSED
			}
			if req.Method != http.MethodGet {
				o.writes.Add(1)
			}
			if q := req.URL.Query(); q.Has("sendInitialEvents") || req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, "s") && !q.Has("watch") && q.Get("limit") != "1" {
				o.lists.Add(1)
			}
			return next.RoundTrip(req)
		})
	})
	return cfg
}

// startRemote runs an operator that copies, and finalizes, until the test ends.
func startRemote(t *testing.T, to *rest.Config, namespace, name string) *remoteOperator {
	t.Helper()
	o := &remoteOperator{w: newWitness()}
	cfg := operator(name, configMapChild())
	cfg.Namespaces = []string{namespace}
	o.start(t, cfg, finalizing(func(*handler.SyncRequest) (*handler.FinalizeResponse, error) {
		o.calls.Add(1)
		return &handler.FinalizeResponse{Finalized: true}, nil
	}), o.config(to))
	return o
}

// start runs an operator until the test ends.
func (o *remoteOperator) start(t *testing.T, cfg config.Operator, h handler.Handler, way *rest.Config) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(o.w, nil))
	ctx, cancel := context.WithCancel(context.Background())
	begin := func() (start func() error) {
		r, err := runner.New(cfg, h, runner.Options{RESTConfig: way, Logger: log, Metrics: o.w.registry})
		require.NoError(t, err)
		process, end := context.WithCancel(ctx)
		o.process.Store(&restartable{r, end})
		return func() error { return r.Start(process) }
	}
	start := begin()
	ended := make(chan struct{})
	go func() { // until the test ends
		defer close(ended)
		for {
			if err := start(); err != nil {
				log.Error("ended", "error", err)
			}
			if !pause(ctx, time.Second) {
				return
			}
			start = begin()
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		if t.Failed() {
			t.Logf("the operator said:\n%s", o.w.logged())
		}
	})
	eventually(t, "the operator is ready", func() bool { return o.ready() == nil })
}

// pause waits, and returns false if ctx ends meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// A restoredWorld is what people do around a restore of etcd from a backup.
type restoredWorld struct {
	t       *testing.T
	plane   *ownPlane // nil: the one of all scenarios
	space   string    // the namespace
	typed   *kubernetes.Clientset
	parents dynamic.ResourceInterface
}

func newRestoredWorld(t *testing.T) *restoredWorld {
	t.Helper()
	p := newPlane(t)
	w := worldOn(t, p.config(), "default")
	w.plane = p
	return w
}

func worldOn(t *testing.T, cfg *rest.Config, namespace string) *restoredWorld {
	t.Helper()
	typed, err := kubernetes.NewForConfig(cfg)
	require.NoError(t, err)
	untyped, err := dynamic.NewForConfig(cfg)
	require.NoError(t, err)
	return &restoredWorld{t: t, space: namespace, typed: typed, parents: untyped.Resource(parents).Namespace(namespace)}
}

func (w *restoredWorld) create(name, value string) {
	w.t.Helper()
	_, err := w.parents.Create(w.t.Context(), &unstructured.Unstructured{Object: parent(name, withData("k", value))}, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

func (w *restoredWorld) set(name, value string) {
	w.t.Helper()
	_, err := w.parents.Patch(w.t.Context(), name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"data":{"k":%q}}}`, value), metav1.PatchOptions{})
	require.NoError(w.t, err)
}

func (w *restoredWorld) remove(names ...string) {
	w.t.Helper()
	for _, name := range names {
		require.NoError(w.t, w.parents.Delete(w.t.Context(), name, metav1.DeleteOptions{}))
	}
}

func (w *restoredWorld) removeChild(name string) {
	w.t.Helper()
	require.NoError(w.t, w.typed.CoreV1().ConfigMaps(w.space).Delete(w.t.Context(), name, metav1.DeleteOptions{}))
}

// value returns what a child says, empty if it isn't there.
func (w *restoredWorld) value(name string) string {
	cm, err := w.typed.CoreV1().ConfigMaps(w.space).Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return cm.Data["k"]
}

// says waits, for no longer than a minute, until each of these children says this.
func (w *restoredWorld) says(want map[string]string) {
	w.t.Helper()
	err := plane.Until(w.t.Context(), time.Minute, func() error {
		for name, value := range want {
			if got := w.value(name); got != value {
				return fmt.Errorf("ConfigMap %s says %q, not %q", name, got, value)
			}
		}
		return nil
	})
	require.NoError(w.t, err)
}

// gone waits, for no longer than a minute, until a parent has gone.
func (w *restoredWorld) gone(name string) {
	w.t.Helper()
	require.NoError(w.t, plane.Until(w.t.Context(), time.Minute, func() error {
		live, err := w.parents.Get(w.t.Context(), name, metav1.GetOptions{})
		if err == nil {
			return fmt.Errorf("Parent %s has the finalizers %q", name, live.GetFinalizers())
		}
		return nil
	}))
}

// version returns the newest resourceVersion there is.
func (w *restoredWorld) version() int {
	w.t.Helper()
	list, err := w.parents.List(w.t.Context(), metav1.ListOptions{Limit: 1})
	require.NoError(w.t, err)
	version, err := strconv.Atoi(list.GetResourceVersion())
	require.NoError(w.t, err)
	return version
}

// overtake makes changes that no operator sees, until the resourceVersions have come to
// a version.
func (w *restoredWorld) overtake(version int) {
	w.t.Helper()
	maps := w.typed.CoreV1().ConfigMaps("kube-system")
	cm, err := maps.Create(w.t.Context(), configMapNamed("busy"), metav1.CreateOptions{})
	require.NoError(w.t, err)
	for i := 0; w.version() <= version; i++ {
		cm.Data = map[string]string{"i": strconv.Itoa(i)}
		cm, err = maps.Update(w.t.Context(), cm, metav1.UpdateOptions{})
		require.NoError(w.t, err)
	}
	require.NoError(w.t, maps.Delete(w.t.Context(), "busy", metav1.DeleteOptions{}))
}

// TestC173_RestoredFromABackup restores etcd while the operator can't reach the API server. S356: the
// process ends by itself, unless the revisions have overtaken what it knew. Then somebody restarts it, as Kubernetes advises.
func TestC173_RestoredFromABackup(t *testing.T) {
	scenario(t, "C173", "etcd is restored from a backup: the operator ends with an error that says so, and its restart converges within a minute")
	w := newRestoredWorld(t)
	for _, round := range []struct {
		name  string
		after func(version int)
		ends  bool // by itself
	}{
		{"Behind", func(int) {}, true},
		{"Overtaken", func(version int) { w.overtake(version) }, false},
	} {
		t.Run(round.name, func(t *testing.T) {
			w.t, w.plane.t = t, t
			o := startRemote(t, w.plane.config(), w.space, "c173") // whose watches haven't been refused yet: they try less and less often
			w.round(o, strings.ToLower(round.name), round.after, round.ends)
		})
	}
}

// round is one restore. Its parents have the prefix in their names.
func (w *restoredWorld) round(o *remoteOperator, prefix string, after func(version int), ends bool) {
	w.t.Helper()
	named := func(name string) string { return prefix + "-" + name }
	all := map[string]string{}
	for _, name := range []string{"same", "changed", "deleted", "childless", "renewed", "meanwhile", "dropped"} {
		w.create(named(name), "v1")
		all[named(name)] = "v1"
	}
	w.says(all)
	backup, err := w.plane.plane.Backup()
	require.NoError(w.t, err)

	// What nobody will remember.
	w.set(named("changed"), "v2")
	w.create(named("late"), "v1")
	w.remove(named("deleted"))
	w.gone(named("deleted"))
	w.removeChild(named("deleted")) // there is no garbage collector here
	w.removeChild(named("childless"))
	w.says(map[string]string{named("changed"): "v2", named("late"): "v1", named("childless"): "v1"})
	w.set(named("renewed"), "v2")
	w.says(map[string]string{named("renewed"): "v2"})
	version := w.version()

	o.cut.Store(true)
	require.NoError(w.t, w.plane.plane.Restore(w.t.Context(), backup))
	w.plane.startServer()
	require.Less(w.t, w.version(), version)
	w.set(named("meanwhile"), "v3")
	w.removeChild(named("same"))
	w.remove(named("dropped")) // which has a finalizer
	after(version)
	finalized, said := o.calls.Load(), len(o.w.logged())
	o.cut.Store(false)
	if !ends {
		o.process.Load().end()
	}

	// The changes made before it could see are seen.
	all[named("meanwhile")] = "v3"
	delete(all, named("dropped"))
	w.says(all)
	w.gone(named("dropped"))
	require.Equal(w.t, finalized+1, o.calls.Load())
	eventually(w.t, "it is ready", func() bool { return o.ready() == nil })
	require.Equal(w.t, ends, strings.Contains(o.w.logged()[said:], "etcd was restored from a backup"))
	require.Empty(w.t, w.value(named("late")))

	// So are those made afterwards, of whatever the old history had.
	w.set(named("changed"), "v4")
	w.create(named("late"), "v4")
	w.removeChild(named("childless"))
	w.set(named("renewed"), "v4")
	for _, name := range []string{"changed", "late", "renewed"} {
		all[named(name)] = "v4"
	}
	w.remove(named("deleted"))
	w.gone(named("deleted"))
	require.Equal(w.t, finalized+2, o.calls.Load())
	w.says(all)
	eventually(w.t, "it comes to rest", func() bool {
		before := o.writes.Load()
		during(w.t, 2*time.Second)
		return o.writes.Load() == before
	})
	require.NoError(w.t, backup.Remove())
}

// TestC173b_LostConnections: S355 on a real API server, which stays up. One that is started anew may have a
// watch cache that is younger than the last event, and answers 410.
func TestC173b_LostConnections(t *testing.T) {
	scenario(t, "C173b", "all connections to the API server break, and new ones are refused for a while: the watches resume, and nothing is listed anew")
	namespace := "c173b-" + rand.String(8)
	admin, _ := clients(t, "somebody")
	_, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	w := worldOn(t, cluster.RESTConfig(), namespace)
	o := startRemote(t, cluster.RESTConfig(), namespace, "c173b")
	w.create("one", "v0")
	w.says(map[string]string{"one": "v0"})
	lists := o.lists.Load()
	for round := range 5 {
		o.cut.Store(round%2 == 0)
		o.breakConnections()
		value := fmt.Sprint("v", round+1)
		w.set("one", value)
		during(t, time.Second)
		o.cut.Store(false)
		w.says(map[string]string{"one": value})
	}
	eventually(t, "it is ready", func() bool { return o.ready() == nil })
	require.Equal(t, lists, o.lists.Load())
	require.NotContains(t, o.w.logged(), "etcd was restored")
}
