package testkit

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const pollInterval = 50 * time.Millisecond

// managerWorks waits until kube-controller-manager collects garbage, or has ended.
func (c *Cluster) managerWorks() error {
	manager := c.plane.ControllerManager
	works := make(chan error, 1)
	go func() { works <- garbageIsCollected(c.restConfig) }() // ends within its own timeout
	var err error
	select {
	case err = <-works:
	case <-manager.Done():
		err = manager.Exited()
	}
	if err != nil {
		return fmt.Errorf("cluster: %w\n%s", err, manager.Said())
	}
	return nil
}

// garbageIsCollected returns nil when the garbage collector has deleted an
// object whose owner doesn't exist.
func garbageIsCollected(config *rest.Config) error {
	timeout, err := startTimeout()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	maps := client.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	garbage, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "roperator-testkit-",
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "ConfigMap", Name: "roperator-testkit-absent", UID: uuid.NewUUID(),
		}},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		_, err := maps.Get(ctx, garbage.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if err != nil {
		return fmt.Errorf("no garbage was collected within %v: %w", timeout, err)
	}
	return nil
}
