package testkit

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
)

// failing is a handler whose Sync ends as spec.value says.
func failing(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	value, _ := req.Parent.Field("spec", "value")
	switch value {
	case "error":
		return nil, errors.New("no such value")
	case "panic":
		breakDown(nil)
	case "invalid":
		return &handler.SyncResponse{Children: []any{configMap("", nil)}}, nil
	}
	return children(ctx, req)
}

func breakDown(m map[string]int) { m["x"] = 1 }

func TestKitFailsForErrorsThatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	awaitFailure := func(kit *Kit, name string) {
		require.Eventually(t, func() bool {
			engine, err := kit.engine()
			return err == nil && len(engine.Errors(kit.parentKey(widget(name, nil)))) > 0
		}, patience, 10*time.Millisecond)
	}
	for name, tc := range map[string]struct {
		reason string
		value  string
		opts   KitOptions
		ask    func(k *Kit)
		want   []string // none: the test passes
	}{
		"Error":    {reason: "with the parent", value: "error", want: []string{"/one:\n  handler: Sync: no such value\n", "ask for it by Kit.HandlerErrors, or set KitOptions.AllowHandlerErrors"}},
		"Panic":    {reason: "with its stack", value: "panic", want: []string{"handler: Sync: panic: assignment to entry in nil map\n", "testkit.breakDown(", "testkit.failing("}},
		"Invalid":  {reason: "what the engine refuses is the handler's mistake", value: "invalid", want: []string{"invalid response: child 0"}},
		"Fine":     {reason: "nothing has failed", value: "a"},
		"Allowed":  {reason: "as the test says", value: "error", opts: KitOptions{AllowHandlerErrors: true}},
		"Asked":    {reason: "the test knows of it", value: "error", ask: func(k *Kit) { require.NotEmpty(t, k.HandlerErrors(widget("one", nil))) }},
		"AskedOf2": {reason: "another parent is another matter", value: "error", ask: func(k *Kit) { require.Empty(t, k.HandlerErrors(widget("two", nil))) }, want: []string{"no such value"}},
		"Event": {reason: "the test has seen it", value: "error", ask: func(k *Kit) {
			require.Eventually(t, func() bool { return strings.Contains(strings.Join(k.Events(widget("one", nil)), "\n"), "SyncFailed") }, patience, 50*time.Millisecond)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed := fake(t, func(tb testing.TB) {
				kit := NewWithOptions(tb, cluster, widgets("kit-unasked"), handler.SyncFunc(failing), tc.opts)
				kit.Create(widget("one", map[string]any{"value": tc.value}))
				if tc.value == "a" {
					kit.Eventually(configMap("one", nil), patience)
				} else {
					awaitFailure(kit, "one")
				}
				if tc.ask != nil {
					tc.ask(kit)
				}
			})
			if len(tc.want) == 0 {
				require.Empty(t, failed.failure(), tc.reason)
			}
			for _, text := range tc.want {
				require.Contains(t, failed.failure(), text, tc.reason)
			}
			require.LessOrEqual(t, strings.Count(failed.failure(), "the handler has failed"), 1, "it is told once")
		})
	}
}

func TestKitTellsErrorsOfARunThatWasStopped(t *testing.T) {
	t.Parallel()
	failed := fake(t, func(tb testing.TB) {
		kit := New(tb, cluster, widgets("kit-stopped"), handler.SyncFunc(failing))
		kit.Create(widget("one", map[string]any{"value": "error"}))
		engine, err := kit.engine()
		require.NoError(t, err)
		require.Eventually(t, func() bool { return len(engine.Errors(kit.parentKey(widget("one", nil)))) > 0 }, patience, 10*time.Millisecond)
		kit.Restart(widgets("kit-stopped"), handler.SyncFunc(children))
	})
	require.Contains(t, failed.failure(), "operator kit-stopped: the handler has failed for ")
}

