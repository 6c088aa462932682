package alerts

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/handler/failable"
	"github.com/roperator/roperator/internal/testing/fakeapi"
)

const syncsFailing = "RoperatorSyncsFailing"

// soon is by when an alert on failing passes must fire: its own 15 minutes and
// what rates take to notice.
const soon = 20 * time.Minute

func TestFailingHandlersAreAlerted(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		h      handler.Handler
		begun  func(server *fakeapi.Server) error
		status string // of the parent, in the end
	}{
		"Error": {
			reason: "an error alone",
			h:      handler.SyncFunc(answers(nil, errCloud)),
		},
		"Both": {
			reason: "a status that goes with an error doesn't hide it",
			h:      handler.SyncFunc(answers(&handler.SyncResponse{Status: message(errCloud)}, errCloud)),
			status: "the cloud is asleep",
		},
		"ErrorFunc": {
			reason: "nor does ErrorFunc",
			h:      handler.Funcs{SyncFunc: answers(nil, errCloud), ErrorFunc: tells(0)},
			status: "the cloud is asleep",
		},
		"ErrorFuncWithDelay": {
			reason: "nor does a delay of its own, though it ends the engine's backoff",
			h:      handler.Funcs{SyncFunc: answers(nil, errCloud), ErrorFunc: tells(2 * time.Minute)},
			status: "the cloud is asleep",
		},
		"PermanentWithDelay": {
			reason: "what is retried all the same fails all the same",
			h:      handler.Funcs{SyncFunc: answers(nil, handler.Permanent(errCloud)), ErrorFunc: tells(2 * time.Minute)},
			status: "the cloud is asleep",
		},
		"FailableValidate": {
			reason: "a failable handler's status is one that goes with an error",
			h:      failable.Wrap(steps{validate: errCloud}, failable.Options{}),
			status: "the cloud is asleep",
		},
		"FailableSync": {
			reason: "at each of its steps",
			h:      failable.Wrap(steps{sync: errCloud}, failable.Options{RegularResync: time.Minute}),
			status: "the cloud is asleep",
		},
		"FailableBackoff": {
			reason: "with a backoff of its own too",
			h:      failable.Wrap(steps{sync: errCloud}, failable.Options{Backoff: failable.FixedInterval(time.Minute)}),
			status: "the cloud is asleep",
		},
		"FailableFinalize": {
			reason: "a parent that can't be let go is in trouble as well",
			h:      failable.Wrap(steps{finalize: errCloud}, failable.Options{}),
			begun:  deleteParent,
			status: "the cloud is asleep",
		},
	} {
		t.Run(name, func(t *testing.T) {
			scrapes, parent := observe(t, tc.h, tc.begun)
			fired := judge(t, scrapes)
			fired.only(t, syncsFailing)
			first, last := fired.span(t, syncsFailing)
			require.LessOrEqual(t, first, soon, tc.reason)
			require.Equal(t, watched, last, "%s: it fires as long as the trouble lasts", tc.reason)
			require.NotNil(t, parent, tc.reason)
			status, _ := parent.Field("status", "message")
			if tc.status == "" {
				require.Nil(t, status, tc.reason)
			} else {
				require.Equal(t, tc.status, status, tc.reason)
			}
		})
	}
}

func TestHangingHandlersAreAlerted(t *testing.T) {
	hangs := handler.SyncFunc(func(ctx context.Context, _ *handler.SyncRequest) (*handler.SyncResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	for name, tc := range map[string]struct {
		reason string
		begun  func(server *fakeapi.Server) error
		want   map[string]time.Duration // alert -> by when it must fire
	}{
		"One": {
			reason: "one worker less, and a parent that isn't served",
			want:   map[string]time.Duration{"RoperatorSyncStuck": 12 * time.Minute},
		},
		"Every": {
			reason: "nobody is served any more",
			begun:  createMore(15),
			want:   map[string]time.Duration{"RoperatorSyncStuck": 12 * time.Minute, "RoperatorWorkersStuck": 8 * time.Minute},
		},
	} {
		t.Run(name, func(t *testing.T) {
			scrapes, _ := observe(t, hangs, tc.begun)
			fired := judge(t, scrapes)
			fired.only(t, slices.Collect(maps.Keys(tc.want))...)
			for alert, by := range tc.want {
				first, last := fired.span(t, alert)
				require.LessOrEqual(t, first, by, tc.reason)
				require.Equal(t, watched, last, "%s: as long as it hangs", tc.reason)
			}
		})
	}
}

func TestAlertEndsWithTheTrouble(t *testing.T) {
	const trouble = time.Hour
	scrapes, parent := observe(t, recovering(trouble), nil)
	fired := judge(t, scrapes)
	fired.only(t, syncsFailing)
	first, last := fired.span(t, syncsFailing)
	require.LessOrEqual(t, first, soon)
	require.Greater(t, last, trouble-10*time.Minute, "the backoff has got long by then")
	require.Less(t, last, trouble+25*time.Minute, "the last retry, and what the rate remembers")
	status, _ := parent.Field("status", "message")
	require.Equal(t, "all is well", status)
}

func TestHealthyOperatorsAreNotAlerted(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		h      handler.Handler
		begun  func(server *fakeapi.Server) error
	}{
		"Settled": {
			reason: "it has nothing to do, and no pass at all",
			h:      handler.SyncFunc(answers(&handler.SyncResponse{Status: map[string]any{"message": "all is well"}}, nil)),
		},
		"Busy": {
			reason: "it looks again and again, and finds all as it should be",
			h:      failable.Wrap(steps{}, failable.Options{RegularResync: 10 * time.Second}),
		},
		"Sometimes": {
			reason: "an error now and then that the next pass puts right is what backoff is for",
			h:      sometimes(3),
		},
		"Permanent": {
			reason: "one pass has failed and nobody tries again: that is for the author of the parent, whom its status and its Event tell",
			h:      handler.Funcs{SyncFunc: answers(nil, handler.Permanent(errCloud)), ErrorFunc: tells(0)},
		},
		"Waits": {
			reason: "a Finalize that isn't done yet has no error",
			h: handler.Funcs{FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
				return &handler.FinalizeResponse{Retry: time.Minute}, nil
			}},
			begun: deleteParent,
		},
	} {
		t.Run(name, func(t *testing.T) {
			scrapes, _ := observe(t, tc.h, tc.begun)
			require.Empty(t, judge(t, scrapes), tc.reason)
		})
	}
}
