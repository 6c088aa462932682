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
	"github.com/roperator/roperator/internal/object"
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
		require.Contains(t, warned(configMaps, "one more"), "not all of its warnings are logged for a while")
		for i := range 3000 {
			require.Empty(t, warned(configMaps, fmt.Sprint("more ", i)), "the next ones add nothing to the log")
		}
		require.Len(t, c.warnings.mu.byType[configMaps.Type].texts, 100, "nor to the memory")
		require.Len(t, c.warnings.mu.byType[configMaps.Type].told, 100)

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

// A listener notes of what it was told.
type listener struct {
	log  *slog.Logger
	told []string
}

func (l *listener) Logger() *slog.Logger { return l.log }

func (l *listener) Warned(about object.Ref, text string) {
	l.told = append(l.told, about.String()+": "+text)
}

// Each object is told of once for each warning, and a typo in very many objects hides no other
// warning.
func TestWarnings_OfEachObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		text := ""
		c, configMaps, _ := answered(t, slog.New(slog.DiscardHandler), func(*http.Request) *http.Response {
			return answer(http.StatusOK, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"ns","uid":"u","resourceVersion":"7"}}`, "Warning", fmt.Sprintf("299 - %q", text))
		})
		to := &listener{log: slog.New(slog.NewTextHandler(&out, nil)).With("parent", "p")}
		warned := func(name, warning string) []string {
			to.told, text = nil, warning
			ctx := WarningsTo(t.Context(), to, object.Ref{Type: configMaps.Type, Key: types.NamespacedName{Namespace: "ns", Name: name}})
			_, err := c.Create(ctx, configMaps, types.NamespacedName{Namespace: "ns", Name: "one"}, map[string]any{"dta": 1})
			require.NoError(t, err)
			return to.told
		}
		const typo = `unknown field "dta"`
		require.Equal(t, []string{"ConfigMap ns/a: " + typo}, warned("a", typo))
		require.Contains(t, out.String(), `msg="API server warned about a request" parent=p type=v1/ConfigMap object=ns/a warning="unknown field \"dta\""`)
		require.Empty(t, warned("a", typo), "once per object")
		require.Equal(t, []string{"ConfigMap ns/b: " + typo}, warned("b", typo))
		require.Equal(t, []string{"ConfigMap ns/a: other"}, warned("a", "other"))
		dry := WarningsTo(t.Context(), to, object.Ref{Type: configMaps.Type, Key: types.NamespacedName{Namespace: "ns", Name: "dry"}})
		to.told, text = nil, typo
		_, err := c.DryCreate(dry, configMaps, "ns", map[string]any{"dta": 1})
		require.NoError(t, err)
		require.Empty(t, to.told, "nothing has come of it yet")
		require.Equal(t, 1, strings.Count(out.String(), "object=ns/dry"))
		require.Equal(t, []string{"ConfigMap ns/dry: " + typo}, warned("dry", typo))
		require.Equal(t, 1, strings.Count(out.String(), "object=ns/dry"), "once in the log")
		told := 0
		for i := range 10_000 {
			told += len(warned(fmt.Sprint("many-", i), typo))
		}
		require.Equal(t, maxWarnings-2, told, "not ten thousand times")
		require.Equal(t, []string{"ConfigMap ns/c: another"}, warned("c", "another"), "what is new is told all the same")
		require.Empty(t, warned("d", "another"))
		require.LessOrEqual(t, len(c.warnings.mu.byType[configMaps.Type].told), 2*maxWarnings)
		<-time.After(warningPeriod)
		require.Equal(t, []string{"ConfigMap ns/d: another"}, warned("d", "another"))
	})
}
