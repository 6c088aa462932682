package main

import (
	"slices"
	"strings"
	gosync "sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/resource"
)

// A story is what a watch tells of the children in a namespace: "green 2
// is ready".
type story struct {
	mu struct {
		gosync.Mutex
		lines []line
	}
}

// A line is what became of an object, and the resourceVersion since when.
type line struct{ version, text string }

// follow begins a story in a namespace that is still empty.
func follow(t *testing.T, namespace string) *story {
	t.Helper()
	client, err := dynamic.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	s := &story{}
	var watching gosync.WaitGroup
	for _, r := range []schema.GroupVersionResource{
		corev1.SchemeGroupVersion.WithResource("services"),
		appsv1.SchemeGroupVersion.WithResource("deployments"),
	} {
		events, err := client.Resource(r).Namespace(namespace).Watch(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		watching.Go(func() { s.write(events) }) // ends with the watch
	}
	t.Cleanup(watching.Wait) // t.Context, and with it the watches, has ended by then
	return s
}

// write notes what is new in each event.
func (s *story) write(events watch.Interface) {
	known := map[string]string{} // the last line about each object
	for event := range events.ResultChan() {
		u, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		text := stage(event.Type, u)
		if known[u.GetName()] == text {
			continue
		}
		known[u.GetName()] = text
		s.mu.Lock()
		s.mu.lines = append(s.mu.lines, line{u.GetResourceVersion(), text})
		s.mu.Unlock()
	}
}

// stage says where a Service points to, or how far a Deployment has come.
func stage(event watch.EventType, u *unstructured.Unstructured) string {
	if u.GetKind() == "Service" {
		to, _, _ := unstructured.NestedString(u.Object, "spec", "selector", colourLabel)
		return "traffic to " + to
	}
	child, err := resource.New(u)
	if err != nil {
		return err.Error()
	}
	deployment, err := resource.As[appsv1.Deployment](child)
	if err != nil {
		return err.Error()
	}
	c := deployment.Labels[colourLabel]
	_, version, _ := strings.Cut(imageOf(deployment), ":")
	switch {
	case event == watch.Deleted:
		return c + " is gone"
	case readiness.Of(child).State != readiness.Current:
		return c + " " + version + " begins"
	}
	return c + " " + version + " is ready"
}

// tells waits until this is all of it. The operator may be at rest before the
// watch has told of the last change.
func (s *story) tells(t *testing.T, want ...string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) { require.Equal(c, want, s.tell()) }, timeout, 50*time.Millisecond)
}

// tell returns all of it by now, in the order in which it happened.
func (s *story) tell() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := slices.Clone(s.mu.lines)
	slices.SortStableFunc(lines, func(a, b line) int {
		order, err := resourceversion.CompareResourceVersion(a.version, b.version)
		if err != nil {
			return 0
		}
		return order
	})
	texts := make([]string, 0, len(lines))
	for _, l := range lines {
		texts = append(texts, l.text)
	}
	return texts
}
