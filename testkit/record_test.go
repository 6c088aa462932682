package testkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/encode"
	"github.com/roperator/roperator/internal/recording"
	"github.com/roperator/roperator/resource"
)

// siteRequest is what the engine would ask with.
func siteRequest(t *testing.T, text any, children ...any) *handler.SyncRequest {
	t.Helper()
	object := func(of any, kind string) *resource.Resource {
		child, err := encode.Map(of)
		require.NoError(t, err)
		meta := child["metadata"].(map[string]any)
		meta["uid"], meta["resourceVersion"], meta["namespace"] = kind, "1", "ns"
		res, err := resource.New(child)
		require.NoError(t, err)
		return res
	}
	spec := map[string]any{}
	if text != nil {
		spec["text"] = text
	}
	var observed []*resource.Resource
	for _, child := range children {
		observed = append(observed, object(child, "child"))
	}
	return &handler.SyncRequest{Parent: object(site(spec), "site"), Children: handler.NewChildren(observed...)}
}

// recordingOf is a recording of a handler that was called with each request.
func recordingOf(t *testing.T, h handler.Handler, requests ...*handler.SyncRequest) string {
	t.Helper()
	var out bytes.Buffer
	rec := Record(&out, h)
	for _, req := range requests {
		_, _ = rec.Sync(t.Context(), req) // an error is recorded
	}
	return out.String()
}

// copying keeps a copy of each Secret beside it, and a page.
func copying(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	resp, err := siteHandler(context.Background(), req)
	if err != nil {
		return nil, err
	}
	for child := range req.Children.All() {
		if password, ok := child.Field("data", "password"); ok {
			resp.Children = append(resp.Children, map[string]any{
				"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "copy"}, "data": map[string]any{"password": password},
			})
		} else {
			resp.Children = append(resp.Children, handler.Keep(child))
		}
	}
	resp.Resync = time.Minute
	resp.Events = []handler.Event{{Type: "Normal", Reason: "Seen", Message: "ok"}}
	return resp, nil
}

