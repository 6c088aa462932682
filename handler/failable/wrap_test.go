package failable

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
)

var (
	errTransient = errors.New("the cloud is asleep")
	errPermanent = handler.Permanent(errors.New("size: must be odd"))
)

// A script is a Handler that does as it is told, and reports what it was told.
type script struct {
	validate, sync, finalize error
	status                   func(Result[string]) any
	children                 []any
	told                     []Result[string]
	order                    []string
}

func (s *script) Validate(context.Context, *handler.SyncRequest) (string, error) {
	s.order = append(s.order, "validate")
	return "valid", s.validate
}

func (s *script) SyncChildren(_ context.Context, validated string, _ *handler.SyncRequest) ([]any, error) {
	s.order = append(s.order, "sync "+validated)
	return s.children, s.sync
}

func (s *script) DetermineStatus(_ context.Context, _ *handler.SyncRequest, result Result[string]) any {
	s.order = append(s.order, "status")
	s.told = append(s.told, result)
	if s.status != nil {
		return s.status(result)
	}
	return string(result.Outcome())
}

func (s *script) Finalize(context.Context, *handler.SyncRequest) error {
	s.order = append(s.order, "finalize")
	return s.finalize
}

func warning(reason Outcome, err error) []handler.Event {
	return []handler.Event{{Type: "Warning", Reason: string(reason), Message: err.Error()}}
}

func TestSync(t *testing.T) {
	children := []any{"child"}
	toldOf := func(o Outcome, validated string, err error) Result[string] {
		return Result[string]{outcome: o, validated: validated, err: err}
	}
	cases := map[string]struct {
		reason string
		h      script
		opts   Options
		order  []string
		told   Result[string]
		want   handler.SyncResponse
	}{
		"Success": {
			"children and status, and nothing more to do",
			script{children: children}, Options{Backoff: plain()},
			[]string{"validate", "sync valid", "status"},
			toldOf(SyncSucceeded, "valid", nil),
			handler.SyncResponse{Status: "SyncSucceeded", Children: children},
		},
		"RegularResync": {
			"a success is followed by the regular resync",
			script{children: children}, Options{Backoff: plain(), RegularResync: time.Hour},
			[]string{"validate", "sync valid", "status"},
			toldOf(SyncSucceeded, "valid", nil),
			handler.SyncResponse{Status: "SyncSucceeded", Children: children, Resync: time.Hour},
		},
		"NegativeResync": {
			"the engine refuses a negative resync, so there is none",
			script{children: children}, Options{Backoff: plain(), RegularResync: -1},
			[]string{"validate", "sync valid", "status"},
			toldOf(SyncSucceeded, "valid", nil),
			handler.SyncResponse{Status: "SyncSucceeded", Children: children},
		},
		"Invalid": {
			"no sync without validation, but a status; the backoff replaces the regular resync",
			script{validate: errTransient, children: children}, Options{Backoff: plain(), RegularResync: time.Hour},
			[]string{"validate", "status"},
			toldOf(ValidationFailed, "", errTransient),
			handler.SyncResponse{
				Status: "ValidationFailed", KeepChildren: true, Resync: 500 * time.Millisecond,
				Events: warning(ValidationFailed, errTransient),
			},
		},
		"SyncFailed": {
			"children returned with an error don't count",
			script{sync: errTransient, children: children}, Options{Backoff: plain()},
			[]string{"validate", "sync valid", "status"},
			toldOf(SyncFailed, "valid", errTransient),
			handler.SyncResponse{
				Status: "SyncFailed", KeepChildren: true, Resync: 500 * time.Millisecond,
				Events: warning(SyncFailed, errTransient),
			},
		},
		"Permanent": {
			"what can't get better isn't retried, not even regularly",
			script{validate: errPermanent}, Options{Backoff: plain(), RegularResync: time.Hour},
			[]string{"validate", "status"},
			toldOf(ValidationFailed, "", errPermanent),
			handler.SyncResponse{Status: "ValidationFailed", KeepChildren: true, Events: warning(ValidationFailed, errPermanent)},
		},
		"NeverRetry": {
			"nor is what nobody wants retried",
			script{sync: errTransient}, Options{Backoff: NeverRetry()},
			[]string{"validate", "sync valid", "status"},
			toldOf(SyncFailed, "valid", errTransient),
			handler.SyncResponse{Status: "SyncFailed", KeepChildren: true, Events: warning(SyncFailed, errTransient)},
		},
		"DeleteChildren": {
			"only on demand do the children go, all of them",
			script{sync: errTransient, children: children}, Options{Backoff: plain(), DeleteChildrenOnError: true},
			[]string{"validate", "sync valid", "status"},
			toldOf(SyncFailed, "valid", errTransient),
			handler.SyncResponse{Status: "SyncFailed", Resync: 500 * time.Millisecond, Events: warning(SyncFailed, errTransient)},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Wrap(&tc.h, tc.opts).Sync(t.Context(), version{}.request(t))
			require.NoError(t, err, tc.reason)
			require.Equal(t, &tc.want, got, tc.reason)
			require.Equal(t, tc.order, tc.h.order, tc.reason)
			require.Equal(t, []Result[string]{tc.told}, tc.h.told, tc.reason)
		})
	}
}