// TestErrorsOfACleanupDoNotCount: what a handler needs may be gone before its operator is.
func TestErrorsOfACleanupDoNotCount(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		err    func() error
		want   string
	}{
		"Error": {"the test has closed what the handler needs", func() error { return errors.New("closed") }, ""},
		"Panic": {"that is a mistake at any time", func() error { breakDown(nil); return nil }, "assignment to entry in nil map"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var closed atomic.Bool
			failures := make(chan struct{}, 1)
			needy := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
				if !closed.Load() {
					return &handler.SyncResponse{Resync: time.Millisecond}, nil
				}
				select {
				case failures <- struct{}{}:
				default:
				}
				return nil, tc.err()
			})
			failed := fake(t, func(tb testing.TB) {
				kit := New(tb, cluster, widgets("kit-needy"), needy)
				kit.Create(widget("one", nil))
				tb.Cleanup(func() { // before that of the Kit
					closed.Store(true)
					<-failures
				})
			})
			if tc.want == "" {
				require.Empty(t, failed.failure(), tc.reason)
				return
			}
			require.Contains(t, failed.failure(), tc.want, tc.reason)
		})
	}
}

// TestErrorsOfTheLastPassCount: a pass that runs when the operator is told to stop is finished,
// and the test can still ask for what it has failed with.
func TestErrorsOfTheLastPassCount(t *testing.T) {
	t.Parallel()
	lastPass := func(tb testing.TB) *Kit {
		begun, end := make(chan struct{}), make(chan struct{})
		slow := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			close(begun)
			<-end
			return nil, errors.New("in the end")
		})
		kit := New(tb, cluster, widgets("kit-last"), slow)
		kit.Create(widget("one", nil))
		<-begun
		stop, release := kit.op.cancel, sync.OnceFunc(func() { close(end) })
		kit.op.cancel = func() { stop(); release() }
		kit.Stop()
		return kit
	}
	failed := fake(t, func(tb testing.TB) { lastPass(tb) })
	require.Contains(t, failed.failure(), "handler: Sync: in the end")
	asked := fake(t, func(tb testing.TB) { require.Len(t, lastPass(tb).HandlerErrors(widget("one", nil)), 1) })
	require.Empty(t, asked.failure())
}

func TestEventuallyTellsWhatTheHandlerFailedWith(t *testing.T) {
	t.Parallel()
	failed := fake(t, func(tb testing.TB) {
		kit := New(tb, cluster, widgets("kit-why"), handler.SyncFunc(failing))
		kit.Create(widget("one", map[string]any{"value": "error"}))
		kit.EventuallyExists(configMap("one", nil), 2*time.Second)
	})
	require.Contains(t, failed.failure(), "/one doesn't exist: after 2s\nthe handler has failed for ")
	require.Contains(t, failed.failure(), "\n  handler: Sync: no such value")
}

func TestPanicOfAHandlerHasAStack(t *testing.T) {
	t.Parallel()
	panicking := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		breakDown(nil)
		return &handler.SyncResponse{}, nil
	})
	for name, test := range map[string]func(t *testing.T) string{
		"Sync": func(t *testing.T) string {
			return fake(t, func(tb testing.TB) { Sync(tb, sites(), panicking, site(nil)) }).failure()
		},
		"Replay": func(t *testing.T) string {
			text := recordingOf(t, handler.SyncFunc(siteHandler), siteRequest(t, "hello"))
			return fake(t, func(tb testing.TB) { Replay(tb, strings.NewReader(text), panicking) }).failure()
		},
		"Kit": func(t *testing.T) string { // the log, where the test has asked for the error
			f := fake(t, func(tb testing.TB) {
				kit := New(tb, cluster, widgets("kit-panic"), panicking)
				kit.Create(widget("one", nil))
				require.Eventually(t, func() bool { return len(kit.HandlerErrors(widget("one", nil))) > 0 }, patience, 10*time.Millisecond)
			})
			require.Empty(t, f.failure())
			return f.logged()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := test(t)
			require.Contains(t, said, "panic")
			require.Contains(t, said, "testkit.breakDown(")
			require.Contains(t, said, "/unasked_test.go:")
			require.NotContains(t, said, "runtime/debug.Stack", "how the stack was got")
			require.NotContains(t, said, "testkit.fake(", "what called the handler")
		})
	}
}
