package main

import (
	"slices"
	gosync "sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
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

// A story is what a watch tells of the children in a namespace: "Job
// shop-migrate-1-0 is complete".
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
		appsv1.SchemeGroupVersion.WithResource("statefulsets"),
		appsv1.SchemeGroupVersion.WithResource("deployments"),
		batchv1.SchemeGroupVersion.WithResource("jobs"),
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
		text := u.GetKind() + " " + u.GetName() + " " + stage(event.Type, u)
		if known[u.GetName()] == text {
			continue
		}
		known[u.GetName()] = text
		s.mu.Lock()
		s.mu.lines = append(s.mu.lines, line{u.GetResourceVersion(), text})
		s.mu.Unlock()
	}
}

// stage says how far an object has come.
func stage(event watch.EventType, u *unstructured.Unstructured) string {
	child, err := resource.New(u)
	switch {
	case event == watch.Deleted:
		return "is gone"
	case err != nil || readiness.Of(child).State != readiness.Current:
		return "begins"
	}
	if job, err := resource.As[batchv1.Job](child); err == nil && u.GetKind() == "Job" && !has(job, batchv1.JobComplete) {
		return "begins"
	}
	return "is ready"
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
