package window

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/engine/explain"
	"github.com/roperator/roperator/internal/engine/journal"
)

// A panic of the source is logged and ends the stream; one of an explanation is a problem. Nothing leaks.
func TestParent_Panic(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		method string
		status int
		events []string
	}{
		"Family":    {"the stream has begun", "family", 200, []string{"begin"}},
		"Tap":       {"it hasn't", "tap", 500, nil},
		"Release":   {"all was told", "release", 200, []string{"begin", "family"}},
		"Operators": {"nothing is known yet", "operators", 500, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := newSource()
				source.know("shop/a", family("1", 0))
				source.explain = func(ctx context.Context, _ explain.Process) (explain.Explanation, error) {
					<-ctx.Done()
					return explain.Explanation{}, ctx.Err()
				}
				w, log := opened(t, source)
				source.on(tc.method, func() { panic("hidden treasure") })
				v := visit(t, w, parentPath)
				pass(time.Second / 2)
				if tc.method == "release" {
					v.cancel()
				}
				<-v.ended
				require.Equal(t, tc.status, v.status(), tc.reason)
				text := v.text()
				require.NotContains(t, text, "hidden")
				if tc.status == 200 {
					require.Equal(t, tc.events, names(parse(t, text)), tc.reason)
				} else {
					require.Equal(t, errPanic.Error()+"\n", text)
				}
				require.Contains(t, log.String(), "hidden treasure")
				require.Empty(t, w.mu.open)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		source.know("shop/a", family("1", 0))
		source.explain = func(context.Context, explain.Process) (explain.Explanation, error) { panic("hidden treasure") }
		w, log := opened(t, source)
		v := visit(t, w, parentPath)
		pass(time.Second / 2)
		require.Equal(t, []string{fmt.Sprintf(`{"error":%q}`, errPanic)}, v.named("problem"))
		require.Contains(t, log.String(), "hidden treasure")
		require.Empty(t, w.explain, "the place is free")
	})
}

// Whatever an explanation says is one line of JSON.
func TestParent_Hostile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hostile = "</script><script>\"'\n\nevent: unknown\ndata: {}\r\n\r\n"
		source := newSource()
		f := family("1", 0)
		f.Process.LastError = hostile
		f.Events = []journal.Event{{Message: hostile}}
		source.know("shop/a", f)
		source.explain = func(context.Context, explain.Process) (explain.Explanation, error) {
			return explanationOf(hostile, hostile), nil
		}
		w, _ := opened(t, source)
		v := visit(t, w, parentPath)
		pass(100 * time.Millisecond)
		events := v.events()
		require.ElementsMatch(t, []string{"begin", "family", "explanation"}, names(events))
		for _, each := range events {
			require.NotRegexp(t, "[<>&\r]", each)
		}
		require.Equal(t, []string{hostile}, reasons(t, events))
	})
}
