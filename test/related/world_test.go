package related

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"

	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/testkit"
)

// patience only bounds a hang.
const patience = 10 * time.Minute

// cluster is what all tests use, one after the other.
var cluster *testkit.Cluster

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if cluster, err = testkit.Start(testkit.ClusterOptions{CRDPaths: []string{"testdata/crd.yaml"}}); err != nil {
		return 1, err
	}
	code = m.Run()
	return code, cluster.Stop()
}

// fromEnv returns the number that an environment variable has, or another one if it isn't
// set.
func fromEnv(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, name)
	return n
}

func readerType() resource.Type {
	return resource.Type{APIVersion: "related.roperator.com/v1", Kind: "Reader"}
}

// A world is a namespace with parents and Secrets.
type world struct {
	t         *testing.T
	namespace string
	typed     *kubernetes.Clientset
	readers   dynamic.ResourceInterface
	parents   int
}

// newWorld creates a namespace whose name begins so, with parents, a small Secret for each,
// and so many Secrets of 4 kB besides.
func newWorld(t *testing.T, prefix string, parents, foreign int) *world {
	t.Helper()
	w := &world{t: t, parents: parents}
	cfg := cluster.RESTConfig()
	cfg.UserAgent = "somebody"
	var err error
	w.typed, err = kubernetes.NewForConfig(cfg)
	require.NoError(t, err)
	untyped, err := dynamic.NewForConfig(cfg)
	require.NoError(t, err)
	made, err := w.typed.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}, metav1.CreateOptions{})
	require.NoError(t, err)
	w.namespace = made.Name
	w.readers = untyped.Resource(schema.GroupVersionResource{Group: "related.roperator.com", Version: "v1", Resource: "readers"}).Namespace(w.namespace)
	w.each(foreign, func(ctx context.Context, i int) error { return w.secret(ctx, fmt.Sprintf("foreign-%05d", i), 4<<10) })
	w.each(parents, func(ctx context.Context, i int) error {
		if err := w.secret(ctx, secretName(i), 100); err != nil {
			return err
		}
		_, err := w.readers.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": readerType().APIVersion, "kind": readerType().Kind,
			"metadata": map[string]any{"name": parentName(i)}, "spec": map[string]any{"secret": secretName(i)},
		}}, metav1.CreateOptions{})
		return err
	})
	return w
}

func parentName(i int) string { return fmt.Sprintf("reader-%03d", i) }
func secretName(i int) string { return fmt.Sprintf("secret-%03d", i) }

// each does something so many times, several at once.
func (w *world) each(count int, do func(ctx context.Context, i int) error) {
	w.t.Helper()
	errs := make([]error, count)
	workqueue.ParallelizeUntil(w.t.Context(), 8, count, func(i int) { errs[i] = do(w.t.Context(), i) })
	for _, err := range errs {
		require.NoError(w.t, err)
	}
}

// secret creates a Secret of that many bytes.
func (w *world) secret(ctx context.Context, name string, size int) error {
	_, err := w.typed.CoreV1().Secrets(w.namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Data:       map[string][]byte{"text": []byte("first"), "more": make([]byte, size)},
	}, metav1.CreateOptions{})
	return err
}

// child returns what the child of a parent says, and its resourceVersion.
func (w *world) child(parent int) (text, version string) {
	w.t.Helper()
	child, err := w.typed.CoreV1().Secrets(w.namespace).Get(w.t.Context(), parentName(parent), metav1.GetOptions{})
	require.NoError(w.t, err)
	return string(child.Data["text"]), child.ResourceVersion
}

// until waits until something is so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for limit := time.After(patience); !so(); {
		select {
		case <-tick.C:
		case <-limit:
			require.FailNow(t, "waited too long until "+what)
		}
	}
}
