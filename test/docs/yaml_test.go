package docs

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/roperator/roperator/testkit"
)

// documents splits YAML and parses each part strictly.
func documents(text string) ([]map[string]any, error) {
	var out []map[string]any
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		data, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		var object map[string]any
		if err := yaml.UnmarshalStrict(data, &object); err != nil {
			return nil, err
		}
		if len(object) > 0 {
			out = append(out, object)
		}
	}
}

func isObject(document map[string]any) bool {
	return document["apiVersion"] != nil && document["kind"] != nil
}

// definitions writes the CustomResourceDefinitions of the pages to a folder and
// returns its path and those of the examples' own.
func definitions(t *testing.T, all []*page) []string {
	t.Helper()
	dir := t.TempDir()
	paths, err := filepath.Glob(filepath.Join(root, "examples/*/crd.yaml"))
	require.NoError(t, err)
	for _, b := range blocks(all, "yaml") {
		found, err := documents(b.text)
		require.NoError(t, err, "%s", b)
		for i, document := range found {
			if document["kind"] != "CustomResourceDefinition" {
				continue
			}
			data, err := yaml.Marshal(document)
			require.NoError(t, err)
			path := filepath.Join(dir, fmt.Sprintf("%s-%d-%d.yaml", filepath.Base(b.page.path), b.line, i))
			require.NoError(t, os.WriteFile(path, data, 0o600))
			paths = append(paths, path)
		}
	}
	return paths
}

// TestOnAPIServer is about what the pages show and say of objects, on a cluster
// with all CustomResourceDefinitions.
func TestOnAPIServer(t *testing.T) {
	all := pages(t)
	cluster := startCluster(t, definitions(t, all))
	t.Run("YAML", func(t *testing.T) { testYAML(t, cluster, all) })
	t.Run("Migrating", func(t *testing.T) { testMigrating(t, cluster) })
	t.Run("FinalizeHook", func(t *testing.T) { testFinalizeHook(t, cluster) })
	t.Run("ErrorKeepsAll", func(t *testing.T) { testErrorKeepsAll(t, cluster) })
	t.Run("Creation", func(t *testing.T) { testCreation(t, cluster) })
	t.Run("Webhooks", func(t *testing.T) { testWebhooks(t, cluster) })
	t.Run("Immutable", func(t *testing.T) { testImmutable(t, cluster) })
}

// testYAML has the API server accept every object.
func testYAML(t *testing.T, cluster *testkit.Cluster, all []*page) {
	t.Helper()
	rc := cluster.RESTConfig()
	client, err := dynamic.NewForConfig(rc)
	require.NoError(t, err)
	dc, err := discovery.NewDiscoveryClientForConfig(rc)
	require.NoError(t, err)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(dc))
	objects := 0
	for _, b := range blocks(all, "yaml") {
		found, err := documents(b.text)
		require.NoError(t, err, "%s", b)
		for _, document := range found {
			if !isObject(document) || document["kind"] == "CustomResourceDefinition" {
				continue // those are there, or the cluster had not started
			}
			objects++
			u := &unstructured.Unstructured{Object: document}
			gvk := u.GroupVersionKind()
			mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
			require.NoError(t, err, "%s: %s", b, gvk)
			target := dynamic.ResourceInterface(client.Resource(mapping.Resource))
			if mapping.Scope.Name() == "namespace" {
				u.SetNamespace("default")
				target = client.Resource(mapping.Resource).Namespace("default")
			}
			_, err = target.Create(t.Context(), u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
			require.NoError(t, err, "%s", b)
		}
	}
	require.NotZero(t, objects, "the docs show objects")
}

func TestJSON(t *testing.T) {
	for _, b := range blocks(pages(t), "json") {
		require.True(t, json.Valid([]byte(b.text)), "%s", b)
	}
}

func TestDocuments(t *testing.T) {
	found, err := documents("a: 1\n---\napiVersion: v1\nkind: Pod\n---\n")
	require.NoError(t, err)
	require.Len(t, found, 2)
	require.False(t, isObject(found[0]))
	require.True(t, isObject(found[1]))
	_, err = documents("a: 1\na: 2\n")
	require.ErrorContains(t, err, "already set in map", "a key twice is a mistake")
}
