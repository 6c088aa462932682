package testkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/defaults"
	"github.com/roperator/roperator/runner"
)

const (
	// testLabel marks what belongs to one Kit: its namespace, and parents
	// without one.
	testLabel = "roperator.com/test"

	// requestTimeout only bounds a hang: an idle API server takes milliseconds.
	requestTimeout = 2 * time.Minute

	// keepVariable is the environment variable that says what stays: keepFailed or keepNamespaces.
	keepVariable   = "ROPERATOR_KEEP"
	keepFailed     = "1"
	keepNamespaces = "namespaces"
)

// A Kit is an operator that runs for one test, with the means to act on it
// and to look at what it does. All methods are for the test's goroutine.
type Kit struct {
	// Namespace is where the operator and the test work. It exists for
	// cluster-scoped parents too, as a place for their children. The name of one
	// that the Kit has made has at most 23 characters, so that names can be made
	// of it; its annotation roperator.com/test has the name of the test.
	Namespace string

	t             testing.TB
	cluster       *Cluster
	opts          KitOptions
	client        dynamic.Interface
	clients       kubernetes.Interface
	metas         metadata.Interface
	config        config.Operator // with its defaults, as the operator has it
	clusterScoped bool            // the parents are cluster-scoped
	owner         bool            // the namespace was made for this Kit
	log           *testLog
	op            *operator // the last one started, nil before the first

	writes *recorder // of the operator
	calls  *calls
	own    *ownWrites
	asked  *asked
	plans  *planChecks
}

// KitOptions are what few tests need to change. The zero value is what New
// uses.
type KitOptions struct {
	// Namespace is an existing namespace to work in, which stays. By default
	// the Kit creates one and deletes it in the end. A second operator is put
	// beside a first one with the first one's Kit.Namespace.
	Namespace string
	// FieldValidation is what the API server is told to do about unknown and
	// duplicate fields in the operator's writes: "Strict" (the default)
	// refuses, "Warn" and "Ignore" let them pass.
	FieldValidation string
	// AllowHandlerErrors lets the test pass though the handler fails. By default errors that
	// the handler returned, panics, and responses that the engine refuses fail the test
	// in the end, unless it has asked for them: see Kit.HandlerErrors.
	AllowHandlerErrors bool
	// Runner are the options that the operator runs with. RESTConfig defaults
	// to the cluster's, and Logger to one that writes to the test's log.
	Runner runner.Options
}

// New starts the operator and returns when it is ready; the test's cleanup
// stops it and removes what it was given.
//
// A new namespace is made for each Kit. An operator with a namespaced parent
// is restricted to it (cfg.Namespaces is replaced). One with a cluster-scoped
// parent gets a ParentSelector for a label that is unique to the Kit, in
// addition to its own, and Create puts that label on parents; so tests can
// share a cluster. Only parents with that label are looked for that have left the
// operator's selector while it was stopped.
//
// Errors of the handler fail the test in the end, or at a Restart, unless the test has
// asked for them: see [Kit.HandlerErrors]. What the handler returns once the test's cleanups
// run doesn't count, since what it needs may be gone by then.
//
// Unknown fields in whatever the operator or the Kit writes are errors, so
// that a typo can't go unnoticed.
//
// With go test -short a test whose cluster is nil is skipped: see [Main].
//
// With ROPERATOR_KEEP=1 in the environment the namespace of a test that failed
// stays, and so does the cluster; its Stop says how to look at it. With
// ROPERATOR_KEEP=namespaces all namespaces stay, without the objects of the
// operator's types: for many tests on a cluster that ends with them, see
// docs/guide/testing.md.
func New(t testing.TB, cluster *Cluster, cfg config.Operator, h handler.Handler) *Kit {
	t.Helper()
	return NewWithOptions(t, cluster, cfg, h, KitOptions{})
}

// NewWithOptions is New with options.
func NewWithOptions(t testing.TB, cluster *Cluster, cfg config.Operator, h handler.Handler, opts KitOptions) *Kit {
	t.Helper()
	switch {
	case cluster == nil && testing.Short():
		t.Skip("testkit: needs an API server, which -short leaves out")
	case cluster == nil:
		t.Fatal("testkit: the cluster is nil: call testkit.Main in TestMain")
	}
	k := &Kit{t: t, cluster: cluster, opts: opts, Namespace: opts.Namespace, owner: opts.Namespace == ""}
	k.log = &testLog{out: t.Output()}
	k.writes = newRecorder(cluster.mapper)
	k.calls = newCalls(func() bool { return t.Context().Err() != nil })
	k.own, k.asked, k.plans = &ownWrites{}, newAsked(), &planChecks{}
	if cluster.checkPlans != nil && opts.Runner.RESTConfig == nil && cluster.checkPlans(t) {
		k.plans.mu.left = maxPlanChecks
		k.calls.onSync = func(req *handler.SyncRequest) { k.plans.began(req, k.writes.count()) }
	}
	own := cluster.RESTConfig()
	own.UserAgent = "roperator-testkit"
	var err error
	if k.client, err = dynamic.NewForConfig(own); err != nil {
		t.Fatalf("testkit: %v", err)
	}
	if k.clients, err = kubernetes.NewForConfig(own); err != nil {
		t.Fatalf("testkit: %v", err)
	}
	if k.metas, err = metadata.NewForConfig(own); err != nil {
		t.Fatalf("testkit: %v", err)
	}
	t.Cleanup(k.tearDown)
	if k.owner {
		k.createNamespace()
	}
	k.start(cfg, h)
	return k
}

