// Package kubelet gives a cluster for tests a node on which Pods run, as far as their status
// tells: kube-scheduler, and kwok, which plays the kubelet.
package kubelet

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/roperator/roperator/internal/testing/plane"
)

// startTimeout bounds the start. A few seconds are usual.
const startTimeout = time.Minute

const nodeName = "kwok"

//go:embed stages.yaml
var stages []byte

// Stages returns what kwok plays, as its configuration file.
func Stages() []byte { return append([]byte(nil), stages...) }

// Broken is how the image of a container ends whose Pod never becomes Ready, and Fails that of one
// whose Job fails.
const (
	Broken = "broken"
	Fails  = "fails"
)

// A Kubelet is a node and the processes behind it.
type Kubelet struct {
	dir             string
	scheduler, kwok *plane.Process
}

// Start returns when Pods can run on the cluster of a kubeconfig, which must allow everything. Its
// kube-controller-manager must be running. The programs are those in the folder that
// KUBEBUILDER_ASSETS names. An error that is os.ErrNotExist: one isn't there. The caller must call
// Stop.
func Start(ctx context.Context, kubeconfig string) (k *Kubelet, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	k = &Kubelet{}
	if k.dir, err = os.MkdirTemp("", "roperator-kubelet-"); err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	if err := k.start(ctx, kubeconfig); err != nil {
		said := k.scheduler.Said() + k.kwok.Said()
		return nil, fmt.Errorf("kubelet: %w\n%s", errors.Join(err, k.Stop()), said)
	}
	return k, nil
}

func (k *Kubelet) start(ctx context.Context, kubeconfig string) (err error) {
	config := filepath.Join(k.dir, "stages.yaml")
	if err := os.WriteFile(config, stages, 0o600); err != nil {
		return err
	}
	k.scheduler, err = plane.StartProgram(filepath.Join(k.dir, "kube-scheduler.log"), "kube-scheduler",
		"--kubeconfig="+kubeconfig, "--leader-elect=false", "--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=1000")
	if err != nil {
		return err
	}
	k.kwok, err = plane.StartProgram(filepath.Join(k.dir, "kwok.log"), "kwok",
		"--kubeconfig="+kubeconfig, "--config="+config, "--manage-all-nodes=true", "--node-lease-duration-seconds=40")
	if err != nil {
		return err
	}
	return addNode(ctx, kubeconfig)
}

// addNode returns when there is a node that is ready.
func addNode(ctx context.Context, kubeconfig string) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("1000"),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{corev1.LabelHostname: nodeName}},
		Status:     corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
	}
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	return plane.Until(ctx, startTimeout, func() error {
		node, err := client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && len(node.Spec.Taints) == 0 {
				return nil
			}
		}
		return errors.New("the node isn't ready")
	})
}

// Stop ends the processes. The node stays.
func (k *Kubelet) Stop() error {
	k.kwok.Kill()
	k.scheduler.Kill()
	return os.RemoveAll(k.dir)
}
