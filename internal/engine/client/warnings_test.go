package client

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/catalog"
)

// A webhook whose warnings all differ, and are long, fills neither the log nor the memory.
func TestWarnings_AllDistinct(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		text := ""
		c, configMaps, secrets := answered(t, slog.New(slog.NewTextHandler(&out, nil)), func(*http.Request) *http.Response {
			return answer(http.StatusOK, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"ns","uid":"u","resourceVersion":"7"}}`, "Warning", fmt.Sprintf("299 - %q", text))
		})
		warned := func(k *catalog.Kind, warning string) (logged string) {
			out.Reset()
			text = warning
			_, err := c.Get(t.Context(), k, types.NamespacedName{Namespace: "ns", Name: "c"})
			require.NoError(t, err)
			return out.String()
		}
		const lines = "warned about a request"
		long := strings.Repeat("é", 1<<12)
		for i := range 100 {
			said := warned(configMaps, fmt.Sprint(i, long))
			require.Equal(t, 1, strings.Count(said, lines), "warning %d", i)
			require.Less(t, len(said), 1500, "the text is shortened")
		}
		require.Contains(t, warned(configMaps, "one more"), "new warnings aren't logged for a while")
		for i := range 3000 {
			require.Empty(t, warned(configMaps, fmt.Sprint("more ", i)), "the next ones add nothing to the log")
		}
		require.Len(t, c.warnings.mu.byType[configMaps.Type].logged, 100, "nor to the memory")

		require.Contains(t, warned(secrets, "a"), lines, "another type's are logged")
		require.Empty(t, warned(secrets, "b"), "what can't be shown can't differ")

		<-time.After(time.Hour - time.Second)
		require.Empty(t, warned(configMaps, "before the hour is over"))
		<-time.After(time.Second)
		said := warned(configMaps, "after an hour")
		require.Contains(t, said, "after an hour", "a warning that means something isn't hidden for ever by others")
		require.Contains(t, said, "unlogged=3002")
		require.Empty(t, warned(configMaps, "after an hour"))
	})
}
