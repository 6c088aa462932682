package conformance

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
)

func TestC248_SlowStart(t *testing.T) {
	const all, quota = 500, 100
	scenario(t, "C248", "500 Pods under a quota of 100: at most 130 creates in the first ten seconds, though the statuses of Pods move; once the quota is raised, all are there")
	var posts atomic.Int64
	m := &middleman{}
	m.answers(func(req *http.Request) *http.Response {
		if req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/pods") && req.URL.Query().Get("dryRun") == "" {
			posts.Add(1)
		}
		return nil
	})
	s := newStageWith(t, operator("c248-quota", config.Child{Type: k8s.Pod, Strategy: config.Replace}), behind(m))
	s.limit(map[string]any{"pods": fmt.Sprint(quota)})
	pods := func(*handler.SyncRequest) *handler.SyncResponse {
		resp := &handler.SyncResponse{}
		for i := range all {
			resp.Children = append(resp.Children, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p-%03d", i)},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}}},
			})
		}
		return resp
	}
	typed, _ := clients(t, "kubelet")
	count := func() int {
		list, err := typed.CoreV1().Pods(s.Namespace).List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
		require.NoError(t, err)
		return len(list.Items)
	}
	s.change(0, pods)
	begin := time.Now()
	eventually(t, "the quota is used up", func() bool { return count() == quota })
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for i := 0; time.Since(begin) < 10*time.Second; i++ {
		<-tick.C
		patch := fmt.Appendf(nil, `{"status":{"message":"moved %d times"}}`, i)
		_, err := typed.CoreV1().Pods(s.Namespace).Patch(context.WithoutCancel(t.Context()), fmt.Sprintf("p-%03d", i%20), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		require.NoError(t, err)
	}
	t.Logf("%d creates in ten seconds", posts.Load())
	require.LessOrEqual(t, posts.Load(), int64(130))
	require.Equal(t, quota, count())
	s.limit(map[string]any{"pods": fmt.Sprint(all)})
	eventually(t, "all Pods are there", func() bool { return count() == all })
}
