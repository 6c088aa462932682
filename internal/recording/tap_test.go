package recording

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/dryrun"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// TestTap_NobodyLooks: a call costs nothing, with a tap at another parent too.
func TestTap_NobodyLooks(t *testing.T) {
	tap := NewTap(10, 1<<20)
	h := tap.Handler(answering(&handler.SyncResponse{}, nil))
	req, ctx := about(t, "one"), t.Context()
	call := func() {
		if _, err := h.Sync(ctx, req); err != nil {
			t.Error(err)
		}
	}
	require.Zero(t, testing.AllocsPerRun(100, call))
	release := tap.Open(named("other"))
	require.Zero(t, testing.AllocsPerRun(100, call), "another parent is tapped")
	release()
	require.Zero(t, testing.AllocsPerRun(100, call), "it isn't any more")
	require.Empty(t, tap.Calls(named("one")))
	require.Empty(t, tap.mu.parents)
}

func TestTap_Keeps(t *testing.T) {
	t.Parallel()
	failure := errors.New("no luck")
	for name, tc := range map[string]struct {
		reason string
		h      handler.Handler
		call   func(h handler.Handler, req *handler.SyncRequest)
		want   []string // parts of the lines; none: nothing is kept
	}{
		"sync": {"with both", answering(&handler.SyncResponse{Status: map[string]any{"a": 1}}, nil), syncing, []string{`"call":"sync"`, `"text":"hello"`, `"response":{"status":{"a":1}}`}},
		"error beside a response": {
			"the status of a failed pass is written", answering(&handler.SyncResponse{Status: map[string]any{"a": 1}}, failure), syncing,
			[]string{`"response":{"status":{"a":1}},"error":"no luck"`},
		},
		"finalize": {"it is a call, too", handler.SyncFunc(nil), func(h handler.Handler, req *handler.SyncRequest) {
			_, _ = h.Finalize(context.Background(), req)
		}, []string{`"call":"finalize"`, `"finalized":true`}},
		"plan": {"it isn't what the operator did", answering(&handler.SyncResponse{}, nil), func(h handler.Handler, req *handler.SyncRequest) {
			_, _ = h.Sync(dryrun.Mark(context.Background()), req)
		}, nil},
		"plan of finalize": {"it isn't what the operator did", handler.SyncFunc(nil), func(h handler.Handler, req *handler.SyncRequest) {
			_, _ = h.Finalize(dryrun.Mark(context.Background()), req)
		}, nil},
		"no parent":  {"there is nothing to keep it under", answering(nil, failure), func(h handler.Handler, _ *handler.SyncRequest) { syncing(h, &handler.SyncRequest{}) }, nil},
		"no request": {"the same", answering(nil, failure), func(h handler.Handler, _ *handler.SyncRequest) { syncing(h, nil) }, nil},
		"no child":   {"the engine refuses it", answering(&handler.SyncResponse{Children: []any{nil}}, nil), syncing, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tap := NewTap(10, 1<<20)
			defer tap.Open(named("one"))()
			h, req := tap.Handler(tc.h), about(t, "one")
			syncing(h, about(t, "two")) // nobody looks at this one
			tc.call(h, req)
			lines := tap.Calls(named("one"))
			require.Empty(t, tap.Calls(named("two")))
			if tc.want == nil {
				require.Empty(t, lines, tc.reason)
				return
			}
			require.Len(t, lines, 1, tc.reason)
			for _, part := range tc.want {
				require.Contains(t, string(lines[0]), part, tc.reason)
			}
		})
	}
}

func syncing(h handler.Handler, req *handler.SyncRequest) { _, _ = h.Sync(context.Background(), req) }

// TestTap_Passes: a tapped handler is to the engine what it taps.
func TestTap_Passes(t *testing.T) {
	t.Parallel()
	tap := NewTap(10, 1<<20)
	defer tap.Open(named("one"))()
	resp, failure := &handler.SyncResponse{}, errors.New("no luck")
	plain := tap.Handler(answering(resp, failure))
	got, err := plain.Sync(t.Context(), about(t, "one"))
	require.Same(t, resp, got)
	require.Equal(t, failure, err)
	require.False(t, handler.Finalizes(plain))
	require.False(t, handler.Relates(plain))
	done := &handler.FinalizeResponse{Finalized: true}
	full := tap.Handler(handler.Funcs{
		FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) { return done, failure },
		RelateFunc: func(parent *resource.Resource) ([]handler.Ref, error) {
			return []handler.Ref{{Type: k8s.Secret, Name: parent.Name()}}, nil
		},
	})
	require.True(t, handler.Finalizes(full))
	require.True(t, handler.Relates(full))
	refs, err := handler.Relate(full, about(t, "one").Parent)
	require.NoError(t, err)
	require.Equal(t, []handler.Ref{{Type: k8s.Secret, Name: "one"}}, refs)
	for _, name := range []string{"one", "two"} {
		final, err := full.Finalize(t.Context(), about(t, name))
		require.Same(t, done, final)
		require.Equal(t, failure, err)
	}
}

