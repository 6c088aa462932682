package reconcile_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
)

// A handler that says 30 and means seconds isn't called without end, and its author is told.
func TestShortDelay(t *testing.T) {
	for name, tc := range map[string]struct {
		reason         string
		sync, finalize time.Duration
		err            error
		atMost         int64 // calls in a second
		told           int
	}{
		"resync":           {"a millisecond is the least", 30, time.Hour, nil, 1001, 1},
		"resync, failing":  {"also beside an error", 30, time.Hour, errors.New("no"), 1001, 1},
		"retry":            {"also of Finalize", 0, 30, nil, 1001, 1},
		"retry, failing":   {"also of Finalize, beside an error", 0, 30, errors.New("no"), 1001, 1},
		"a millisecond":    {"it is meant", time.Millisecond, time.Hour, nil, 1001, 0},
		"long enough":      {"it is as the handler says", 10 * time.Millisecond, time.Hour, nil, 101, 0},
		"as each field is": {"it is told once", 30, 30, nil, 2002, 1},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				var calls atomic.Int64
				enough := func() bool { return calls.Add(1) > 5000 } // ends what would have no end
				r := rig.Start(t, server, rig.Config(), handler.Funcs{
					SyncFunc: func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
						if enough() {
							return &handler.SyncResponse{}, nil
						}
						return &handler.SyncResponse{Resync: tc.sync}, tc.err
					},
					FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
						if enough() {
							return &handler.FinalizeResponse{Finalized: true}, nil
						}
						return &handler.FinalizeResponse{Retry: tc.finalize}, tc.err
					},
				})
				r.Create("a", "1")
				rig.Elapse(time.Second)
				if tc.finalize < time.Hour {
					require.NoError(t, server.Delete(sample.ParentType(), rig.Key("a")))
					rig.Elapse(time.Second)
				}
				n := calls.Load()
				require.LessOrEqual(t, n, tc.atMost+5, tc.reason)
				require.Greater(t, n, int64(5), "it is called often all the same")
				r.Stop()
				require.Equal(t, tc.told, strings.Count(r.Logs.String(), "is in nanoseconds"), tc.reason)
			})
		})
	}
}
