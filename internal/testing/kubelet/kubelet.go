// Package kubelet gives a cluster for tests two nodes on which Pods run, as far as their status
// tells: kube-scheduler, and kwok, which plays the kubelet.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/roperator/roperator/internal/testing/kubelet/stages"
	"github.com/roperator/roperator/internal/testing/plane"
)

// startTimeout bounds the start. A few seconds are usual.
const startTimeout = time.Minute

// ownLabel is on the nodes that are ours. kwok plays no others.
const ownLabel = "kubelet.roperator.com/own"

// ErrForeignNodes means that a cluster has nodes that Start hasn't added.
var ErrForeignNodes = errors.New("the cluster has nodes of its own")

// A Pod never becomes Ready if the image of a container of it contains Broken, and a Job fails if
// one of its Pods' contains Fails.
const (
	Broken = "broken"
	Fails  = "fails"
)

// NodeNames returns the names of the nodes.
func NodeNames() []string { return []string{"kwok-1", "kwok-2"} }

// A Kubelet is two nodes and the processes behind them.
type Kubelet struct {
	dir, kubeconfig string
	stopped         bool
	scheduler, kwok *plane.Process
}

// Start returns when Pods can run on the cluster of a kubeconfig, which must allow everything. Its
// kube-controller-manager must be running. The programs are those in the folder that
// KUBEBUILDER_ASSETS names. An error that is os.ErrNotExist: one isn't there. A cluster that has
// nodes of its own is left as it is: the error is ErrForeignNodes. Logs are in a folder beside the
// kubeconfig. The caller must call Stop.
func Start(ctx context.Context, kubeconfig string) (k *Kubelet, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	k = &Kubelet{kubeconfig: kubeconfig}
	if k.dir, err = os.MkdirTemp(filepath.Dir(kubeconfig), "kubelet-"); err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	if err := k.start(ctx, kubeconfig); err != nil {
		said := k.scheduler.Said() + "\n" + k.kwok.Said()
		return nil, fmt.Errorf("kubelet: %w\n%s", errors.Join(err, k.Stop()), said)
	}
	return k, nil
}

func (k *Kubelet) start(ctx context.Context, kubeconfig string) error {
	client, release, err := connect(kubeconfig)
	if err != nil {
		return err
	}
	defer release()
	if err := refuseForeign(ctx, client); err != nil {
		return err
	}
	if err := k.startPrograms(kubeconfig); err != nil {
		return err
	}
	names := NodeNames()
	for _, name := range names {
		if err := addNode(ctx, client, name); err != nil {
			return err
		}
	}
	return k.await(ctx, client, names)
}

// connect returns a client that shares its connections with no other, and what closes them.
func connect(kubeconfig string) (client *kubernetes.Clientset, release func(), err error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	cfg.Dial = (&net.Dialer{}).DialContext
	transport, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, nil, err
	}
	if client, err = kubernetes.NewForConfigAndClient(cfg, transport); err != nil {
		return nil, nil, err
	}
	return client, func() { utilnet.CloseIdleConnectionsFor(transport.Transport) }, nil
}

// refuseForeign returns ErrForeignNodes if there is a node that isn't ours: a second scheduler
// would place the Pods that are meant for it.
func refuseForeign(ctx context.Context, client kubernetes.Interface) error {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "!" + ownLabel, Limit: 1})
	if err != nil {
		return fmt.Errorf("nodes: %w", err)
	}
	if len(nodes.Items) > 0 {
		return fmt.Errorf("%w: %s", ErrForeignNodes, nodes.Items[0].Name)
	}
	return nil
}

func (k *Kubelet) startPrograms(kubeconfig string) (err error) {
	config := filepath.Join(k.dir, "stages.yaml")
	if err := os.WriteFile(config, stages.YAML(), 0o600); err != nil {
		return err
	}
	k.scheduler, err = plane.StartProgram(filepath.Join(k.dir, "kube-scheduler.log"), "kube-scheduler",
		"--kubeconfig="+kubeconfig, "--leader-elect=false", "--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=1000")
	if err != nil {
		return err
	}
	k.kwok, err = plane.StartProgram(filepath.Join(k.dir, "kwok.log"), "kwok",
		"--kubeconfig="+kubeconfig, "--config="+config, "--manage-nodes-with-label-selector="+ownLabel, "--node-lease-duration-seconds=40")
	return err
}

// addNode creates a node of ours, if it isn't left from an earlier Start.
func addNode(ctx context.Context, client kubernetes.Interface, name string) error {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("1000"),
	}
	labels := stages.NodeLabels(name)
	labels[ownLabel] = ""
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Status:     corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
	}
	_, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("node %s: %w", name, err)
	}
	return nil
}

// await returns when Pods can run on the nodes, or a program has ended.
func (k *Kubelet) await(ctx context.Context, client kubernetes.Interface, names []string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := plane.Until(ctx, startTimeout, func() error {
		if err := errors.Join(k.kwok.Exited(), k.scheduler.Exited()); err != nil {
			cancel(err)
			return err
		}
		for _, name := range names {
			if err := isReady(ctx, client, name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("nodes: %w", err)
	}
	return nil
}

// Processes returns the programs.
func (k *Kubelet) Processes() []*plane.Process { return []*plane.Process{k.kwok, k.scheduler} }

// isReady returns nil if a node is ready and its taint of not being so has gone.
func isReady(ctx context.Context, client kubernetes.Interface, name string) error {
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && len(node.Spec.Taints) == 0 {
			return nil
		}
	}
	return fmt.Errorf("%s isn't ready", name)
}

// Stop ends the processes and removes the nodes. A second call does nothing.
func (k *Kubelet) Stop() error {
	if k.stopped {
		return nil
	}
	k.stopped = true
	k.kwok.Kill()
	k.scheduler.Kill()
	return errors.Join(k.removeNodes(), os.RemoveAll(k.dir))
}

// removeNodes deletes the nodes that are ours, so that no Pod of another test is placed there.
func (k *Kubelet) removeNodes() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	client, release, err := connect(k.kubeconfig)
	if err != nil {
		return err
	}
	defer release()
	err = client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: ownLabel})
	if err != nil {
		return fmt.Errorf("nodes: %w", err)
	}
	return nil
}
