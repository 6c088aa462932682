package handler

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/roperator/roperator/internal/dryrun"
	"github.com/roperator/roperator/internal/encode"
	"github.com/roperator/roperator/resource/k8s"
)

// A custom type embeds a SyncFunc for its Sync, and finalizes.
type custom struct{ SyncFunc }

func (custom) Finalize(context.Context, *SyncRequest) (*FinalizeResponse, error) { return nil, nil }

// A wrapper passes the question on.
type wrapper struct{ Handler }

func (w wrapper) Finalizes() bool { return Finalizes(w.Handler) }

// A whole implements only Handler.
type whole struct{}

func (whole) Sync(context.Context, *SyncRequest) (*SyncResponse, error) { return nil, nil }
func (whole) Finalize(context.Context, *SyncRequest) (*FinalizeResponse, error) {
	return nil, nil
}

func typedFinalize(context.Context, corev1.Pod, *SyncRequest) (*FinalizeResponse, error) {
	return nil, nil
}

// typedFuncs returns all functions of a Typed handler, with this FinalizeFunc.
func typedFuncs(finalize func(context.Context, corev1.Pod, *SyncRequest) (*FinalizeResponse, error)) TypedFuncs[corev1.Pod] {
	return TypedFuncs[corev1.Pod]{
		SyncFunc:     func(context.Context, corev1.Pod, *SyncRequest) (*SyncResponse, error) { return nil, nil },
		FinalizeFunc: finalize,
		ErrorFunc:    func(context.Context, *SyncRequest, error) (any, time.Duration) { return nil, 0 },
		RelateFunc:   func(corev1.Pod) ([]Ref, error) { return nil, nil },
	}
}

func TestFinalizes(t *testing.T) {
	finalize := func(context.Context, *SyncRequest) (*FinalizeResponse, error) { return nil, nil }
	cases := map[string]struct {
		reason string
		h      Handler
		want   bool
	}{
		"SyncFunc":       {"has nothing to finalize", SyncFunc(nil), false},
		"Typed":          {"has nothing unless FinalizeFunc is set", Typed[corev1.Pod](nil), false},
		"TypedSyncFunc":  {"has nothing for its SyncFunc, RelateFunc and ErrorFunc", Typed(nil, typedFuncs(nil)), false},
		"TypedFinalize":  {"has something", Typed(nil, typedFuncs(typedFinalize)), true},
		"Funcs":          {"has nothing unless FinalizeFunc is set", Funcs{}, false},
		"FinalizeFunc":   {"has something", Funcs{FinalizeFunc: finalize}, true},
		"FuncsPointer":   {"by pointer as well", &Funcs{FinalizeFunc: finalize}, true},
		"Own":            {"any other type has", whole{}, true},
		"EmbedsSyncFunc": {"has its own Finalize, whatever else it has from SyncFunc", custom{}, true},
		"Wrapper":        {"has what it wraps: nothing", wrapper{SyncFunc(nil)}, false},
		"WrapperOfOwn":   {"has what it wraps: something", wrapper{whole{}}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, Finalizes(tc.h), tc.reason)
		})
	}
}

func TestDefaults(t *testing.T) {
	for _, h := range []Handler{SyncFunc(nil), Funcs{}} {
		response, err := h.Sync(t.Context(), &SyncRequest{})
		require.NoError(t, err)
		require.Equal(t, &SyncResponse{KeepChildren: true}, response)
		finalized, err := h.Finalize(t.Context(), &SyncRequest{})
		require.NoError(t, err)
		require.Equal(t, &FinalizeResponse{Finalized: true}, finalized)
	}
}

