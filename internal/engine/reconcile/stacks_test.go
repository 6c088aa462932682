package reconcile

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHandlerStacks(t *testing.T) {
	const frames = "github.com/roperator/roperator/internal/engine/reconcile.(*answer[...]).ask(0xc000)\n\t/a/call.go:1\n"
	created := func(by, worker string) string {
		return "created by " + by + " in goroutine " + worker + "\n\t/a/call.go:2"
	}
	const await = "github.com/roperator/roperator/internal/engine/reconcile.await[...]"
	got := handlerStacks(strings.Join([]string{
		"goroutine 1 [running]:\nmain.main()\n\t/main.go:1",
		"goroutine 5 [select]:\nmain.sync(0xc001)\n\t/main.go:2\n" + frames + created(await, "2"),
		"goroutine 6 [sleep, 3 minutes]:\nmain.sync({0x1, 0x2})\n\t/main.go:3\n" + frames + created(await, "3"),
		"goroutine 7 [sleep]:\n" + strings.Repeat("main.deep(0xc002)\n\t/main.go:4\n", 1000) + frames + created(await, "4"),
		"goroutine 8 [sleep]:\nmain.own()\n\t/main.go:5\n" + created("main.sync", "6"),
		"goroutine 9 [sleep]:\nmain.cut()",
	}, "\n\n"))
	require.Len(t, got, 3)
	require.Equal(t, "goroutine 5 [select]:\nmain.sync(0xc001)\n\t/main.go:2", got["2"])
	require.Equal(t, "goroutine 6 [sleep, 3 minutes]:\nmain.sync({0x1, 0x2})\n\t/main.go:3", got["3"])
	require.LessOrEqual(t, len(got["4"]), maxStack)
	require.True(t, strings.HasPrefix(got["4"], "goroutine 7 [sleep]:\nmain.deep"), "its innermost frames")
}

func TestGoroutineNumber(t *testing.T) {
	own := goroutineNumber()
	require.Regexp(t, `^\d+$`, own)
	require.Contains(t, allStacks(), "goroutine "+own+" [running")
	other := make(chan string)
	go func() { other <- goroutineNumber() }()
	require.NotEqual(t, own, <-other)
}
