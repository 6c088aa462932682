package recording

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
)

// A hostileError panics in each method, with a value that panics when it is printed.
type hostileError struct{}

func (hostileError) Error() string                { panic(hostileError{}) }
func (hostileError) Unwrap() error                { panic(hostileError{}) }
func (hostileError) MarshalJSON() ([]byte, error) { panic(hostileError{}) }

// A nilError needs its pointer.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

// TestTap_Hostile: to look at a parent changes nothing of what its handler returns.
func TestTap_Hostile(t *testing.T) {
	t.Parallel()
	var nothing *nilError
	for name, tc := range map[string]struct {
		reason string
		resp   *handler.SyncResponse
		err    error
		want   string // a part of the line; empty: nothing is kept
	}{
		"Nil":           {reason: "the line has the text that the engine tells", err: nothing, want: `"error":"returned a nil *recording.nilError as an error: return a plain nil instead"`},
		"Hostile":       {reason: "the same", err: hostileError{}, want: `"error":"returned a recording.hostileError whose method Error panics: `},
		"Status":        {reason: "the engine rejects it", resp: &handler.SyncResponse{Status: hostileError{}}},
		"StatusAndNil":  {reason: "the engine rejects it", resp: &handler.SyncResponse{Status: hostileError{}}, err: nothing},
		"Child":         {reason: "the engine rejects it", resp: &handler.SyncResponse{Children: []any{hostileError{}}}},
		"ValueOfAChild": {reason: "the engine rejects it", resp: &handler.SyncResponse{Children: []any{map[string]any{"kind": hostileError{}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			tap := NewTap(10, 1<<20)
			defer tap.Open(named("one"))()
			for _, h := range []handler.Handler{
				tap.Handler(answering(tc.resp, tc.err)),
				tap.Handler(handler.Funcs{FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) { return nil, tc.err }}),
			} {
				before := len(tap.Calls(named("one")))
				if handler.Finalizes(h) {
					_, err := h.Finalize(t.Context(), about(t, "one"))
					require.True(t, err == tc.err, tc.reason) //nolint:errorlint,testifylint // errors.Is calls its methods, and require prints it
					require.Len(t, tap.Calls(named("one")), before+1, "no response panics")
					continue
				}
				resp, err := h.Sync(t.Context(), about(t, "one"))
				require.True(t, err == tc.err && resp == tc.resp, tc.reason) //nolint:errorlint // errors.Is calls its methods
				lines := tap.Calls(named("one"))
				if tc.want == "" {
					require.Empty(t, lines, tc.reason)
					continue
				}
				require.Contains(t, string(lines[0]), tc.want, tc.reason)
			}
			call, err := Make(t.Context(), answering(tc.resp, tc.err), KindSync, about(t, "one"))
			require.NoError(t, err)
			_, err = Encode(call, Alike)
			require.Equal(t, tc.want == "", err != nil, tc.reason)
			if err != nil {
				require.EqualError(t, err, "sync: a value of the response panics when it is encoded")
			}
		})
	}
}
