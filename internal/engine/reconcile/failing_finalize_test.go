package reconcile_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// The parent "one" is being deleted, and Finalize answers with a response and an
// error. The watch of parents is held as in TestFailing_Sync.
func TestFailing_Finalize(t *testing.T) {
	before := map[string]any{"value": "v1", "children": int64(1), "observedGeneration": int64(1)}
	// A deletion raises metadata.generation.
	told := map[string]any{"state": "stuck", "observedGeneration": int64(2)}
	state := map[string]any{"state": "stuck"}
	const failed = "Warning FinalizeFailed: handler: Finalize: broken"
	statusWrite := []string{"update status Parent ns/one"}
	for name, tc := range map[string]struct {
		reason   string
		response *handler.FinalizeResponse
		err      error
		refusal  refusal
		status   any
		pace     pace
		writes   []string
		events   []string
	}{
		"NoResponse": {
			reason: "an error alone leaves the status as it is", err: errBroken,
			status: before, events: []string{failed},
		},
		"Status": {
			reason: "the status is written once", response: &handler.FinalizeResponse{Status: state}, err: errBroken,
			status: told, writes: statusWrite, events: []string{failed},
		},
		"Finalized": {
			reason: "an error is never a success", response: &handler.FinalizeResponse{Finalized: true, Status: state}, err: errBroken,
			status: told, writes: statusWrite, events: []string{failed},
		},
		"Retry": {
			reason: "the delay takes the place of the backoff", response: &handler.FinalizeResponse{Status: state, Retry: time.Second}, err: errBroken,
			status: told, pace: byDelay, writes: statusWrite, events: []string{failed},
		},
		"NegativeRetry": {
			reason: "no delay, and no reason to hide the error behind another one", response: &handler.FinalizeResponse{Retry: -time.Second}, err: errBroken,
			status: before, events: []string{failed},
		},
		"Permanent": {
			reason: "a try in vain is spared, the status isn't", response: &handler.FinalizeResponse{Status: state}, err: handler.Permanent(errBroken),
			status: told, pace: never, writes: statusWrite, events: []string{failed},
		},
		"PermanentWithoutResponse": {
			reason: "the parent waits for a change", err: handler.Permanent(errBroken),
			status: before, pace: never, events: []string{failed},
		},
		"StatusConflict": {
			reason: "the next pass writes the status", response: &handler.FinalizeResponse{Status: state}, err: errBroken, refusal: refusal{times: 1, err: conflict()},
			status: told, writes: append(statusWrite, statusWrite...), events: []string{failed},
		},
		"Events": {
			reason:   "the handler's Event doesn't replace the engine's own",
			response: &handler.FinalizeResponse{Events: []handler.Event{{Reason: "Waiting", Message: "for the bucket"}}}, err: errBroken,
			status: before, events: []string{"Normal Waiting: for the bucket", failed},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				var calls callLog
				var mended atomic.Bool
				server := rig.Server()
				r := rig.Start(t, server, rig.Config(), handler.Funcs{
					SyncFunc: rig.Copier,
					FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
						server.Hold(sample.ParentType())
						calls.note()
						if mended.Load() {
							return &handler.FinalizeResponse{Finalized: true}, nil
						}
						return tc.response, tc.err
					},
				})
				r.Create("one", "v1")
				rig.Elapse(time.Second)
				child, writes, events := r.Get(k8s.ConfigMap, "one"), len(r.Server.Writes()), len(recorded(r))

				tc.refusal.install(server)
				require.NoError(t, server.Delete(sample.ParentType(), rig.Key("one")))
				rig.Elapse(failingFor)
				require.Equal(t, []string{"roperator.com/op"}, r.Get(sample.ParentType(), "one").Finalizers(), tc.reason)
				require.Equal(t, tc.status, statusOf(r), tc.reason)
				require.Equal(t, child, r.Get(k8s.ConfigMap, "one"), "the child stays as it is: %s", tc.reason)
				require.ElementsMatch(t, tc.writes, r.Server.Writes()[writes:], tc.reason)
				requirePace(t, tc.pace, calls.times(0), tc.reason)
				require.ElementsMatch(t, tc.events, recorded(r)[events:], tc.reason)
				require.Equal(t, calls.len(), value(r, "roperator_syncs_total", "result=error"), tc.reason)
				require.Equal(t, calls.len(), value(r, "roperator_handler_duration_seconds", "method=finalize,result=error"), tc.reason)

				mended.Store(true)
				server.Release()
				r.Change(sample.ParentType(), "one", func(o map[string]any) { metaOf(o)["annotations"] = map[string]any{"mended": "yes"} })
				rig.Elapse(time.Second)
				require.Nil(t, r.Get(sample.ParentType(), "one"), "a change leads to another call, which lets go: %s", tc.reason)
				r.Stop()
			})
		})
	}
}
