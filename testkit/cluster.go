package testkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/roperator/roperator/internal/redirect"
	"github.com/roperator/roperator/internal/testing/plane"
)

// defaultStartTimeout only bounds a hang: each program takes an idle machine some seconds.
const defaultStartTimeout = 5 * time.Minute

// ClusterOptions say what a Cluster consists of. The zero value is an etcd and
// a kube-apiserver without any custom resource.
type ClusterOptions struct {
	// CRDPaths are YAML or JSON files, or folders of them, with the
	// CustomResourceDefinitions to install. Start returns when the API server
	// serves them. A path that doesn't exist is an error.
	CRDPaths []string

	// ControllerManager asks for a kube-controller-manager too: the garbage
	// collector, the namespace controller, Deployments that make ReplicaSets
	// that make Pods. It isn't part of every download of the other two, so a
	// missing binary is no error; Cluster.HasControllerManager tells.
	ControllerManager bool

	// APIServerFlags are flags of kube-apiserver, without the leading dashes,
	// which replace the defaults: for admission plugins, feature gates, an
	// audit log. Paths in them must be absolute. They are ignored on an
	// existing cluster.
	APIServerFlags map[string]string

	// CheckPlans says for which tests the first dozen edits of parents by a Kit are planned
	// before (see runner.PlanFor). The test fails if the pass that follows does what wasn't
	// planned, or gives a field that was planned another value, or if the operator settles
	// and what was planned isn't done. The handler is called once more for each plan, with
	// handler.IsPlan, so it isn't for tests whose handler counts its calls, blocks, or wants
	// something else at each. Nil: for none.
	CheckPlans func(t testing.TB) bool
}

// A Cluster is an API server for tests. Its methods may be called
// concurrently.
type Cluster struct {
	restConfig *rest.Config
	mapper     meta.ResettableRESTMapper
	kubeconfig string
	manager    bool
	dir        string       // what this cluster has on disk; removed by Stop
	plane      *plane.Plane // nil on an existing cluster
	keep       atomic.Bool  // a failed test wants to be looked at
	checkPlans func(testing.TB) bool

	stopOnce sync.Once
	stopErr  error
}

// Start starts a cluster and returns when it is ready for use: CRDs
// served, kube-controller-manager at work if asked for. A few seconds are
// usual. It says in its error what to set or install where something is
// missing, and ends what it has started. The caller must call Stop.
func Start(opts ClusterOptions) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "roperator-testkit-")
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	c := &Cluster{dir: dir, kubeconfig: filepath.Join(dir, "kubeconfig"), checkPlans: opts.CheckPlans}
	if useExisting() {
		err = c.useExisting(opts)
	} else {
		err = c.start(opts)
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func useExisting() bool {
	use, err := strconv.ParseBool(os.Getenv("USE_EXISTING_CLUSTER"))
	return err == nil && use
}

// start starts a control plane of our own.
func (c *Cluster) start(opts ClusterOptions) error {
	ctx := context.Background() // each program has its own timeout
	timeout, err := startTimeout()
	if err != nil {
		return err
	}
	c.plane, err = plane.New(plane.Options{Dir: c.dir, ServerFlags: opts.APIServerFlags, StartTimeout: timeout})
	if err != nil {
		return err
	}
	if err := c.plane.Start(ctx); err != nil {
		return err
	}
	if c.kubeconfig, err = c.plane.Kubeconfig(plane.Admin, ""); err != nil {
		return err
	}
	if err := c.connect(clientcmd.NewDefaultClientConfigLoadingRules()); err != nil {
		return err
	}
	// The garbage collector looks for new types only every 30 s, so it is
	// started after the CRDs.
	if err := installCRDs(c.restConfig, opts.CRDPaths); err != nil {
		return err
	}
	if !opts.ControllerManager {
		return nil
	}
	if err := c.plane.StartControllerManager(); errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	c.manager = true
	return c.managerWorks()
}

func startTimeout() (time.Duration, error) {
	const variable = "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT"
	text := os.Getenv(variable)
	if text == "" {
		return defaultStartTimeout, nil
	}
	timeout, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("control plane: %s: %w", variable, err)
	}
	return timeout, nil
}

// useExisting connects to the cluster of the user's kubeconfig.
func (c *Cluster) useExisting(opts ClusterOptions) error {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	raw, err := rules.Load()
	if err != nil {
		return fmt.Errorf("existing cluster: %w", err)
	}
	if err := clientcmdapi.MinifyConfig(raw); err != nil {
		return fmt.Errorf("existing cluster: the kubeconfig (set KUBECONFIG, or select a context): %w", err)
	}
	if err := clientcmdapi.FlattenConfig(raw); err != nil {
		return fmt.Errorf("existing cluster: %w", err)
	}
	if err := clientcmd.WriteToFile(*raw, c.kubeconfig); err != nil {
		return fmt.Errorf("existing cluster: %w", err)
	}
	if err := c.connect(rules); err != nil {
		return err
	}
	if err := installCRDs(c.restConfig, opts.CRDPaths); err != nil {
		return err
	}
	if opts.ControllerManager {
		c.manager = garbageIsCollected(c.restConfig) == nil
	}
	return nil
}

// connect sets up the clients from the kubeconfig file that was written.
func (c *Cluster) connect(rules *clientcmd.ClientConfigLoadingRules) error {
	rules.ExplicitPath = c.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	config.QPS = -1 // tests wait for the server, not for their own client
	config.Wrap(redirect.Refuse)
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	c.restConfig = config
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))
	return nil
}

// RESTConfig returns a configuration with which a client is allowed
// everything. It is the caller's own copy.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.restConfig) }

// Kubeconfig returns the path of a file that kubectl can use, with the same
// rights as RESTConfig. Stop removes it.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig }

// HasControllerManager says whether a kube-controller-manager runs, which
// needs ClusterOptions.ControllerManager and its binary. On an existing
// cluster it says whether garbage was seen to be collected.
func (c *Cluster) HasControllerManager() bool { return c.manager }

// Stop ends what Start has started and removes its files; an existing cluster
// is left as it is. When ROPERATOR_KEEP=1 made a failed test keep its
// namespace, everything keeps running, and Stop prints to the standard error
// how to look at it and how to end it. Further calls return the same error.
func (c *Cluster) Stop() error {
	c.stopOnce.Do(func() { c.stopErr = c.stop() })
	return c.stopErr
}

func (c *Cluster) stop() error {
	if c.keep.Load() {
		fmt.Fprintf(os.Stderr, "testkit: cluster kept: kubectl --kubeconfig %s\n", c.kubeconfig)
		if c.plane != nil {
			fmt.Fprintf(os.Stderr, "testkit: end it by: %s\n", c.plane.Leave())
		}
		return nil
	}
	if c.plane != nil {
		c.plane.Stop()
	}
	if err := os.RemoveAll(c.dir); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	return nil
}
