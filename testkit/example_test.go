package testkit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// What TestMain does with a cluster.
//
//nolint:testableexamples // it needs a control plane
func ExampleStart() {
	cluster, err := testkit.Start(testkit.ClusterOptions{CRDPaths: []string{"config/crd.yaml"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	// Run the tests here.
	if err := cluster.Stop(); err != nil {
		fmt.Println(err)
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
		for _, err := range kit.HandlerErrors(hello) {
			t.Error(err)
		}
	}
	_ = test
}