func TestRecordAndReplay(t *testing.T) {
	t.Parallel()
	held := secret("s3cret-value")
	held.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": `{"data":{"password":"s3cret-value"}}`}
	text := recordingOf(t, handler.SyncFunc(copying), siteRequest(t, "hello"), siteRequest(t, nil), siteRequest(t, "bye", held, page("kept", "x")))
	for _, private := range []string{"s3cret-value", "czNjcmV0LXZhbHVl", "hunter2", "aHVudGVyMg=="} {
		require.NotContains(t, text, private)
	}
	require.Len(t, strings.Split(strings.TrimSpace(text), "\n"), 4, "a header, and a line for each call")

	with := func(change func(resp *handler.SyncResponse)) handler.Handler {
		return handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			resp, err := copying(ctx, req)
			if err == nil {
				change(resp)
			}
			return resp, err
		})
	}
	for name, tc := range map[string]struct {
		reason string
		text   string
		h      handler.Handler
		want   []string // what the failure says; none: it succeeds
		not    []string
	}{
		"same":  {reason: "nothing has changed", h: handler.SyncFunc(copying)},
		"order": {reason: "the order of children doesn't count", h: with(func(r *handler.SyncResponse) { r.Children[0], r.Children[1] = r.Children[1], r.Children[0] })},
		"field": {
			reason: "line, parent, child and field, with both values",
			h:      with(func(r *handler.SyncResponse) { r.Children[0] = page("index", "other") }),
			want:   []string{"line 2: sync of Site ns/one:", `ConfigMap index data.page: recorded "hello", now "other"`, "line 4: ", `recorded "bye"`},
			not:    []string{"line 3"},
		},
		"children": {
			reason: "which came and which went",
			h:      with(func(r *handler.SyncResponse) { r.Children[0] = page("new", "x") }),
			want:   []string{"ConfigMap index: recorded, now not desired", "ConfigMap new: not recorded, now desired"},
		},
		"rest": {
			reason: "all of the response counts",
			h: with(func(r *handler.SyncResponse) {
				r.Status, r.Resync, r.Events, r.KeepChildren = map[string]any{"children": 7}, 0, nil, true
			}),
			want: []string{"status children: recorded 0, now 7", "status text: recorded \"hello\", now absent", `resync or retry: recorded "1m0s", now ""`, "events: recorded [", "keepChildren: recorded false, now true"},
		},
		"secret": {
			reason: "nobody can find out by a recording what a value was, so another one is none that it tells",
			h:      with(func(r *handler.SyncResponse) { r.Children[2] = secret("changed") }),
		},
		"secret's names": {
			reason: "which values there are is told",
			h: with(func(r *handler.SyncResponse) {
				r.Children[2] = map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "key"}, "stringData": map[string]any{"other": "changed"}}
			}),
			want: []string{"line 2", "Secret key data", "Secret key stringData"},
			not:  []string{"changed", "Y2hhbmdlZA=="},
		},
		"fails now": {
			reason: "the error",
			h: handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
				return nil, errors.New("no more")
			}),
			want: []string{`error: recorded none, now "no more"`},
			not:  []string{"line 3"},
		},
		"fails with a nil pointer now": {
			reason: "Error of such a pointer panics",
			h: handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
				var mistake *lateError
				return nil, mistake
			}),
			want: []string{`error: recorded none, now "returned a nil *testkit.lateError as an error: return a plain nil instead"`},
		},
		"fails no more": {
			reason: "what it was", h: handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
				return &handler.SyncResponse{}, nil
			}),
			want: []string{`line 3: sync of Site ns/one:`, `error: recorded "spec.text: it must be set", now none`},
		},
		"panics": {reason: "of one call", h: with(func(*handler.SyncResponse) { panic("boom") }), want: []string{"line 2", "it panicked: boom", "line 4"}},
		"empty":  {reason: "a file that wasn't written", text: "\n", want: []string{"line 1: not a recording"}},
		"header only": {
			reason: "there is nothing to replay", text: strings.SplitAfter(text, "\n")[0], want: []string{"line 2: the recording ends before the first call"},
		},
		"cut off":     {reason: "the line", text: text[:len(text)-20], want: []string{"line 4: the recording was cut off"}},
		"damaged":     {reason: "the line", text: strings.Replace(text, `"call":"sync"`, `"call":"sync`, 1), want: []string{"line 2: "}},
		"other tool":  {reason: "it isn't ours", text: "{\"format\":\"other\"}\n", want: []string{`line 1: not a recording: want the format "roperator-recording/v1"`}},
		"no parent":   {reason: "the line", text: strings.SplitAfter(text, "\n")[0] + `{"call":"sync","request":{}}` + "\n", want: []string{"line 2: request: no parent"}},
		"unknown one": {reason: "the line", text: strings.Replace(text, `"call":"sync"`, `"call":"dance"`, 1), h: handler.SyncFunc(copying), want: []string{`line 2`, `has no call "dance"`}},
	} {
		t.Run(name, func(t *testing.T) {
			input := tc.text
			if input == "" {
				input = text
			}
			f := fake(t, func(tb testing.TB) { Replay(tb, strings.NewReader(input), tc.h) })
			if len(tc.want) == 0 {
				require.Empty(t, f.failure(), tc.reason)
			}
			for _, said := range tc.want {
				require.Contains(t, f.failure(), said, tc.reason)
			}
			for _, said := range tc.not {
				require.NotContains(t, f.failure(), said, tc.reason)
			}
		})
	}
}

// answering is a handler that returns the same whatever it is asked.
func answering(resp *handler.SyncResponse, err error) handler.Handler {
	return handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) { return resp, err })
}

func TestReplayOfAnErrorWithAResponse(t *testing.T) {
	t.Parallel()
	failure := errors.New("no luck")
	told := func(message string) *handler.SyncResponse {
		return &handler.SyncResponse{Status: map[string]any{"message": message}}
	}
	for name, tc := range map[string]struct {
		reason        string
		recorded, now handler.Handler
		want          string // what the failure says; "": it succeeds
	}{
		"same":          {"both are as recorded", answering(told("no luck"), failure), answering(told("no luck"), failure), ""},
		"other words":   {"errors are equal, whatever they say", answering(told("sad"), failure), answering(told("sad"), errors.New("bad luck")), ""},
		"other status":  {"the status is written", answering(told("no luck"), failure), answering(told("sad"), failure), `status message: recorded "no luck", now "sad"`},
		"other delay":   {"so is heeded when to try again", answering(&handler.SyncResponse{}, failure), answering(&handler.SyncResponse{Resync: time.Minute}, failure), `resync or retry: recorded "", now "1m0s"`},
		"no response":   {"the status would stay as it is", answering(told("no luck"), failure), answering(nil, failure), "response: only one of both calls returned one"},
		"new response":  {"the status is written now", answering(nil, failure), answering(told("no luck"), failure), "response: only one of both calls returned one"},
		"neither":       {"an error alone", answering(nil, failure), answering(nil, failure), ""},
		"fails no more": {"the same status is a success now", answering(told("no luck"), failure), answering(told("no luck"), nil), `error: recorded "no luck", now none`},
		"children": {
			"of a failed pass don't count", answering(&handler.SyncResponse{Children: []any{page("a", "x")}}, failure),
			answering(&handler.SyncResponse{KeepChildren: true}, failure), "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := recordingOf(t, tc.recorded, siteRequest(t, "hello"))
			f := fake(t, func(tb testing.TB) { Replay(tb, strings.NewReader(text), tc.now) })
			if tc.want == "" {
				require.Empty(t, f.failure(), tc.reason)
			} else {
				require.Contains(t, f.failure(), tc.want, tc.reason)
			}
		})
	}
}

