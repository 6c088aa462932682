package failable

import (
	"context"
	"errors"
	"math"
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
		err    error
	}{
		"Success": {
			"children and status, and nothing more to do",
			script{children: children}, Options{},
			[]string{"validate", "sync valid", "status"},
			toldOf(SyncSucceeded, "valid", nil),
			handler.SyncResponse{Status: "SyncSucceeded", Children: children}, nil,
		},
		"RegularResync": {
			"a success is followed by the regular resync",
			script{children: children}, Options{RegularResync: time.Hour},
			[]string{"validate", "sync valid", "status"},
			toldOf(SyncSucceeded, "valid", nil),
			handler.SyncResponse{Status: "SyncSucceeded", Children: children, Resync: time.Hour}, nil,
		},
		"NegativeResync": {
			"the engine refuses a negative resync, so there is none",
			script{children: children}, Options{RegularResync: -1},
			[]string{"validate", "sync valid", "status"},
			toldOf(SyncSucceeded, "valid", nil),
			handler.SyncResponse{Status: "SyncSucceeded", Children: children}, nil,
		},
		"Invalid": {
			"no sync without validation, but a status; the engine's backoff replaces the regular resync",
			script{validate: errTransient, children: children}, Options{RegularResync: time.Hour},
			[]string{"validate", "status"},
			toldOf(ValidationFailed, "", errTransient),
			handler.SyncResponse{Status: "ValidationFailed"}, errTransient,
		},
		"SyncFailed": {
			"children returned with an error don't count",
			script{sync: errTransient, children: children}, Options{},
			[]string{"validate", "sync valid", "status"},
			toldOf(SyncFailed, "valid", errTransient),
			handler.SyncResponse{Status: "SyncFailed"}, errTransient,
		},
		"NoStatus": {
			"a handler that has no status to tell leaves it alone",
			script{sync: errTransient, status: func(Result[string]) any { return nil }}, Options{},
			[]string{"validate", "sync valid", "status"},
			toldOf(SyncFailed, "valid", errTransient),
			handler.SyncResponse{}, errTransient,
		},
		"OwnBackoff": {
			"a backoff that was asked for names the delay",
			script{sync: errTransient, children: children}, Options{Backoff: plain(), RegularResync: time.Hour},
			[]string{"validate", "sync valid", "status"},
			toldOf(SyncFailed, "valid", errTransient),
			handler.SyncResponse{Status: "SyncFailed", Resync: 500 * time.Millisecond}, errTransient,
		},
		"Permanent": {
			"what can't get better isn't retried, not even regularly",
			script{validate: errPermanent}, Options{Backoff: plain(), RegularResync: time.Hour},
			[]string{"validate", "status"},
			toldOf(ValidationFailed, "", errPermanent),
			handler.SyncResponse{Status: "ValidationFailed"}, errPermanent,
		},
		"NeverRetry": {
			"nor is what nobody wants retried",
			script{sync: errTransient}, Options{Backoff: NeverRetry()},
			[]string{"validate", "sync valid", "status"},
			toldOf(SyncFailed, "valid", errTransient),
			handler.SyncResponse{Status: "SyncFailed"}, handler.Permanent(errTransient),
		},
		"DeleteChildren": {
			"only on demand do the children go, all of them, and the pass fails all the same",
			script{sync: errTransient, children: children}, Options{DeleteChildrenOnError: true},
			[]string{"validate", "sync valid", "status"},
			toldOf(SyncFailed, "valid", errTransient),
			handler.SyncResponse{Status: "SyncFailed"}, &deleteChildrenError{errTransient},
		},
		"DeleteChildrenOfTheInvalid": {
			"an error that was given up deletes them as any other",
			script{validate: errTransient}, Options{Backoff: NeverRetry(), DeleteChildrenOnError: true},
			[]string{"validate", "status"},
			toldOf(ValidationFailed, "", errTransient),
			handler.SyncResponse{Status: "ValidationFailed"}, &deleteChildrenError{handler.Permanent(errTransient)},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Wrap(&tc.h, tc.opts).Sync(t.Context(), version{}.request(t))
			require.Equal(t, tc.err, err, tc.reason)
			require.Equal(t, &tc.want, got, tc.reason)
			require.Equal(t, tc.order, tc.h.order, tc.reason)
			require.Equal(t, []Result[string]{tc.told}, tc.h.told, tc.reason)
		})
	}
}

