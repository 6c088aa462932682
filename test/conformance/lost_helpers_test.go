package conformance

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// lostTime returns how much time the machine has taken from the test so far:
// for how long, in all, reads of an object by somebody who does nothing else
// took more than they may. A limit in seconds is one for a machine that goes on.
func lostTime(t *testing.T) func() time.Duration {
	t.Helper()
	const interval, fine = 50 * time.Millisecond, 150 * time.Millisecond
	client, err := kubernetes.NewForConfig(cluster.RESTConfig())
	require.NoError(t, err)
	var mu sync.Mutex
	lost, begun := time.Duration(0), time.Now()
	current := func() time.Duration { return max(0, time.Since(begun)-fine) }
	ended := make(chan struct{})
	ctx := t.Context()
	go func() {
		defer close(ended)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for ctx.Err() == nil {
			// An error is quick, or as late as an answer.
			_, _ = client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
			select {
			case <-ticker.C:
			case <-ctx.Done():
			}
			mu.Lock()
			lost, begun = lost+current(), time.Now()
			mu.Unlock()
		}
	}()
	t.Cleanup(func() { <-ended })
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return lost + current()
	}
}
