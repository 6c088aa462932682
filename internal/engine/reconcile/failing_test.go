package reconcile_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// The parent "one" has a child, and a status for generation 1. From generation
// 2 on the handler answers with a response and an error. The watch of parents is
// held from then on: it may tell of a status before the write of the status is
// answered, which counts as a change and hastens the next call.
func TestFailing_Sync(t *testing.T) {
	before := map[string]any{"value": "v1", "children": int64(1), "observedGeneration": int64(1)}
	told := map[string]any{"state": "broken", "observedGeneration": int64(2)}
	state := map[string]any{"state": "broken"}
	const (
		failed = "Warning SyncFailed: handler: Sync: broken"
		own    = "Warning Broken: it is broken"
	)
	statusWrite := []string{"update status Parent ns/one"}
	for name, tc := range map[string]struct {
		reason   string
		response *handler.SyncResponse
		err      error
		refusal  refusal // of the writes of the status
		status   any     // a minute later
		pace     pace
		writes   []string // all since generation 2
		events   []string // all since generation 2
	}{
		"NoResponse": {
			reason: "an error alone leaves the status as it is", err: errBroken,
			status: before, events: []string{failed},
		},
		"EmptyResponse": {
			reason: "a response that says nothing is like none", response: &handler.SyncResponse{}, err: errBroken,
			status: before, events: []string{failed},
		},
		"Status": {
			reason:   "the status is written once, for the generation that the handler was shown",
			response: &handler.SyncResponse{Status: state}, err: errBroken,
			status: told, writes: statusWrite, events: []string{failed},
		},
		"StatusAsBefore": {
			reason:   "the generation is news though the rest isn't",
			response: &handler.SyncResponse{Status: map[string]any{"value": "v1", "children": 1}}, err: errBroken,
			status: map[string]any{"value": "v1", "children": int64(1), "observedGeneration": int64(2)}, writes: statusWrite, events: []string{failed},
		},
		"StatusWithAnotherGeneration": {
			reason:   "the engine knows the generation better",
			response: &handler.SyncResponse{Status: map[string]any{"state": "broken", "observedGeneration": 7}}, err: errBroken,
			status: told, writes: statusWrite, events: []string{failed},
		},
		"Children": {
			reason:   "what the response says of children counts for nothing",
			response: &handler.SyncResponse{Children: []any{rig.Copied("one", "v2"), rig.Copied("two", "v2"), "no child"}}, err: errBroken,
			status: before, events: []string{failed},
		},
		"Events": {
			reason:   "the handler's Event doesn't replace the engine's own",
			response: &handler.SyncResponse{Events: []handler.Event{{Type: handler.EventWarning, Reason: "Broken", Message: "it is broken"}}}, err: errBroken,
			status: before, events: []string{own, failed},
		},
		"Resync": {
			reason:   "the delay takes the place of the backoff, which would be half a minute at the end",
			response: &handler.SyncResponse{Status: state, Resync: time.Second}, err: errBroken,
			status: told, pace: byDelay, writes: statusWrite, events: []string{failed},
		},
		"NegativeResync": {
			reason:   "no delay, and no reason to hide the error behind another one",
			response: &handler.SyncResponse{Resync: -time.Second}, err: errBroken,
			status: before, events: []string{failed},
		},
		"Permanent": {
			reason:   "a try in vain is spared, the status isn't",
			response: &handler.SyncResponse{Status: state}, err: handler.Permanent(errBroken),
			status: told, pace: never, writes: statusWrite, events: []string{failed},
		},
		"PermanentInside": {
			reason: "an error that wraps a permanent one is permanent",
			err:    fmt.Errorf("first step: %w", handler.Permanent(errBroken)),
			status: before, pace: never, events: []string{"Warning SyncFailed: handler: Sync: first step: broken"},
		},
		"PermanentWithResync": {
			reason:   "who names a delay wants another try",
			response: &handler.SyncResponse{Status: state, Resync: time.Second}, err: handler.Permanent(errBroken),
			status: told, pace: byDelay, writes: statusWrite, events: []string{failed},
		},
		"StatusConflict": {
			reason:   "the next pass writes the status",
			response: &handler.SyncResponse{Status: state}, err: errBroken, refusal: refusal{times: 1, err: conflict()},
			status: told, writes: append(statusWrite, statusWrite...), events: []string{failed},
		},
		"PermanentStatusConflict": {
			reason:   "permanent means the handler's error, not that the status is never written",
			response: &handler.SyncResponse{Status: state}, err: handler.Permanent(errBroken), refusal: refusal{times: 1, err: conflict()},
			status: told, pace: byWatchOnce, writes: append(statusWrite, statusWrite...), events: []string{failed},
		},
		"PermanentStatusFailure": {
			reason:   "the write is tried again by the backoff",
			response: &handler.SyncResponse{Status: state}, err: handler.Permanent(errBroken), refusal: refusal{times: -1, err: invalid()},
			status: before, events: []string{failed + "\nParent ns/one: status: invalid"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				var calls callLog
				server := rig.Server()
				r := rig.Start(t, server, rig.Config(), handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
					if req.Parent.Generation() == 1 {
						return rig.Copier(ctx, req)
					}
					server.Hold(sample.ParentType())
					calls.note()
					return tc.response, tc.err
				}))
				r.Create("one", "v1")
				rig.Elapse(time.Second)
				require.Equal(t, before, statusOf(r))
				child, writes, events := r.Get(k8s.ConfigMap, "one"), len(r.Server.Writes()), len(recorded(r))
				passes := value(r, "roperator_syncs_total", "result=success")

				tc.refusal.install(server)
				r.SetSpec("one", "v2")
				rig.Elapse(failingFor)
				require.Equal(t, tc.status, statusOf(r), tc.reason)
				require.Equal(t, child, r.Get(k8s.ConfigMap, "one"), "the child stays as it is: %s", tc.reason)
				require.Len(t, r.Server.List(k8s.ConfigMap), 1, tc.reason)
				if tc.refusal.times >= 0 {
					require.ElementsMatch(t, tc.writes, r.Server.Writes()[writes:], tc.reason)
				}
				requirePace(t, tc.pace, calls.times(0), tc.reason)
				require.ElementsMatch(t, tc.events, recorded(r)[events:], tc.reason)
				require.Equal(t, passes, value(r, "roperator_syncs_total", "result=success"), "none of the calls is a success: %s", tc.reason)
				require.Equal(t, calls.len(), value(r, "roperator_syncs_total", "result=error"), tc.reason)
				require.Equal(t, calls.len(), value(r, "roperator_handler_duration_seconds", "method=sync,result=error"), tc.reason)
				require.Len(t, r.Errors("one"), calls.len(), tc.reason)
				require.ErrorIs(t, r.Errors("one")[0], errBroken, tc.reason)

				before := calls.len()
				server.Release()
				rig.Elapse(0)
				require.Equal(t, before, calls.len(), "the watch tells of nothing new: %s", tc.reason)
				r.SetSpec("one", "v3")
				rig.Elapse(time.Second)
				require.Greater(t, calls.len(), before, "a change leads to another call: %s", tc.reason)
				r.Stop()
			})
		})
	}
}

