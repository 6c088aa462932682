package testkit_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

// A cluster where there is no TestMain, in a program, say.
//
//nolint:testableexamples // it needs a control plane
func ExampleStart() {
	cluster, err := testkit.Start(testkit.ClusterOptions{CRDPaths: []string{"config/crd.yaml"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cluster.Kubeconfig())
	if err := cluster.Stop(); err != nil {
		fmt.Println(err)
	}
}

// The TestMain of an operator's package.
//
//nolint:testableexamples // it needs a control plane
func ExampleMain() {
	var cluster *testkit.Cluster // of the package
	testMain := func(m *testing.M) {
		testkit.Main(m, testkit.ClusterOptions{CRDPaths: []string{"config/crd.yaml"}}, &cluster)
	}
	_ = testMain
}

// A test of an operator whose parents are ready when their Pods are. The Pods with the image
// "broken" fail.
//
//nolint:testableexamples // it needs a control plane
func ExampleKit_RunPods() {
	var (
		cluster  *testkit.Cluster // from TestMain
		operator config.Operator
		sync     handler.SyncFunc
	)
	_ = func(t *testing.T) {
		kit := testkit.New(t, cluster, operator, sync)
		kit.RunPods(func(pod *corev1.Pod) corev1.PodPhase {
			if pod.Spec.Containers[0].Image == "broken" {
				return corev1.PodFailed
			}
			return corev1.PodRunning
		})
		// kit.Create(…)
	}
}

// A test of an operator that gives each EchoServer a ConfigMap.
//
//nolint:testableexamples // it needs a control plane
func ExampleNew() {
	var cluster *testkit.Cluster // from TestMain
	operator := config.Operator{
		Name:     "echoserver",
		Parent:   resource.Type{APIVersion: "example.roperator.com/v1alpha1", Kind: "EchoServer"},
		Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}},
	}
	sync := func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Children: []any{
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: req.Parent.Name()}},
		}}, nil
	}
	test := func(t *testing.T) {
		kit := testkit.New(t, cluster, operator, handler.SyncFunc(sync))
		hello := map[string]any{
			"apiVersion": operator.Parent.APIVersion, "kind": operator.Parent.Kind,
			"metadata": map[string]any{"name": "hello"},
		}
		kit.Create(hello)
		kit.EventuallyExists(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "hello"}}, 10*time.Second)
		if err := kit.Settle(10 * time.Second); err != nil {
			t.Error(err) // names the object and the field that keep changing
		}
	}
	_ = test
}

// What the operator would do about an EchoServer, without a cluster.
//
//nolint:testableexamples // its test is given by go test
func ExampleSync() {
	test := func(t *testing.T) {
		hello := map[string]any{"apiVersion": echoServers.Parent.APIVersion, "kind": "EchoServer", "metadata": map[string]any{"name": "hello"}}
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "hello"}}
		testkit.Sync(t, echoServers, echo, hello).WantCreate(config)
		testkit.Sync(t, echoServers, echo, hello, config).WantNothing()
	}
	_ = test
}

var (
	echoServers = config.Operator{
		Name:     "echoserver",
		Parent:   resource.Type{APIVersion: "example.roperator.com/v1alpha1", Kind: "EchoServer"},
		Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}},
	}
	echo = handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Children: []any{
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: req.Parent.Name()}},
		}}, nil
	})
)

// TestExampleSync runs what ExampleSync shows.
func TestExampleSync(t *testing.T) {
	hello := map[string]any{"apiVersion": echoServers.Parent.APIVersion, "kind": "EchoServer", "metadata": map[string]any{"name": "hello"}}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "hello"}}
	testkit.Sync(t, echoServers, echo, hello).WantCreate(config)
	testkit.Sync(t, echoServers, echo, hello, config).WantNothing()
}

// A handler that a test calls itself, after a pass that couldn't write a child.
//
//nolint:testableexamples // its test is given by go test
func ExampleRequest() {
	test := func(t *testing.T) {
		hello := map[string]any{"apiVersion": echoServers.Parent.APIVersion, "kind": "EchoServer", "metadata": map[string]any{"name": "hello"}}
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "hello"}}
		req := testkit.Request(t, echoServers, hello, config)
		req.LastErrors = []handler.ChildError{{Type: k8s.ConfigMap, Verb: "update", Reason: string(metav1.StatusReasonForbidden), Message: "no quota"}}
		resp, err := echo.Sync(t.Context(), req)
		if err != nil || len(resp.Children) != 1 {
			t.Errorf("children %v, error %v", resp, err)
		}
	}
	_ = test
}

// TestExampleRequest runs what ExampleRequest shows.
func TestExampleRequest(t *testing.T) {
	hello := map[string]any{"apiVersion": echoServers.Parent.APIVersion, "kind": "EchoServer", "metadata": map[string]any{"name": "hello"}}
	req := testkit.Request(t, echoServers, hello, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "hello"}})
	resp, err := echo.Sync(t.Context(), req)
	if err != nil || len(resp.Children) != 1 || req.Children.Len() != 1 {
		t.Errorf("children %v, error %v", resp, err)
	}
}

// A live operator's handler, recorded; and the test of its next build.
//
//nolint:testableexamples // its test is given by go test
func ExampleRecord() {
	file, err := os.Create("production.jsonl")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer file.Close()
	runner.Main(echoServers, testkit.Record(file, echo))

	test := func(t *testing.T) {
		recording, err := os.Open("testdata/production.jsonl")
		if err != nil {
			t.Fatal(err)
		}
		defer recording.Close()
		testkit.Replay(t, recording, echo)
	}
	_ = test
}