// TestWhatTheEngineReads holds the errors to what the engine looks for.
func TestWhatTheEngineReads(t *testing.T) {
	cases := map[string]struct {
		reason    string
		sync      error
		opts      Options
		permanent bool
		deletes   bool
	}{
		"Transient":          {"it is retried", errTransient, Options{}, false, false},
		"Permanent":          {"as the handler says", errPermanent, Options{}, true, false},
		"GivenUp":            {"as the options say", errTransient, Options{Backoff: NeverRetry()}, true, false},
		"Deletes":            {"a transient error stays one", errTransient, Options{DeleteChildrenOnError: true}, false, true},
		"DeletesPermanently": {"a permanent error inside is found", errPermanent, Options{DeleteChildrenOnError: true}, true, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Wrap(&script{sync: tc.sync}, tc.opts).Sync(t.Context(), version{}.request(t))
			require.EqualError(t, err, tc.sync.Error(), "it says nothing of how it is wrapped")
			require.ErrorIs(t, err, tc.sync, tc.reason)
			require.Equal(t, tc.permanent, isPermanent(err), tc.reason)
			var deletes interface{ DeleteChildren() bool }
			require.Equal(t, tc.deletes, errors.As(err, &deletes) && deletes.DeleteChildren(), tc.reason)
		})
	}
}