func TestTap_Panic(t *testing.T) {
	t.Parallel()
	tap := NewTap(10, 1<<20)
	defer tap.Open(named("one"))()
	h := tap.Handler(handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) { panic("boom") }))
	require.PanicsWithValue(t, "boom", func() { syncing(h, about(t, "one")) })
	require.Empty(t, tap.Calls(named("one")))
	_, err := h.Finalize(t.Context(), about(t, "one"))
	require.NoError(t, err)
	require.Len(t, tap.Calls(named("one")), 1, "the Tap goes on")
}

// TestTap_Open: a parent is tapped as long as somebody looks at it.
func TestTap_Open(t *testing.T) {
	t.Parallel()
	tap := NewTap(10, 1<<20)
	h, one := tap.Handler(answering(&handler.SyncResponse{}, nil)), named("one")
	syncing(h, about(t, "one"))
	first := tap.Open(one)
	require.Empty(t, tap.Calls(one), "what was before isn't known")
	syncing(h, about(t, "one"))
	second := tap.Open(one)
	require.Len(t, tap.Calls(one), 1, "who comes later sees the same")
	first()
	first()
	syncing(h, about(t, "one"))
	require.Len(t, tap.Calls(one), 2, "the second still looks")
	second()
	require.Empty(t, tap.Calls(one))
	syncing(h, about(t, "one"))
	third := tap.Open(one)
	second()
	require.Empty(t, tap.Calls(one), "the lines are gone")
	syncing(h, about(t, "one"))
	require.Len(t, tap.Calls(one), 1, "a second release is of nobody else's tap")
	third()
	require.Zero(t, tap.open.Load())
}

// TestTap_ReleasedMeanwhile: a call may last longer than somebody looks.
func TestTap_ReleasedMeanwhile(t *testing.T) {
	t.Parallel()
	tap := NewTap(10, 1<<20)
	release := tap.Open(named("one"))
	h := tap.Handler(handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		release()
		return &handler.SyncResponse{}, nil
	}))
	syncing(h, about(t, "one"))
	require.Empty(t, tap.mu.parents, "nothing is kept that nobody would drop")
}

// TestTap_EncodesAtOnce: what the engine and the handler do later changes no line.
func TestTap_EncodesAtOnce(t *testing.T) {
	t.Parallel()
	tap := NewTap(10, 1<<20)
	defer tap.Open(named("one"))()
	child := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}, "data": map[string]any{"k": "before"}}
	resp := &handler.SyncResponse{Children: []any{child}, Events: []handler.Event{{Reason: "Before"}}}
	syncing(tap.Handler(answering(resp, nil)), about(t, "one"))
	child["data"].(map[string]any)["k"], resp.Events[0].Reason = "later", "Later"
	lines := tap.Calls(named("one"))
	require.Contains(t, string(lines[0]), `"k":"before"`)
	require.Contains(t, string(lines[0]), `"Reason":"Before"`)
}

// TestTap_TellsNoSecret: no value of a Secret is in a line, wherever it was, and equal
// values are equal over all lines, made by hand or not.
func TestTap_TellsNoSecret(t *testing.T) {
	t.Parallel()
	secret := map[string]any{"data": map[string]any{"k": inBase64()}, "stringData": map[string]any{"s": canary}, "annotations": map[string]any{lastApplied: canary}}
	req := &handler.SyncRequest{
		Parent:   observed(t, "Site", "one", map[string]any{"annotations": map[string]any{lastApplied: canary}}),
		Children: handler.NewChildren(observed(t, "Secret", "own", secret)),
		Related:  handler.NewObjects(observed(t, "Secret", "shared", secret)),
	}
	resp := &handler.SyncResponse{Children: []any{map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "own", "annotations": map[string]any{lastApplied: canary}},
		"data": map[string]any{"k": inBase64()}, "stringData": map[string]any{"s": canary},
	}}}
	tap := NewTap(10, 1<<20)
	defer tap.Open(named("one"))()
	h := tap.Handler(answering(resp, nil))
	syncing(h, req)
	syncing(h, req)
	lines := tap.Calls(named("one"))
	byHand, err := tap.Encode(KindSync, req, resp, nil)
	require.NoError(t, err)
	require.Equal(t, [][]byte{byHand, byHand}, lines)
	var out bytes.Buffer
	require.NoError(t, tap.Write(&out, append(lines, byHand)))
	noCanary(t, out.Bytes(), "nowhere")
	require.Equal(t, 9, bytes.Count(out.Bytes(), []byte(read(t, byHand).Response.Children[0]["data"].(map[string]any)["k"].(string))))
	other, err := NewTap(1, 1).Encode(KindSync, req, resp, nil)
	require.NoError(t, err)
	require.NotEqual(t, byHand, other, "recordings of two Taps can't be compared")
}

func TestTap_Write(t *testing.T) {
	t.Parallel()
	tap := NewTap(10, 1<<20)
	line := append(make([]byte, 0, 10), "{}"...)
	var out bytes.Buffer
	require.NoError(t, tap.Write(&out, [][]byte{line, line}))
	require.Equal(t, []string{`{"format":"roperator-recording/v1"}`, "{}", "{}", ""}, strings.Split(out.String(), "\n"))
	require.Equal(t, byte(0), line[:3][2], "nothing is written behind a line that others read")
	require.EqualError(t, tap.Write(&brokenWriter{}, [][]byte{line}), "recording: disk full")
	require.EqualError(t, tap.Write(&brokenWriter{}, [][]byte{bytes.Repeat([]byte("x"), 10_000)}), "recording: disk full")
}