// The first success ends what a failure has led to: the status is that of the
// success, and the backoff of the next failure begins anew.
func TestFailing_SyncRecovers(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		var broken atomic.Bool
		broken.Store(true)
		var calls callLog
		r := rig.Start(t, rig.Server(), rig.Config(), handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			if broken.Load() {
				calls.note()
				return &handler.SyncResponse{Status: map[string]any{"state": "broken"}}, errBroken
			}
			return rig.Copier(ctx, req)
		}))
		r.Create("one", "v1")
		rig.Elapse(failingFor)
		require.Equal(t, map[string]any{"state": "broken", "observedGeneration": int64(1)}, statusOf(r), "a parent that never worked has a status too")
		require.Empty(t, r.Server.List(k8s.ConfigMap))
		requirePace(t, byBackoff, calls.times(0), "every call has failed")

		failed := calls.len()
		broken.Store(false)
		rig.Elapse(2 * failingFor) // longer than the last backoff
		require.Equal(t, map[string]any{"value": "v1", "children": int64(1), "observedGeneration": int64(1)}, statusOf(r))
		require.Len(t, r.Server.List(k8s.ConfigMap), 1)

		broken.Store(true)
		r.SetSpec("one", "v2")
		rig.Elapse(failingFor)
		require.Equal(t, map[string]any{"state": "broken", "observedGeneration": int64(2)}, statusOf(r))
		requirePace(t, byBackoff, calls.times(failed), "from 100 ms again")
		r.Stop()
	})
}