func TestFinalize(t *testing.T) {
	cases := map[string]struct {
		reason string
		h      script
		opts   Options
		want   handler.FinalizeResponse
		err    error
	}{
		"Success": {
			"the parent is released",
			script{}, Options{},
			handler.FinalizeResponse{Finalized: true, Status: "FinalizeSucceeded"}, nil,
		},
		"Failure": {
			"the deletion waits for the engine's retry",
			script{finalize: errTransient}, Options{},
			handler.FinalizeResponse{Status: "FinalizeFailed"}, errTransient,
		},
		"OwnBackoff": {
			"or for the one that was asked for",
			script{finalize: errTransient}, Options{Backoff: plain()},
			handler.FinalizeResponse{Status: "FinalizeFailed", Retry: 500 * time.Millisecond}, errTransient,
		},
		"GivenUp": {
			"giving up releases nothing, and isn't retried either",
			script{finalize: errTransient}, Options{Backoff: NeverRetry()},
			handler.FinalizeResponse{Status: "FinalizeFailed"}, handler.Permanent(errTransient),
		},
		"Permanent": {
			"a permanent error doesn't release the parent either",
			script{finalize: errPermanent}, Options{Backoff: plain()},
			handler.FinalizeResponse{Status: "FinalizeFailed"}, errPermanent,
		},
		"ChildrenStay": {
			"the children of a parent that goes are the garbage collector's",
			script{finalize: errTransient}, Options{DeleteChildrenOnError: true},
			handler.FinalizeResponse{Status: "FinalizeFailed"}, errTransient,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Wrap(&tc.h, tc.opts).Finalize(t.Context(), version{}.request(t))
			require.Equal(t, tc.err, err, tc.reason)
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
	const alone = "Database shop/orders: status: json: unsupported type: chan int"
	const both = alone + " (it was to tell of: the cloud is asleep)"
	cases := map[string]struct {
		reason   string
		h        script
		opts     Options
		finalize bool
		want     string
		is       error
		delay    time.Duration
		deletes  bool
	}{
		"Success": {
			reason: "the error names the parent", h: script{status: unfit}, want: alone,
		},
		"Failure": {
			reason: "and the error that the status was to tell of isn't lost",
			h:      script{status: unfit, sync: errTransient}, want: both, is: errTransient,
		},
		"Finalize": {
			reason: "the same goes for Finalize",
			h:      script{status: unfit, finalize: errTransient}, finalize: true, want: both, is: errTransient,
		},
		"Backoff": {
			reason: "it is tried again as any other error",
			h:      script{status: unfit}, opts: Options{Backoff: plain()}, want: alone, delay: 500 * time.Millisecond,
		},
		"DeleteChildren": {
			reason: "the step has failed, whatever becomes of the status",
			h:      script{status: unfit, sync: errTransient}, opts: Options{DeleteChildrenOnError: true},
			want: both, is: errTransient, deletes: true,
		},
		"NothingToDelete": {
			reason: "no step has failed, so the children stay",
			h:      script{status: unfit}, opts: Options{DeleteChildrenOnError: true}, want: alone,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			h, req := Wrap(&tc.h, tc.opts), version{}.request(t)
			var err error
			if tc.finalize {
				var got *handler.FinalizeResponse
				got, err = h.Finalize(t.Context(), req)
				require.Equal(t, &handler.FinalizeResponse{Retry: tc.delay}, got, tc.reason)
			} else {
				var got *handler.SyncResponse
				got, err = h.Sync(t.Context(), req)
				require.Equal(t, &handler.SyncResponse{Resync: tc.delay}, got, tc.reason)
			}
			require.EqualError(t, err, tc.want, tc.reason)
			if tc.is != nil {
				require.ErrorIs(t, err, tc.is, tc.reason)
			}
			require.Equal(t, tc.deletes, errors.As(err, new(*deleteChildrenError)), tc.reason)
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
			require.ErrorIs(t, syncErr, err)
			require.Equal(t, err != nil && got.Resync == 0, isPermanent(syncErr), "only what is permanent has no delay")
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
			require.ErrorIs(t, err, errTransient)
			require.False(t, isPermanent(err))
			require.False(t, got.Finalized)
			<-time.After(got.Retry)
		}
		for range 2 {
			got, err := w.Finalize(t.Context(), req)
			require.ErrorIs(t, err, errTransient)
			require.True(t, isPermanent(err), "given up")
			require.False(t, got.Finalized, "which never finalizes")
			require.Zero(t, got.Retry)
		}
		h.finalize = nil
		got, err := w.Finalize(t.Context(), req)
		require.NoError(t, err)
		require.True(t, got.Finalized)
		require.Empty(t, w.(*wrapped[string]).backoff.mu.failing, "nothing is kept of a parent that goes")
	})
}

// TestOwnBackoff says which options take the backoff from the engine.
func TestOwnBackoff(t *testing.T) {
	cases := map[string]struct {
		reason string
		config BackoffConfig
		want   bool
	}{
		"Zero":     {"the engine's is the default, and nothing is kept here", BackoffConfig{}, false},
		"Initial":  {"any field counts", BackoffConfig{InitialInterval: time.Second}, true},
		"Max":      {"any field counts", BackoffConfig{MaxInterval: time.Minute}, true},
		"Factor":   {"any field counts", BackoffConfig{RandomizationFactor: -1}, true},
		"Multiply": {"any field counts", BackoffConfig{Multiplier: 2}, true},
		"NaN":      {"what isn't a number isn't nothing", BackoffConfig{Multiplier: math.NaN()}, true},
		"GiveUp":   {"the engine never gives up", BackoffConfig{GiveUpAfter: time.Hour}, true},
		"Fixed":    {"the engine's grows", FixedInterval(time.Second), true},
		"Never":    {"the engine never gives up", NeverRetry(), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := Wrap(&script{sync: errTransient}, Options{Backoff: tc.config}).(*wrapped[string])
			require.Equal(t, tc.want, w.backoff != nil, tc.reason)
			got, err := w.Sync(t.Context(), version{}.request(t))
			require.ErrorIs(t, err, errTransient)
			require.Equal(t, tc.want, got.Resync > 0 || isPermanent(err), tc.reason)
		})
	}
}
