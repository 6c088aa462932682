package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/roperator/roperator/internal/testing/kubelet/stages"
)

const (
	demoNamespace = "demo"
	// operatorNamespace is where the operator would be installed.
	operatorNamespace = "echoserver-system"
	nodeName          = "demo-node"
)

// startKubelet starts kwok, which plays the kubelet.
func (c *cluster) startKubelet() error {
	config, err := c.ca.kubeconfig(c.server, "kwok", "kwok", "system:masters")
	if err != nil {
		return err
	}
	played := filepath.Join(c.dir, "kubelet.yaml")
	if err := os.WriteFile(played, stages.YAML(), 0o600); err != nil {
		return fmt.Errorf("kwok: %w", err)
	}
	return c.keeper.start("kwok", c.bin["kwok"], "--kubeconfig="+config, "--config="+played,
		"--manage-all-nodes=true", "--node-lease-duration-seconds=40")
}

// addNode returns when the node is ready and Pods can be created.
func (c *cluster) addNode(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("node: %w", err)
	}
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("8"),
		corev1.ResourceMemory: resource.MustParse("16Gi"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: stages.NodeLabels(nodeName)},
		Status:     corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
	}
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	for _, name := range []string{demoNamespace, operatorNamespace} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("namespace: %w", err)
		}
	}
	err = c.await(ctx, "the node is ready", func(ctx context.Context) bool {
		node, err := client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		return err == nil && isReady(node)
	})
	if err != nil {
		return err
	}
	return c.await(ctx, "the namespace has its default service account", func(ctx context.Context) bool {
		_, err := client.CoreV1().ServiceAccounts(demoNamespace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
}

// isReady says whether Pods can run on the node: it is ready and no longer
// tainted as not being so.
func isReady(node *corev1.Node) bool {
	ready := false
	for _, condition := range node.Status.Conditions {
		ready = ready || condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
	}
	return ready && len(node.Spec.Taints) == 0
}