func TestRecordFinalize(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	rec := Record(&out, finalizingSite(true))
	require.True(t, handler.Finalizes(rec), "as what it records")
	require.False(t, handler.Finalizes(Record(&out, handler.SyncFunc(siteHandler))))
	_, err := rec.Finalize(t.Context(), siteRequest(t, "x"))
	require.NoError(t, err)
	Replay(t, bytes.NewReader(out.Bytes()), finalizingSite(true))
	f := fake(t, func(tb testing.TB) { Replay(tb, bytes.NewReader(out.Bytes()), finalizingSite(false)) })
	require.Contains(t, f.failure(), "finalize of Site ns/one:\n  finalized: recorded true, now false")

	busy := func(retry time.Duration, finalized bool) handler.Handler {
		return handler.Funcs{FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
			return &handler.FinalizeResponse{Finalized: finalized, Retry: retry}, errors.New("busy")
		}}
	}
	out.Reset()
	_, err = Record(&out, busy(time.Second, false)).Finalize(t.Context(), siteRequest(t, "x"))
	require.Error(t, err)
	Replay(t, bytes.NewReader(out.Bytes()), busy(time.Second, true)) // no error lets go
	f = fake(t, func(tb testing.TB) { Replay(tb, bytes.NewReader(out.Bytes()), busy(time.Minute, false)) })
	require.Contains(t, f.failure(), `resync or retry: recorded "1s", now "1m0s"`)
}

// A brokenWriter takes so many writes.
type brokenWriter struct {
	bytes.Buffer
	left int
}

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.left--; w.left < 0 {
		return 0, errors.New("disk full")
	}
	return w.Buffer.Write(p)
}

func TestRecordConcurrentlyToABrokenWriter(t *testing.T) {
	t.Parallel()
	w := &brokenWriter{left: 10}
	rec := Record(w, handler.SyncFunc(copying))
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			resp, err := rec.Sync(t.Context(), siteRequest(t, fmt.Sprint(i)))
			if err != nil || len(resp.Children) == 0 {
				t.Errorf("the handler is disturbed: %v", err)
			}
		})
	}
	wg.Wait()
	Replay(t, bytes.NewReader(w.Bytes()), handler.SyncFunc(copying))
	require.Equal(t, 11, strings.Count(w.String(), "\n"))
}

// TestReplayOfATap: what a production binary has kept of its calls is a recording.
func TestReplayOfATap(t *testing.T) {
	t.Parallel()
	tap := recording.NewTap(10, 1<<20)
	h := tap.Handler(handler.SyncFunc(copying))
	parent := siteRequest(t, "x").Parent.Key()
	defer tap.Open(parent)()
	held := siteRequest(t, "bye", secret("s3cret-value"), page("kept", "x"))
	for _, req := range []*handler.SyncRequest{siteRequest(t, "hello"), siteRequest(t, nil), held} {
		_, _ = h.Sync(t.Context(), req) // an error is recorded
	}
	_, err := h.Finalize(t.Context(), held)
	require.NoError(t, err)
	resp, err := copying(t.Context(), held)
	byHand, encodeErr := tap.Encode(recording.KindSync, held, resp, err)
	require.NoError(t, encodeErr)

	var out bytes.Buffer
	require.NoError(t, tap.Write(&out, append(tap.Calls(parent), byHand)))
	require.Equal(t, 6, strings.Count(out.String(), "\n"), "a header, four calls, and one by hand")
	require.NotContains(t, out.String(), "s3cret-value")
	Replay(t, bytes.NewReader(out.Bytes()), handler.SyncFunc(copying))

	changed := handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		resp, err := copying(ctx, req)
		if err == nil {
			resp.Children[0] = page("index", "other")
		}
		return resp, err
	})
	f := fake(t, func(tb testing.TB) { Replay(tb, bytes.NewReader(out.Bytes()), changed) })
	for _, said := range []string{`line 2: sync of Site ns/one:`, `ConfigMap index data.page: recorded "hello", now "other"`, "line 4: ", "line 6: "} {
		require.Contains(t, f.failure(), said)
	}
	for _, said := range []string{"line 3", "line 5"} {
		require.NotContains(t, f.failure(), said, "these calls answer as recorded")
	}
}
