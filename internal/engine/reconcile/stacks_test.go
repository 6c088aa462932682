package reconcile

import (
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/testing/settings"
)

func TestHandlerStacks(t *testing.T) {
	const (
		ask   = "#\t0x3\tgithub.com/roperator/roperator/internal/engine/reconcile.(*answer[...]).ask+0x1\t/a/call.go:1\n"
		await = "#\t0x4\tgithub.com/roperator/roperator/internal/engine/reconcile.await[...].func1+0x1\t/a/call.go:2"
		own   = "#\t0x5\tgithub.com/roperator/roperator/internal/engine/reconcile.(*Engine).Work.func3+0x2\t/a/work.go:3"
		frame = "#\t0x1\tmain.sync+0x2f\t\t/a folder/main.go:2"
		sync  = frame + "\n"
	)
	labels := func(worker string) string {
		return `# labels: {"a":"\"}", "roperator-worker":"` + worker + `", "z":"x"}` + "\n"
	}
	stack := func(parts ...string) string { return "1 @ 0x1 0x2\n" + strings.Join(parts, "") }
	for name, tc := range map[string]struct {
		reason string
		stacks []string
		want   map[string]string
	}{
		"None":         {"no goroutine is labelled", []string{"goroutine profile: total 2", stack(sync, ask, await)}, map[string]string{}},
		"Call":         {"the engine's frames are left out", []string{stack(labels("w"), sync, ask, await)}, map[string]string{"w": frame}},
		"Two":          {"each worker has its own", []string{stack(labels("v"), sync, ask, await), stack(labels("w"), sync, sync, ask, await)}, map[string]string{"v": frame, "w": sync + frame}},
		"Worker":       {"it waits for the call", []string{stack(labels("w"), own)}, map[string]string{}},
		"Of a handler": {"the call says more than what it has started", []string{stack(labels("w"), sync, sync), stack(labels("w"), sync, ask), stack(labels("w"), sync, sync)}, map[string]string{"w": frame}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, handlerStacks(strings.Join(tc.stacks, "\n\n")), tc.reason)
		})
	}
	long := handlerStacks(stack(labels("w"), strings.Repeat(sync, 1000), ask, await))["w"]
	require.LessOrEqual(t, len(long), maxStack)
	require.True(t, strings.HasPrefix(long, "#\t0x1\tmain.sync"), "its innermost frames")
}

// The label stays with a handler that sets labels of its own, as tracers do, and with what it starts.
func TestAsWorker(t *testing.T) {
	e := testEngine(t, settings.For(), nil)
	texts := make(chan string)
	workers := make(chan string, 2)
	for n := range 2 {
		go func() {
			ctx, worker := e.asWorker(t.Context(), n)
			workers <- worker
			pprof.Do(ctx, pprof.Labels("span", "x"), func(context.Context) {
				go func() { texts <- goroutines() }()
				<-t.Context().Done()
			})
		}()
	}
	one, other := <-workers, <-workers
	require.NotEqual(t, one, other)
	all := <-texts + <-texts
	for _, worker := range []string{one, other} {
		require.GreaterOrEqual(t, strings.Count(all, fmt.Sprintf(`"roperator-worker":%q, "span":"x"`, worker)), 1)
	}
}
