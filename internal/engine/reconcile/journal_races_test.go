package reconcile

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/journal"
	"github.com/roperator/roperator/internal/engine/schedule"
)

// TestJournal_Races is for the race detector. While the handler is called, other goroutines begin to do with the
// running reconciliation all that they may. Nothing but the end of the test waits for them.
func TestJournal_Races(t *testing.T) {
	cases := map[string]struct {
		reason string
		do     func(e *Engine, u passUnderWay)
	}{
		"Report": {
			reason: "a report that the reconciliation takes long makes the identifier for which the journal looks",
			do:     func(e *Engine, u passUnderWay) { e.tellLongPass(context.Background(), u, time.Now(), "") },
		},
		"Overdue": {
			reason: "a probe names the parent",
			do: func(e *Engine, u passUnderWay) {
				_, _ = u.text(time.Now()), e.Overdue()
			},
		},
		"Dashboard": {
			reason: "the dashboard looks at all that is known of the parent",
			do: func(e *Engine, u passUnderWay) {
				_, _, _ = e.Survey(), e.Known(u.parent.Key()), e.journal.Passes(u.parent.UID())
				_, _ = e.Snapshot(u.parent.Key())
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			e, uid := settledEngine(t, 3, 0)
			e.journal = journal.New()
			settled := e.handler
			var others sync.WaitGroup
			e.handler = handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
				u, ok := e.passes.of(uid)
				require.True(t, ok, tc.reason)
				others.Go(func() { tc.do(e, u) })
				return settled.Sync(ctx, req)
			})
			for range raceTries {
				require.Equal(t, schedule.Outcome{}, e.sync(t.Context(), "", schedule.Due{UID: uid, Trigger: "resync"}))
			}
			others.Wait()
			require.Len(t, e.journal.Passes(uid), raceTries)
		})
	}
}

// raceTries is how many reconciliations each test of a race has: one alone shows a race by chance.
const raceTries = 20
