package docs

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// testImmutable finds the error that docs/guide/strategies.md shows.
func testImmutable(t *testing.T, cluster *testkit.Cluster) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs/guide/strategies.md"))
	require.NoError(t, err)
	shown := regexp.MustCompile(`(?m)^Job .*$`).FindString(string(page))
	require.Contains(t, shown, "…", "the page shows an error, and leaves out what the API server says")

	operator := config.Operator{
		Name:     "imports",
		Parent:   resource.Type{APIVersion: "guide.example.com/v1", Kind: "Cache"},
		Children: []config.Child{{Type: k8s.Job, Strategy: config.Replace}},
	}
	var image atomic.Value
	image.Store("first")
	kit := testkit.New(t, cluster, operator, handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Children: []any{map[string]any{
			"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"name": "import"},
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
				"restartPolicy": "Never", "containers": []any{map[string]any{"name": "main", "image": image.Load()}},
			}}},
		}}}, nil
	}))
	parent := map[string]any{"apiVersion": "guide.example.com/v1", "kind": "Cache", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{}}
	kit.Create(parent)
	require.NoError(t, kit.Settle(generous))
	require.Empty(t, kit.HandlerErrors(parent))

	image.Store("second")
	kit.Update(map[string]any{"apiVersion": "guide.example.com/v1", "kind": "Cache", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"replicas": 2}})
	require.Eventually(t, func() bool { return len(kit.HandlerErrors(parent)) > 0 }, generous, 100*time.Millisecond)
	want := strings.ReplaceAll(regexp.QuoteMeta(shown), "ns/", kit.Namespace+"/")
	want = "^" + strings.ReplaceAll(want, "…", "(?s:.*)") + "$"
	require.Regexp(t, want, kit.HandlerErrors(parent)[0].Error())
}
