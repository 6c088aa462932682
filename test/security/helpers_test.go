package security

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/testkit"
)

// bystander returns a Kit whose operator leaves everything as it is.
func bystander(t *testing.T, name string) *testkit.Kit {
	t.Helper()
	return testkit.New(t, cluster, operator(name), handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{KeepChildren: true}, nil
	}))
}

func clients(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	return c
}

// everything returns each ConfigMap and Secret of a namespace with its version.
func everything(t *testing.T, namespace string) map[string]string {
	t.Helper()
	found := map[string]string{}
	maps, err := clients(t).CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	secrets, err := clients(t).CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, m := range maps.Items {
		found["ConfigMap "+m.Name] = string(m.UID) + " " + m.ResourceVersion
	}
	for _, s := range secrets.Items {
		found["Secret "+s.Name] = string(s.UID) + " " + s.ResourceVersion
	}
	delete(found, "ConfigMap kube-root-ca.crt")
	return found
}

// writtenBy returns each ConfigMap and Secret of a namespace in which the API
// server has noted fields that an operator wrote.
func writtenBy(t *testing.T, namespace, operator string) []string {
	t.Helper()
	maps, err := clients(t).CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	secrets, err := clients(t).CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	var found []string
	note := func(kind string, meta metav1.ObjectMeta) {
		if slices.ContainsFunc(meta.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == operator }) {
			found = append(found, kind+" "+meta.Name)
		}
	}
	for _, m := range maps.Items {
		note("ConfigMap", m.ObjectMeta)
	}
	for _, s := range secrets.Items {
		note("Secret", s.ObjectMeta)
	}
	return found
}

// failsWith waits until a parent has an error that says all of this.
func failsWith(t *testing.T, kit *testkit.Kit, name string, texts ...string) {
	t.Helper()
	said := ""
	defer func() {
		if t.Failed() {
			t.Logf("%s: want %q, the last error was: %s", name, texts, said)
		}
	}()
	eventually(t, name+" fails", func() bool {
		for _, err := range kit.HandlerErrors(parent(name, nil)) {
			said = err.Error()
			all := true
			for _, text := range texts {
				all = all && strings.Contains(said, text)
			}
			if all {
				return true
			}
		}
		return false
	})
}
