package conformance

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/testkit"
)

func TestC200_EachErrorIsTold(t *testing.T) {
	scenario(t, "C200", "an error that changes while the parent doesn't is a new Event, one that stays the same isn't")
	log := needsAudit(t)
	from := log.mark(t)
	var calls atomic.Int64
	kit := testkit.New(t, cluster, operator("error-events", configMapChild()), handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		return nil, fmt.Errorf("trouble %c", 'a'+min(calls.Add(1)-1, 3)/2)
	}))
	it := parent("one", nil)
	kit.Create(it)
	eventually(t, "both are told", func() bool {
		events := kit.Events(it)
		return anyContains(events, "Warning", "SyncFailed", "trouble a") && anyContains(events, "Warning", "SyncFailed", "trouble b")
	})
	tries := kit.Syncs(it)
	eventually(t, "it goes on", func() bool { return kit.Syncs(it) > tries+2 })
	require.Len(t, kit.Events(it), 2)
	require.Len(t, writesTo(t, log, from, "error-events", "events"), 2)
}

func TestC201_OfTheHandler(t *testing.T) {
	scenario(t, "C201", "a handler's Events are recorded, equal ones once with a count")
	log := needsAudit(t)
	from := log.mark(t)
	var calls atomic.Int64
	kit := testkit.New(t, cluster, operator("handler-events", configMapChild()), handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		resp, err := copier(ctx, req)
		if calls.Add(1) < 100 {
			resp.Resync = 10 * time.Millisecond
		}
		resp.Events = []handler.Event{
			{Reason: "Looked", Message: "at it"},
			{Type: handler.EventWarning, Reason: "Doubt", Message: fmt.Sprintf("about %d", min(calls.Load(), 3))},
		}
		return resp, err
	}))
	it := parent("one", withData("k", "v"))
	kit.Create(it)
	eventually(t, "a hundred calls", func() bool { return calls.Load() >= 100 })
	settle(t, kit)
	for _, want := range [][]string{{"Normal", "Looked", "at it"}, {"Warning", "Doubt", "about 1"}, {"Warning", "Doubt", "about 2"}, {"Warning", "Doubt", "about 3"}} {
		eventually(t, fmt.Sprint(want), func() bool { return anyContains(kit.Events(it), want...) })
	}
	require.Less(t, len(writesTo(t, log, from, "handler-events", "events")), 40, "not one request for each")
}