func TestFuncs(t *testing.T) {
	failure := errors.New("no luck")
	permanent := Permanent(failure)
	req := &SyncRequest{Parent: observed(t, k8s.Pod, "x", "a")}
	returns := func(response *SyncResponse, err error) func(context.Context, *SyncRequest) (*SyncResponse, error) {
		return func(_ context.Context, got *SyncRequest) (*SyncResponse, error) {
			require.Same(t, req, got)
			return response, err
		}
	}
	explains := func(status any, resync time.Duration) func(context.Context, *SyncRequest, error) (any, time.Duration) {
		return func(_ context.Context, got *SyncRequest, err error) (any, time.Duration) {
			require.Same(t, req, got)
			require.ErrorIs(t, err, failure)
			return status, resync
		}
	}
	fine := &SyncResponse{Status: "fine", Children: []any{"child"}, Resync: time.Hour}
	cases := map[string]struct {
		reason string
		funcs  Funcs
		want   *SyncResponse
		err    error
	}{
		"Fine": {
			reason: "ErrorFunc is for errors",
			funcs:  Funcs{SyncFunc: returns(fine, nil), ErrorFunc: explains("sad", time.Minute)},
			want:   fine,
		},
		"Error": {
			reason: "without ErrorFunc the engine gets the error alone",
			funcs:  Funcs{SyncFunc: returns(nil, failure)},
			err:    failure,
		},
		"ErrorAndResponse": {
			reason: "SyncFunc may say itself what goes with its error",
			funcs:  Funcs{SyncFunc: returns(fine, failure)},
			want:   fine,
			err:    failure,
		},
		"Explained": {
			reason: "the error stays one: the pass fails, and the engine's backoff decides when it is retried",
			funcs:  Funcs{SyncFunc: returns(nil, failure), ErrorFunc: explains("sad", 0)},
			want:   &SyncResponse{Status: "sad"},
			err:    failure,
		},
		"Delayed": {
			reason: "ErrorFunc may know better when to try again",
			funcs:  Funcs{SyncFunc: returns(nil, failure), ErrorFunc: explains("sad", time.Minute)},
			want:   &SyncResponse{Status: "sad", Resync: time.Minute},
			err:    failure,
		},
		"NoStatus": {
			reason: "nil leaves the status alone, and isn't nothing: the delay counts",
			funcs:  Funcs{SyncFunc: returns(nil, failure), ErrorFunc: explains(nil, time.Minute)},
			want:   &SyncResponse{Resync: time.Minute},
			err:    failure,
		},
		"Permanent": {
			reason: "a permanent error is explained too, and stays permanent",
			funcs:  Funcs{SyncFunc: returns(nil, permanent), ErrorFunc: explains("sad", 0)},
			want:   &SyncResponse{Status: "sad"},
			err:    permanent,
		},
		"ResponseBesideTheError": {
			reason: "children and events of a pass that failed would be half of an answer",
			funcs:  Funcs{SyncFunc: returns(fine, failure), ErrorFunc: explains("sad", 0)},
			want:   &SyncResponse{Status: "sad"},
			err:    failure,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := tc.funcs.Sync(t.Context(), req)
			require.Equal(t, tc.err, err, tc.reason)
			require.Equal(t, tc.want, got, tc.reason)
		})
	}

	done := &FinalizeResponse{Retry: time.Second}
	got, err := Funcs{FinalizeFunc: func(_ context.Context, got *SyncRequest) (*FinalizeResponse, error) {
		require.Same(t, req, got)
		return done, failure
	}}.Finalize(t.Context(), req)
	require.Same(t, done, got)
	require.ErrorIs(t, err, failure)
}

func TestErrorFuncIsNotForPanics(t *testing.T) {
	h := Funcs{
		SyncFunc: func(context.Context, *SyncRequest) (*SyncResponse, error) { panic("boom") },
		ErrorFunc: func(context.Context, *SyncRequest, error) (any, time.Duration) {
			t.Error("called for a panic")
			return nil, 0
		},
	}
	require.PanicsWithValue(t, "boom", func() { _, _ = h.Sync(t.Context(), &SyncRequest{}) }, "the engine's log has its stack")
}