func TestFinalize(t *testing.T) {
	cases := map[string]struct {
		reason  string
		h       script
		backoff BackoffConfig
		want    handler.FinalizeResponse
	}{
		"Success": {
			"the parent is released",
			script{}, plain(),
			handler.FinalizeResponse{Finalized: true, Status: "FinalizeSucceeded"},
		},
		"Failure": {
			"the deletion waits for the retry",
			script{finalize: errTransient}, plain(),
			handler.FinalizeResponse{
				Status: "FinalizeFailed", Retry: 500 * time.Millisecond, Events: warning(FinalizeFailed, errTransient),
			},
		},
		"GivenUp": {
			"giving up releases nothing, and asks for no backoff of the engine either",
			script{finalize: errTransient}, NeverRetry(),
			handler.FinalizeResponse{Status: "FinalizeFailed", Retry: unprompted, Events: warning(FinalizeFailed, errTransient)},
		},
		"Permanent": {
			"a permanent error doesn't release the parent either",
			script{finalize: errPermanent}, plain(),
			handler.FinalizeResponse{Status: "FinalizeFailed", Retry: unprompted, Events: warning(FinalizeFailed, errPermanent)},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Wrap(&tc.h, Options{Backoff: tc.backoff}).Finalize(t.Context(), version{}.request(t))
			require.NoError(t, err, tc.reason)
			require.Equal(t, &tc.want, got, tc.reason)
			require.Equal(t, []string{"finalize", "status"}, tc.h.order, "a parent that is being deleted isn't validated")
		})
	}
}

func TestFinalizeWithStatusThatCannotBeEncoded(t *testing.T) {
	h := &script{status: func(Result[string]) any { return make(chan int) }}
	got, err := Wrap(h, Options{}).Finalize(t.Context(), version{}.request(t))
	require.NoError(t, err)
	require.True(t, got.Finalized, "nobody writes that status, so it can't hold up the deletion")
}

func TestStatusThatCannotBeEncoded(t *testing.T) {
	unfit := func(Result[string]) any { return map[string]any{"when": make(chan int)} }
	cases := map[string]struct {
		reason   string
		h        script
		finalize bool
		want     string
		is       error
	}{
		"Success": {
			"the error names the parent",
			script{status: unfit}, false,
			"Database shop/orders: status: json: unsupported type: chan int", nil,
		},
		"Failure": {
			"and the error that the status was to tell of isn't lost",
			script{status: unfit, sync: errTransient}, false,
			"Database shop/orders: status: json: unsupported type: chan int (it was to tell of: the cloud is asleep)", errTransient,
		},
		"Finalize": {
			"the same goes for Finalize",
			script{status: unfit, finalize: errTransient}, true,
			"Database shop/orders: status: json: unsupported type: chan int (it was to tell of: the cloud is asleep)", errTransient,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			h, req := Wrap(&tc.h, Options{}), version{}.request(t)
			var err error
			if tc.finalize {
				_, err = h.Finalize(t.Context(), req)
			} else {
				_, err = h.Sync(t.Context(), req)
			}
			require.EqualError(t, err, tc.want, tc.reason)
			if tc.is != nil {
				require.ErrorIs(t, err, tc.is, tc.reason)
			}
		})
	}
}

func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &script{}
		w := Wrap(h, Options{Backoff: BackoffConfig{RandomizationFactor: -1, GiveUpAfter: 3 * time.Second}})
		req := version{}.request(t)
		pass := func(err error) time.Duration {
			h.sync = err
			got, syncErr := w.Sync(t.Context(), req)
			require.NoError(t, syncErr)
			<-time.After(got.Resync)
			return got.Resync
		}
		for range 2 {
			require.Equal(t, 500*time.Millisecond, pass(errTransient))
			require.Equal(t, 750*time.Millisecond, pass(errTransient))
			require.Zero(t, pass(nil), "a success ends the row")
		}
		require.Equal(t, 500*time.Millisecond, pass(errTransient))
		require.Zero(t, pass(errPermanent))
		require.Equal(t, 500*time.Millisecond, pass(errTransient), "a permanent error ends a row of others")
		for range 3 {
			require.NotZero(t, pass(errTransient))
		}
		require.Zero(t, pass(errTransient), "given up")
		require.Zero(t, pass(errTransient), "for good")
	})
}

func TestFinalizeRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &script{finalize: errTransient}
		w := Wrap(h, Options{Backoff: BackoffConfig{RandomizationFactor: -1, GiveUpAfter: 2 * time.Second}})
		req := version{}.request(t)
		for range 3 {
			got, err := w.Finalize(t.Context(), req)
			require.NoError(t, err)
			require.False(t, got.Finalized)
			<-time.After(got.Retry)
		}
		for range 2 {
			got, err := w.Finalize(t.Context(), req)
			require.NoError(t, err)
			require.False(t, got.Finalized, "giving up never finalizes")
			require.Equal(t, unprompted, got.Retry)
		}
		h.finalize = nil
		got, err := w.Finalize(t.Context(), req)
		require.NoError(t, err)
		require.True(t, got.Finalized)
		require.Empty(t, w.(*wrapped[string]).backoff.mu.failing, "nothing is kept of a parent that goes")
	})
}
