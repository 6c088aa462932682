package shards

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/audit"
	"github.com/roperator/roperator/internal/testing/operatorproc"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
)

const (
	operatorName = "gadgets"
	finalizer    = "roperator.com/" + operatorName
	shards       = 8

	leaseDuration = 6 * time.Second
	renewDeadline = 4 * time.Second
	retryPeriod   = time.Second

	// patience only bounds a hang.
	patience = 4 * time.Minute
)

// What tells a process who it is.
const (
	identityVariable  = "SHARDS_IDENTITY"
	namespaceVariable = "SHARDS_NAMESPACE"
)

// The operators that a process can be.
const (
	gadgets = "gadgets" // children of several types and strategies, and a finalizer
	small   = "small"   // three ConfigMaps
)

const smallChildren = 3

func parentType() resource.Type {
	return resource.Type{APIVersion: "shards.example.com/v1", Kind: "Gadget"}
}

func TestMain(m *testing.M) {
	if name := os.Getenv(operatorproc.Variable); name != "" {
		beOperator(name)
	}
	os.Exit(m.Run())
}

// beOperator is the main function of a replica.
func beOperator(name string) {
	var calls atomic.Int64
	sync := map[string]handler.SyncFunc{gadgets: syncGadget, small: syncSmall}[name]
	cfg := config.Operator{
		Name: operatorName, Parent: parentType(), MaxErrorBackoff: 2 * time.Second,
		Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}},
	}
	h := handler.Funcs{SyncFunc: func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		calls.Add(1)
		return sync(ctx, req)
	}}
	if name == gadgets {
		cfg.Teardown = config.TeardownOrdered
		cfg.Children = append(cfg.Children, config.Child{Type: k8s.Secret, Strategy: config.Recreate}, config.Child{Type: k8s.Service, Strategy: config.Apply})
		h.FinalizeFunc = func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
			return &handler.FinalizeResponse{Finalized: true}, nil
		}
	}
	go answer(&calls) // ends with the process
	rc, err := clientcmd.BuildConfigFromFlags("", os.Getenv(clientcmd.RecommendedConfigPathEnvVar))
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	rc.Wrap(audit.Stamped)
	runner.Program{
		Operators: []runner.Spec{{Config: cfg, Handler: h}},
		Options: runner.Options{RESTConfig: rc, LeaderElection: &runner.LeaderElection{
			Namespace: os.Getenv(namespaceVariable), Identity: os.Getenv(identityVariable),
			LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		}},
	}.Main()
}

// answer writes how often the handler was called, and what is reachable, for each line that
// the test writes. It ends the process when the test has ended.
func answer(calls *atomic.Int64) {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		runtime.GC()
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		fmt.Printf("\nfigures: %d %d\n", calls.Load(), stats.HeapAlloc)
	}
	os.Exit(3)
}

// The names of a parent's children are its own with a suffix. parentOf counts on it.
const (
	configSuffix  = "-config"
	secretSuffix  = "-secret"
	serviceSuffix = "-service"
)

func syncGadget(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	name := req.Parent.Name()
	value, _ := req.Parent.Field("spec", "value")
	meta := func(suffix string) map[string]any { return map[string]any{"name": name + suffix} }
	return &handler.SyncResponse{
		Status: map[string]any{"value": value, "children": req.Children.Len()},
		Children: []any{
			map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(configSuffix), "data": map[string]any{"value": fmt.Sprint(value)}},
			map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": meta(secretSuffix), "stringData": map[string]any{"value": fmt.Sprint(value)}},
			map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": meta(serviceSuffix), "spec": map[string]any{
				"clusterIP": "None", "selector": map[string]any{"value": fmt.Sprint(value)},
				"ports": []any{map[string]any{"name": "main", "port": 80}},
			}},
		},
	}, nil
}

func syncSmall(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	value, _ := req.Parent.Field("spec", "value")
	out := &handler.SyncResponse{Status: map[string]any{"value": value}}
	for i := range smallChildren {
		out.Children = append(out.Children, map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprint(req.Parent.Name(), "-", i)},
			"data": map[string]any{
				"value": fmt.Sprint(value), "which": fmt.Sprint(i),
				"comment": "Some lines of configuration, as operators write them: neither empty nor large. They are the same for every parent and never change.",
			},
		})
	}
	return out, nil
}

// number returns the number that a variable of the environment holds.
func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv(variable), strconv.Itoa(otherwise)))
	require.NoError(t, err, variable)
	return n
}

// dial returns a client whose requests wait for nobody.
func dial(t *testing.T, rc *rest.Config) dynamic.Interface {
	t.Helper()
	rc.QPS = -1
	httpClient, err := rest.HTTPClientFor(rc)
	require.NoError(t, err)
	t.Cleanup(httpClient.CloseIdleConnections)
	client, err := dynamic.NewForConfigAndClient(rc, httpClient)
	require.NoError(t, err)
	return client
}
