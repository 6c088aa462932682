package transcript

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Programs builds the command in the working directory into the folder, and
// returns the folders in which a session finds it and kubectl: this one, and
// the control plane's, if there are such.
func Programs(ctx context.Context, folder string) ([]string, error) {
	output, err := exec.CommandContext(ctx, "go", "build", "-o", folder+string(os.PathSeparator), ".").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, output)
	}
	found := []string{folder}
	for _, dir := range []string{os.Getenv("KUBEBUILDER_ASSETS"), "../../.cache/controlplane"} {
		info, err := os.Stat(dir)
		if err != nil || !info.IsDir() {
			continue
		}
		if dir, err = filepath.Abs(dir); err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		found = append(found, dir)
	}
	return found, nil
}

// ForgetEvents removes the Events about objects of the kind, which an earlier
// session has left, from the namespace default.
func ForgetEvents(ctx context.Context, cluster *rest.Config, kind string) error {
	client, err := dynamic.NewForConfig(cluster)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	events := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "events"}).Namespace(metav1.NamespaceDefault)
	about := metav1.ListOptions{FieldSelector: "involvedObject.kind=" + kind}
	if err := events.DeleteCollection(ctx, metav1.DeleteOptions{}, about); err != nil {
		return fmt.Errorf("Events of %s: delete: %w", kind, err)
	}
	return nil
}

// Forget makes the cluster one that has never heard of the kind: it removes the
// CustomResourceDefinition with the name, and the Events that ForgetEvents does.
// It returns when that is done, after a minute at most.
func Forget(ctx context.Context, cluster *rest.Config, kind, name string) error {
	if err := ForgetEvents(ctx, cluster, kind); err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(cluster)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if err := crds.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("CustomResourceDefinition %s: delete: %w", name, err)
	}
	err = wait.PollUntilContextTimeout(ctx, interval, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := crds.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		return fmt.Errorf("CustomResourceDefinition %s: wait for its end: %w", name, err)
	}
	return nil
}
