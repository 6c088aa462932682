package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
)

// An error of a megabyte, as a client of an outside system may return it, takes neither the log nor the memory.
func TestLongErrors(t *testing.T) {
	const most = 8 << 10
	for name, tc := range map[string]struct {
		reason string
		text   func(call int) string
		want   string // how what is kept ends
		events int
	}{
		"Short": {"it is kept as it is", func(int) string { return "no route to host" }, "no route to host", 1},
		"Long":  {"its first part is kept", func(int) string { return strings.Repeat("x", 1<<20) }, "x…", 1},
		"Runes": {"it is cut between two characters", func(int) string { return strings.Repeat("ä", 1<<19) }, "ä…", 1},
		"Tail":  {"a change at the end of a long text is no news", func(call int) string { return fmt.Sprint(strings.Repeat("x", 1<<20), call) }, "x…", 1},
		"Head":  {"a change at its begin is", func(call int) string { return fmt.Sprint(min(call, 2), strings.Repeat("x", 1<<20)) }, "x…", 2},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				cfg, calls := rig.Config(), 0
				cfg.ReadyCondition = true
				r := watched(t, cfg, handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
					calls++
					return nil, errors.New(tc.text(calls))
				}))
				r.Create("one", "v")
				rig.Elapse(2 * time.Second)
				require.Greater(t, calls, 3)
				kept := r.Manager.Engine().Known(rig.Key("one")).LastError
				require.LessOrEqual(t, len(kept), most, tc.reason)
				require.True(t, utf8.ValidString(kept), tc.reason)
				require.True(t, strings.HasSuffix(kept, tc.want), tc.reason)
				require.LessOrEqual(t, len(lineOf(r, "one").Reason), 300)
				for line := range strings.Lines(r.Logs.String()) {
					require.Less(t, len(line), 2*most, "the log")
				}
				status, _ := r.Get(sample.ParentType(), "one").Field("status")
				require.Less(t, len(fmt.Sprint(status)), 3*1024+500, "three conditions")
				events := 0
				for _, e := range familyOf(t, r, "one").Events {
					require.Less(t, len(e.Message), 1024+10, "and a mark")
					if e.Reason == "SyncFailed" {
						events++
					}
				}
				require.Equal(t, tc.events, events, tc.reason)
				r.Stop()
			})
		})
	}
}
