package testkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
)

// installCRDs creates or updates CustomResourceDefinitions, and returns when their types are served.
func installCRDs(config *rest.Config, paths []string) error {
	if err := installAll(config, paths); err != nil {
		return fmt.Errorf("cluster: CRDs %v: %w", paths, err)
	}
	return nil
}

func installAll(config *rest.Config, paths []string) error {
	crds, err := readCRDs(paths)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	served, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), defaultStartTimeout)
	defer cancel()
	for _, crd := range crds {
		if err := writeCRD(ctx, client, crd); err != nil {
			return fmt.Errorf("%s: %w", crd.GetName(), err)
		}
	}
	for _, crd := range crds {
		if err := awaitServed(ctx, served, crd); err != nil {
			return fmt.Errorf("%s: %w", crd.GetName(), err)
		}
	}
	return nil
}

// readCRDs returns the CustomResourceDefinitions in files of YAML or JSON, and in such files of folders.
func readCRDs(paths []string) (crds []*unstructured.Unstructured, err error) {
	for _, path := range paths {
		files := []string{path}
		if info, err := os.Stat(path); err != nil {
			return nil, err
		} else if info.IsDir() {
			if files, err = filepath.Glob(filepath.Join(path, "*")); err != nil {
				return nil, err
			}
			files = slices.DeleteFunc(files, func(file string) bool {
				return !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file))
			})
		}
		for _, file := range files {
			found, err := readCRDFile(file)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			crds = append(crds, found...)
		}
	}
	return crds, nil
}

func readCRDFile(name string) (crds []*unstructured.Unstructured, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		crd := &unstructured.Unstructured{}
		if err := decoder.Decode(&crd.Object); errors.Is(err, io.EOF) {
			return crds, nil
		} else if err != nil {
			return nil, err
		}
		if crd.GetKind() == "CustomResourceDefinition" {
			crds = append(crds, crd)
		}
	}
}

func writeCRD(ctx context.Context, client dynamic.Interface, crd *unstructured.Unstructured) error {
	crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	_, err := crds.Create(ctx, crd, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		live, err := crds.Get(ctx, crd.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		updated := crd.DeepCopy()
		updated.SetResourceVersion(live.GetResourceVersion())
		_, err = crds.Update(ctx, updated, metav1.UpdateOptions{})
		return err
	})
}

// awaitServed waits until the API server serves all versions that a CustomResourceDefinition wants it to.
func awaitServed(ctx context.Context, client discovery.DiscoveryInterface, crd *unstructured.Unstructured) error {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return err
	}
	for _, version := range versions {
		v, _ := version.(map[string]any)
		name, _ := v["name"].(string)
		if served, _ := v["served"].(bool); !served {
			continue
		}
		err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(context.Context) (bool, error) {
			list, err := client.ServerResourcesForGroupVersion(group + "/" + name)
			if err != nil {
				return false, nil //nolint:nilerr // not yet
			}
			return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == plural }), nil
		})
		if err != nil {
			return fmt.Errorf("version %s isn't served: %w", name, err)
		}
	}
	return nil
}