func TestTyped(t *testing.T) {
	req := &SyncRequest{Parent: observed(t, k8s.Pod, "x", "a"), Children: NewChildren(observed(t, k8s.Pod, "x", "b"))}
	want := &SyncResponse{Status: "fine"}
	h := Typed(func(_ context.Context, parent *corev1.Pod, children Children) (*SyncResponse, error) {
		require.Equal(t, "a", parent.Name)
		require.Equal(t, 1, children.Len())
		return want, nil
	})
	got, err := h.Sync(t.Context(), req)
	require.NoError(t, err)
	require.Same(t, want, got)

	req.Related = NewObjects(observed(t, k8s.Secret, "x", "s"))
	h = Typed(nil, TypedFuncs[*corev1.Pod]{SyncFunc: func(_ context.Context, parent *corev1.Pod, got *SyncRequest) (*SyncResponse, error) {
		require.Equal(t, "a", parent.Name)
		require.Same(t, req, got)
		require.Equal(t, 1, got.Related.Len())
		return want, nil
	}})
	got, err = h.Sync(t.Context(), req)
	require.NoError(t, err)
	require.Same(t, want, got)
	got, err = Typed[*corev1.Pod](nil).Sync(t.Context(), req)
	require.NoError(t, err)
	require.True(t, got.KeepChildren, "as a nil SyncFunc does")

	type wrong struct {
		Spec string `json:"spec"`
	}
	h = Typed(func(context.Context, wrong, Children) (*SyncResponse, error) {
		t.Fatal("called with a parent that can't be decoded")
		return nil, nil
	})
	_, err = h.Sync(t.Context(), req)
	require.ErrorContains(t, err, "Pod x/a: decode into")
	var permanent interface{ Permanent() bool }
	require.ErrorAs(t, err, &permanent)

	h = Typed(nil, TypedFuncs[wrong]{ErrorFunc: func(_ context.Context, got *SyncRequest, err error) (any, time.Duration) {
		require.Same(t, req, got)
		return err.Error(), time.Hour
	}, SyncFunc: func(context.Context, wrong, *SyncRequest) (*SyncResponse, error) { return want, nil }})
	got, failed := h.Sync(t.Context(), req)
	require.ErrorAs(t, failed, &permanent)
	require.Equal(t, &SyncResponse{Status: err.Error(), Resync: time.Hour}, got, "what can't be decoded has a status")
}

func TestPermanent(t *testing.T) {
	failure := errors.New("no luck")
	isPermanent := func(err error) bool {
		var permanent interface{ Permanent() bool }
		return errors.As(err, &permanent) && permanent.Permanent()
	}
	err := Permanent(failure)
	require.ErrorIs(t, err, failure)
	require.EqualError(t, err, "no luck")
	require.True(t, isPermanent(err))
	require.True(t, isPermanent(fmt.Errorf("sync: %w", err)))
	require.True(t, isPermanent(errors.Join(errors.New("a"), err)))
	require.False(t, isPermanent(failure))
	require.NoError(t, Permanent(nil))
	require.Equal(t, err, Permanent(err), "once is enough")
}

func TestKeep(t *testing.T) {
	pod := observed(t, k8s.Pod, "x", "a")
	require.Equal(t, encode.Kept{Resource: pod}, Keep(pod))
}

func TestLeave(t *testing.T) {
	pod := observed(t, k8s.Pod, "x", "a")
	require.Equal(t, pod, Leave(pod), "without paths")
	child, wishes := encode.Inner(Leave(Leave(Keep(pod), "a", "b"), "c"))
	require.Equal(t, Keep(pod), child)
	require.ElementsMatch(t, []string{"a", "b", "c"}, wishes.Left)
}

func TestAfterAndWhen(t *testing.T) {
	pod, claim := observed(t, k8s.Pod, "x", "a"), observed(t, k8s.PersistentVolumeClaim, "x", "b")
	require.Equal(t, pod, After(pod), "without needs")
	require.Equal(t, pod, When(pod, true))
	ref := Ref{Type: k8s.Secret, Name: "s"}
	child, wishes := encode.Inner(After(When(Leave(After(pod, claim), "a"), false), ref))
	require.Equal(t, pod, child)
	require.ElementsMatch(t, []any{claim, ref}, wishes.Needs)
	require.True(t, wishes.Closed)
	require.Equal(t, []string{"a"}, wishes.Left)
}

func TestIsPlan(t *testing.T) {
	ctx := t.Context()
	require.False(t, IsPlan(ctx), "a context of somebody else's")
	marked := dryrun.Mark(ctx)
	require.True(t, IsPlan(marked))
	inner, cancel := context.WithCancel(marked)
	defer cancel()
	require.True(t, IsPlan(inner), "one that a handler derives")
}
