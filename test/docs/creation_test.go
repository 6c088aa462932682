package docs

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// testCreation finds what docs/howto/creation.md says of handlers other than the one that
// its session shows.
func testCreation(t *testing.T, cluster *testkit.Cluster) {
	t.Helper()
	named := func(value string) any {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Data: map[string]string{"value": value}}
	}
	for name, tc := range map[string]struct {
		reason    string
		finalizer config.FinalizerPolicy
		children  func(call int32) []any
		want      []string // what each call is shown
	}{
		"WithoutChildren": {
			reason:   "The first status is written, and the second call sees it.",
			children: func(int32) []any { return nil },
			want:     []string{"children: 0, status: false, finalizers: 0", "children: 0, status: true, finalizers: 0"},
		},
		"Finalizer": {
			reason:    "It is there before the first call, and takes none of its own.",
			finalizer: config.FinalizerAlways,
			children:  func(int32) []any { return []any{named("a")} },
			want: []string{
				"children: 0, status: false, finalizers: 1", "children: 1, status: false, finalizers: 1", "children: 1, status: true, finalizers: 1",
			},
		},
		"ChangedTwice": {
			reason:   "A status isn't left to the next call twice in a row.",
			children: func(call int32) []any { return []any{named(fmt.Sprint(min(call, 2)))} },
			want: []string{
				"children: 0, status: false, finalizers: 0", "children: 1, status: false, finalizers: 0", "children: 1, status: true, finalizers: 0",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			operator := config.Operator{
				Name: "shops", Parent: resource.Type{APIVersion: "howto.example.com/v1", Kind: "Shop"}, Finalizer: tc.finalizer,
				Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}},
			}
			var calls atomic.Int32
			shown := make(chan string, 100)
			kit := testkit.New(t, cluster, operator, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
				_, registered := req.Parent.Field("status", "registered")
				shown <- fmt.Sprintf("children: %d, status: %t, finalizers: %d", req.Children.Len(), registered, len(req.Parent.Finalizers()))
				return &handler.SyncResponse{Status: map[string]any{"registered": true}, Children: tc.children(calls.Add(1))}, nil
			}))
			shop := map[string]any{"apiVersion": operator.Parent.APIVersion, "kind": operator.Parent.Kind, "metadata": map[string]any{"name": "corner"}, "spec": map[string]any{}}
			kit.Create(shop)
			for _, want := range tc.want {
				select {
				case found := <-shown:
					require.Equal(t, want, found, tc.reason)
				case <-time.After(generous):
					t.Fatalf("no call is shown %q", want)
				}
			}
			require.NoError(t, kit.Settle(generous))
			require.Empty(t, shown, "no further call comes")
			if tc.finalizer != "" {
				kit.Delete(shop)
				kit.EventuallyGone(shop, generous)
			}
		})
	}
}