// Restart stops the operator if it runs, and starts another build of it in
// the same namespace: with other configuration, another handler, or as it was.
// It returns when that is ready. Writes, Syncs and Finalizes go on counting;
// HandlerErrors begins anew.
func (k *Kit) Restart(cfg config.Operator, h handler.Handler) {
	k.t.Helper()
	k.Stop()
	k.failUnasked() // HandlerErrors begins anew
	k.start(cfg, h)
}

// Stop stops the operator and returns when it has ended, so that a test can
// change things while it is down. It does nothing if the operator is stopped.
func (k *Kit) Stop() {
	k.t.Helper()
	if k.op == nil {
		return
	}
	k.comparePlans(false)
	if err := k.op.stop(); err != nil {
		k.t.Fatalf("testkit: operator %s: %v", k.config.Name, err)
	}
}

// start runs cfg and h within the bounds of the Kit.
func (k *Kit) start(cfg config.Operator, h handler.Handler) {
	k.t.Helper()
	mapping, err := k.mapping(cfg.Parent)
	if err != nil {
		k.t.Fatalf("testkit: parent: %v", err)
	}
	within := ""
	if k.clusterScoped = mapping.ClusterScoped; k.clusterScoped {
		own := testLabel + "=" + k.Namespace
		if cfg.ParentSelector != "" {
			own = cfg.ParentSelector + "," + own
		}
		cfg.ParentSelector, within = own, testLabel+"="+k.Namespace
	} else {
		cfg.Namespaces = []string{k.Namespace}
	}
	k.config, k.plans.handler = defaults.Apply(cfg), h
	ctx, cancel := timeout(readyTimeout)
	defer cancel()
	// An operator gives an API server some seconds, and ends then. As a
	// Deployment would, the Kit starts it again.
	for err = errAPIServerBusy; errors.Is(err, errAPIServerBusy); {
		if k.op, err = startOperator(cfg, k.calls.wrap(h), within, k.runnerOptions()); err == nil {
			err = k.op.awaitReady(ctx)
		}
	}
	if err != nil {
		k.t.Fatalf("testkit: operator %s: %v", cfg.Name, err)
	}
}

// createNamespace makes a namespace whose name tells which test it is for.
func (k *Kit) createNamespace() {
	k.t.Helper()
	name := namespaceFor(k.t.Name(), rand.String(namespaceRandom))
	ctx, cancel := timeout(requestTimeout)
	defer cancel()
	_, err := k.clients.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{testLabel: name}, Annotations: map[string]string{testLabel: k.t.Name()},
	}}, metav1.CreateOptions{})
	if err != nil {
		k.t.Fatalf("testkit: Namespace %s: create: %v", name, err)
	}
	k.Namespace = name
	if !k.cluster.HasControllerManager() {
		return
	}
	// The objects that every namespace gets come a moment later. They are
	// awaited, so that they aren't mistaken for the operator's doing.
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		_, err := k.clients.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		k.t.Fatalf("testkit: Namespace %s: its default ServiceAccount: %v", name, err)
	}
}

const (
	// maxNamespace is short, so that names can be made of a namespace's: a label's
	// value and most names may have 63 characters.
	maxNamespace = 23
	// namespaceRandom is how many characters of it are random, enough for thousands
	// of tests of one name side by side.
	namespaceRandom = 6
)

// namespaceFor returns a name that begins as that of the test does, without Test, and with a
// letter, as the names of Services must.
func namespaceFor(test, random string) string {
	name := strings.Trim(nameCharacters.ReplaceAllString(strings.ToLower(strings.TrimPrefix(test, "Test")), "-"), "-")
	if name == "" || name[0] < 'a' {
		name = "t" + name
	}
	name = name[:min(len(name), maxNamespace-len("-")-len(random))]
	return strings.TrimRight(name, "-") + "-" + random
}

// nameCharacters are those that a namespace's name can't have.
var nameCharacters = regexp.MustCompile("[^a-z0-9]+")

// tearDown ends the operator and removes what there is.
func (k *Kit) tearDown() {
	if k.op != nil {
		k.comparePlans(false)
		if n := k.plans.compared.Load(); n > 0 {
			k.t.Logf("testkit: %d plans were compared with what was done", n)
		}
		if err := k.op.stop(); err != nil {
			k.t.Errorf("testkit: operator %s: %v", k.config.Name, err)
		}
		k.failUnasked()
	}
	defer k.log.close()
	if k.t.Failed() && os.Getenv(keepVariable) == keepFailed {
		k.cluster.keep.Store(true)
		k.t.Logf("testkit: kept, as %s=1 asks: kubectl --kubeconfig %s -n %s get all",
			keepVariable, k.cluster.Kubeconfig(), k.Namespace)
		return
	}
	if k.owner && k.Namespace != "" {
		if err := k.remove(); err != nil {
			k.t.Errorf("testkit: Namespace %s: clean up: %v", k.Namespace, err)
		}
	}
}

// timeout returns a context for cleanups as well as for tests, so it doesn't
// end with t.Context.
func timeout(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.Background(), d, fmt.Errorf("took longer than %v", d))
}