// A status that differs each time is written each time, which neither hastens
// the next call nor counts as a conflict loop.
func TestFailing_SyncWithAnotherStatusEachTime(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		var calls callLog
		server := rig.Server()
		r := rig.Start(t, server, rig.Config(), handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			server.Hold(sample.ParentType()) // see TestFailing_Sync
			return &handler.SyncResponse{Status: map[string]any{"tries": calls.note()}}, errBroken
		}))
		r.Create("one", "v1")
		rig.Elapse(failingFor)
		requirePace(t, byBackoff, calls.times(0), "own writes are no change")
		require.Len(t, r.Server.Writes(), calls.len())
		require.Equal(t, map[string]any{"tries": int64(calls.len()), "observedGeneration": int64(1)}, statusOf(r))
		require.Empty(t, r.Manager.Engine().Loops())
		r.Stop()
	})
}

// An error may ask for the children to be deleted. The pass has failed all the
// same.
func TestFailing_SyncDeletesChildren(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		err      error
		response *handler.SyncResponse
		status   any
		retried  bool // for as long as it fails
	}{
		"Retried": {
			"by the backoff", deletingError{errBroken}, &handler.SyncResponse{Status: map[string]any{"state": "broken"}},
			map[string]any{"state": "broken", "observedGeneration": int64(2)}, true,
		},
		"NoStatus": {
			"the status stays", deletingError{errBroken}, &handler.SyncResponse{},
			map[string]any{"value": "v1", "children": int64(1), "observedGeneration": int64(1)}, true,
		},
		"Children": {
			"the response's own children count for nothing", deletingError{errBroken}, &handler.SyncResponse{Children: []any{rig.Copied("one", "v1")}},
			map[string]any{"value": "v1", "children": int64(1), "observedGeneration": int64(1)}, true,
		},
		"Permanent": {
			"it ends when the children are gone and the status is written", handler.Permanent(deletingError{errBroken}),
			&handler.SyncResponse{Status: map[string]any{"state": "broken"}},
			map[string]any{"state": "broken", "observedGeneration": int64(2)}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				var calls callLog
				r := rig.Start(t, rig.Server(), rig.Config(), handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
					if req.Parent.Generation() == 1 {
						return rig.Copier(ctx, req)
					}
					calls.note()
					return tc.response, tc.err
				}))
				r.Create("one", "v1")
				rig.Elapse(time.Second)
				require.Len(t, r.Server.List(k8s.ConfigMap), 1)
				passes := value(r, "roperator_syncs_total", "result=success")

				r.SetSpec("one", "v2")
				rig.Elapse(failingFor)
				require.Empty(t, r.Server.List(k8s.ConfigMap), tc.reason)
				require.Equal(t, tc.status, statusOf(r), tc.reason)
				require.Contains(t, recorded(r), "Warning SyncFailed: handler: Sync: broken", tc.reason)
				require.Equal(t, passes, value(r, "roperator_syncs_total", "result=success"), tc.reason)
				require.Equal(t, calls.len(), value(r, "roperator_syncs_total", "result=error"), tc.reason)
				if tc.retried {
					require.Greater(t, calls.len(), 8, tc.reason)
				} else {
					require.LessOrEqual(t, calls.len(), 4, tc.reason)
				}
				writes := r.Server.Writes()
				rig.Elapse(time.Hour)
				require.Equal(t, writes, r.Server.Writes(), "nothing is left to do: %s", tc.reason)
				r.Stop()
			})
		})
	}
}
