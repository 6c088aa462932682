package failable

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
)

// A quiet script has nothing to finalize.
type quiet struct {
	*script
	NothingToFinalize
}

func (quiet) Finalize(ctx context.Context, req *handler.SyncRequest) error {
	return NothingToFinalize{}.Finalize(ctx, req)
}

func TestFinalizes(t *testing.T) {
	none := func(context.Context, struct{}, *handler.SyncRequest) ([]any, error) { return nil, nil }
	silent := func(context.Context, *handler.SyncRequest, Result[struct{}]) any { return nil }
	cases := map[string]struct {
		reason string
		h      handler.Handler
		want   bool
	}{
		"Handler": {"has, as any handler", Wrap(&script{}, Options{}), true},
		"Nothing": {"has not, as it says", Wrap(quiet{script: &script{}}, Options{}), false},
		"Funcs":   {"has nothing", Wrap(Funcs(none, silent), Options{}), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, handler.Finalizes(tc.h), tc.reason)
			got, err := tc.h.Finalize(t.Context(), version{}.request(t))
			require.NoError(t, err)
			require.True(t, got.Finalized)
		})
	}
}

func TestFuncs(t *testing.T) {
	type database struct {
		Spec struct {
			Size int `json:"size"`
		} `json:"spec"`
	}
	req := version{}.request(t)
	h := Wrap(Funcs(
		func(_ context.Context, parent database, got *handler.SyncRequest) ([]any, error) {
			require.Same(t, req, got)
			return []any{parent.Spec.Size}, nil
		},
		func(_ context.Context, got *handler.SyncRequest, result Result[database]) any {
			require.Same(t, req, got)
			parent, ok := result.Validated()
			require.True(t, ok)
			return parent.Spec.Size
		},
	), Options{})
	got, err := h.Sync(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, &handler.SyncResponse{Status: 3, Children: []any{3}}, got)
}

func TestFuncsWithUnfitParent(t *testing.T) {
	type database struct {
		Spec string `json:"spec"`
	}
	h := Wrap(Funcs(
		func(context.Context, *database, *handler.SyncRequest) ([]any, error) {
			return nil, errors.New("called for a parent that isn't valid")
		},
		func(_ context.Context, _ *handler.SyncRequest, result Result[*database]) any { return result.Outcome() },
	), Options{})
	got, err := h.Sync(t.Context(), version{}.request(t))
	require.ErrorContains(t, err, "Database shop/orders: decode into")
	require.True(t, isPermanent(err), "decoding it again doesn't help")
	require.Equal(t, &handler.SyncResponse{Status: ValidationFailed}, got)
}

func TestResult(t *testing.T) {
	cases := map[string]struct {
		reason    string
		outcome   Outcome
		err       error
		validated bool
	}{
		"ValidationFailed":  {"there is nothing validated", ValidationFailed, errTransient, false},
		"SyncFailed":        {"it was valid all the same", SyncFailed, errTransient, true},
		"FinalizeFailed":    {"nobody validates a parent that goes", FinalizeFailed, errTransient, false},
		"SyncSucceeded":     {"all is well", SyncSucceeded, nil, true},
		"FinalizeSucceeded": {"nobody validates a parent that goes", FinalizeSucceeded, nil, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := Result[int]{outcome: tc.outcome, err: tc.err}
			if tc.validated {
				r.validated = 7
			}
			v, ok := r.Validated()
			require.Equal(t, tc.validated, ok, tc.reason)
			require.Equal(t, r.validated, v)
			require.Equal(t, tc.err == nil, r.OK())
			require.Equal(t, tc.err, r.Err())
			require.Equal(t, name, string(r.Outcome()))
		})
	}
}
