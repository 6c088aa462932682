package recorder_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/handler/recorder"
	"github.com/roperator/roperator/internal/dryrun"
	"github.com/roperator/roperator/internal/recording"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

// observed returns an object as the API server has it.
func observed(t testing.TB, object map[string]any) *resource.Resource {
	t.Helper()
	meta := object["metadata"].(map[string]any)
	meta["namespace"], meta["uid"], meta["resourceVersion"] = "ns", "uid", "1"
	res, err := resource.New(object)
	require.NoError(t, err)
	return res
}

// about returns a request about a site of this name.
func about(t testing.TB, name string) *handler.SyncRequest {
	t.Helper()
	return &handler.SyncRequest{Parent: observed(t, map[string]any{
		"apiVersion": "example.com/v1", "kind": "Site", "metadata": map[string]any{"name": name}, "spec": map[string]any{"text": name},
	})}
}

// sites wants a page for each site. It refuses some sites, and has something to clean up.
func sites() handler.Funcs {
	return handler.Funcs{
		SyncFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			text, _ := req.Parent.Field("spec", "text")
			status := map[string]any{"text": text}
			switch text {
			case "bad":
				return nil, errors.New("no text")
			case "worse":
				return &handler.SyncResponse{Status: status}, handler.Permanent(errors.New("no good text"))
			}
			page := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "page"}, "data": map[string]any{"page": text}}
			return &handler.SyncResponse{Status: status, Children: []any{page}, Events: []handler.Event{{Reason: "Seen"}}}, nil
		},
		FinalizeFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
			return &handler.FinalizeResponse{Finalized: req.Parent.Name() != "busy"}, nil
		},
	}
}

// begin returns a Recorder that is closed in the end, and its log.
func begin(t testing.TB, h handler.Handler, opts recorder.Options) (*recorder.Recorder, *journal) {
	t.Helper()
	log := &journal{}
	opts.Logger = slog.New(slog.NewJSONHandler(log, nil))
	r, err := recorder.New(h, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r, log
}

// A journal is what was logged.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, string(p))
	return len(p), nil
}

// take returns what was logged since the last time.
func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := j.lines
	j.lines = nil
	return out
}

// call has a handler sync a site, which must be answered as it answers.
func call(t testing.TB, h handler.Handler, name string) {
	t.Helper()
	resp, err := h.Sync(context.Background(), about(t, name))
	require.NoError(t, err)
	require.Equal(t, map[string]any{"text": name}, resp.Status, "the answer is the handler's")
}

// recorded returns the names of the parents of the calls in a file, which must be whole.
func recorded(t testing.TB, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	out := []string{}
	for entry, err := range recording.Read(bytes.NewReader(text)) {
		require.NoError(t, err, "%s", path)
		out = append(out, entry.Request.Parent.Name())
	}
	return out
}

func inFolder(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "sites.jsonl")
}

// TestReplay: what was recorded is what testkit.Replay asks for.
func TestReplay(t *testing.T) {
	t.Parallel()
	path := inFolder(t)
	r, log := begin(t, sites(), recorder.Options{Path: path})
	ctx := t.Context()
	for _, name := range []string{"one", "bad", "worse", "one"} {
		_, _ = r.Sync(ctx, about(t, name)) // an error is recorded
	}
	for _, name := range []string{"one", "busy"} {
		_, err := r.Finalize(ctx, about(t, name))
		require.NoError(t, err)
	}
	require.Equal(t, []string{"one", "bad", "worse", "one", "one", "busy"}, recorded(t, path), "without Close")
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	testkit.Replay(t, file, sites())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), `"response":{"status":{"text":"worse"}},"error":"no good text"`, "an answer beside an error")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.Empty(t, log.take())
}

// TestWhat: which calls are recorded.
func TestWhat(t *testing.T) {
	t.Parallel()
	odd := func(parent *resource.Resource) bool { return parent.Name() == "odd" }
	for name, tc := range map[string]struct {
		reason string
		choose func(parent *resource.Resource) bool
		call   func(t *testing.T, r *recorder.Recorder)
		want   []string
	}{
		"all":    {"there is no Select", nil, func(t *testing.T, r *recorder.Recorder) { call(t, r, "odd"); call(t, r, "even") }, []string{"odd", "even"}},
		"select": {"one is left out", odd, func(t *testing.T, r *recorder.Recorder) { call(t, r, "even"); call(t, r, "odd") }, []string{"odd"}},
		"select finalize": {"it is about calls of both methods", odd, func(t *testing.T, r *recorder.Recorder) {
			for _, name := range []string{"odd", "even"} {
				resp, err := r.Finalize(t.Context(), about(t, name))
				require.NoError(t, err)
				require.True(t, resp.Finalized)
			}
		}, []string{"odd"}},
		"plan": {"it isn't what the operator did", nil, func(t *testing.T, r *recorder.Recorder) {
			resp, err := r.Sync(dryrun.Mark(t.Context()), about(t, "odd"))
			require.NoError(t, err)
			require.Len(t, resp.Children, 1)
		}, []string{}},
		"panic": {"it is the engine's", nil, func(t *testing.T, r *recorder.Recorder) {
			require.Panics(t, func() { _, _ = r.Sync(t.Context(), nil) })
			call(t, r, "even")
		}, []string{"even"}},
		"no parent": {"there is nothing to replay", nil, func(t *testing.T, r *recorder.Recorder) {
			_, _ = r.Finalize(t.Context(), nil)
		}, []string{}},
		"closed": {"the file belongs to nobody any more", odd, func(t *testing.T, r *recorder.Recorder) {
			call(t, r, "odd")
			require.NoError(t, r.Close())
			call(t, r, "odd")
			require.NoError(t, r.Close(), "it may be called again")
		}, []string{"odd"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := inFolder(t)
			h := sites()
			finalize := h.FinalizeFunc
			h.FinalizeFunc = func(ctx context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
				if req == nil {
					return nil, errors.New("no request")
				}
				return finalize(ctx, req)
			}
			r, log := begin(t, h, recorder.Options{Path: path, Select: tc.choose})
			tc.call(t, r)
			require.Empty(t, log.take())
			if len(tc.want) == 0 {
				text, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Empty(t, text, tc.reason)
				return
			}
			require.Equal(t, tc.want, recorded(t, path), tc.reason)
		})
	}
}

// TestClosedMeanwhile: a call that is under way passes unrecorded when the Recorder is closed.
func TestClosedMeanwhile(t *testing.T) {
	t.Parallel()
	path := inFolder(t)
	var r *recorder.Recorder
	r, log := begin(t, handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{}, r.Close()
	}), recorder.Options{Path: path})
	_, err := r.Sync(t.Context(), about(t, "one"))
	require.NoError(t, err)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Empty(t, text)
	require.Empty(t, log.take())
}

// TestPasses: a Recorder is to the engine what its handler is.
func TestPasses(t *testing.T) {
	t.Parallel()
	refs, failure := []handler.Ref{{Type: k8s.Secret, Name: "key"}}, errors.New("no luck")
	for name, tc := range map[string]struct {
		reason             string
		h                  handler.Handler
		finalizes, relates bool
		refs               []handler.Ref
		err                error
	}{
		"sync":     {reason: "nothing more", h: handler.SyncFunc(nil)},
		"finalize": {reason: "parents need a finalizer", h: handler.Funcs{FinalizeFunc: sites().FinalizeFunc}, finalizes: true},
		"relate": {
			reason: "parents refer to something", h: handler.Funcs{RelateFunc: func(*resource.Resource) ([]handler.Ref, error) { return refs, failure }},
			relates: true, refs: refs, err: failure,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := begin(t, tc.h, recorder.Options{Path: inFolder(t)})
			require.Equal(t, tc.finalizes, handler.Finalizes(r), tc.reason)
			require.Equal(t, tc.relates, handler.Relates(r), tc.reason)
			got, err := handler.Relate(r, about(t, "one").Parent)
			require.Equal(t, tc.refs, got, tc.reason)
			require.Equal(t, tc.err, err, tc.reason)
		})
	}
	resp := &handler.SyncResponse{}
	r, _ := begin(t, handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) { return resp, failure }), recorder.Options{Path: inFolder(t)})
	got, err := r.Sync(t.Context(), about(t, "one"))
	require.Same(t, resp, got)
	require.Equal(t, failure, err)
}

// TestSecrets: no value of a Secret is in a file, wherever it was; equal values are equal in
// all files of a Recorder.
func TestSecrets(t *testing.T) {
	t.Parallel()
	const value = "canary-7f3a"
	inBase64 := base64.StdEncoding.EncodeToString([]byte(value))
	secret := func(name string) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{
			"name": name, "annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": value},
		}, "data": map[string]any{"k": inBase64}}
	}
	path := inFolder(t)
	r, _ := begin(t, handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Children: []any{secret("map"), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "typed"}, StringData: map[string]string{"k": value}}}}, nil
	}), recorder.Options{Path: path, MaxBytes: 4096, Files: 3})
	req := about(t, "one")
	req.Children, req.Related = handler.NewChildren(observed(t, secret("own"))), handler.NewObjects(observed(t, secret("shared")))
	for range 10 {
		_, err := r.Sync(t.Context(), req)
		require.NoError(t, err)
	}
	hidden := map[any]bool{}
	for _, file := range []string{path + ".2", path + ".1", path} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NotContains(t, string(text), value)
		require.NotContains(t, string(text), inBase64)
		for entry, err := range recording.Read(bytes.NewReader(text)) {
			require.NoError(t, err)
			hidden[entry.Answer.Children[0]["data"].(map[string]any)["k"]] = true
		}
	}
	require.Len(t, hidden, 1)
}

// TestLeftOut: a call that can't be recorded is logged once for each reason, and counted.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	path := inFolder(t)
	r, log := begin(t, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		switch req.Parent.Name() {
		case "huge":
			return &handler.SyncResponse{Status: strings.Repeat("x", 4096)}, nil
		case "broken":
			return &handler.SyncResponse{Children: []any{nil}}, nil
		}
		return &handler.SyncResponse{}, nil
	}), recorder.Options{Path: path, MaxBytes: 4096})
	for _, name := range []string{"one", "huge", "two", "broken", "huge", "three", "huge", "broken"} {
		resp, err := r.Sync(t.Context(), about(t, name))
		require.NoError(t, err)
		require.NotNil(t, resp, "it is the handler's")
	}
	require.Equal(t, []string{"one", "two", "three"}, recorded(t, path))
	require.NoFileExists(t, path+".1", "a call that fits nowhere begins no file")
	lines := log.take()
	require.Len(t, lines, 2, "the first of each")
	require.Contains(t, lines[0], `"level":"WARN"`)
	require.Contains(t, lines[0], `"kind":"Site","parent":"ns/huge","call":"sync","error":"a file with it alone would have 4`)
	require.Contains(t, lines[1], `"parent":"ns/broken"`)
	require.NoError(t, r.Close())
	require.NoError(t, r.Close())
	lines = log.take()
	require.Len(t, lines, 1, "once")
	require.Contains(t, lines[0], `"tooLarge":3,"notEncoded":2,"notWritten":0`)
}

// TestLargest: a call that just fits is recorded, in a file of its own, and one byte more is too much.
func TestLargest(t *testing.T) {
	t.Parallel()
	length := 0
	h := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Status: strings.Repeat("x", length)}, nil
	})
	size := func(opts recorder.Options) int {
		opts.Path = inFolder(t)
		r, _ := begin(t, h, opts)
		_, err := r.Sync(t.Context(), about(t, "one"))
		require.NoError(t, err)
		info, err := os.Stat(opts.Path)
		require.NoError(t, err)
		return int(info.Size())
	}
	length = 5000
	length += 10_000 - size(recorder.Options{})
	require.Equal(t, 10_000, size(recorder.Options{MaxBytes: 10_000}))
	length++
	require.Zero(t, size(recorder.Options{MaxBytes: 10_000}))
}

func TestConcurrently(t *testing.T) {
	t.Parallel()
	path := inFolder(t)
	r, log := begin(t, sites(), recorder.Options{Path: path, MaxBytes: 8192, Files: 1000})
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for n := range 100 {
				if _, err := r.Sync(context.Background(), about(t, fmt.Sprintf("w%d-%d", worker, n))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, file := range files(t, path) {
		for _, name := range recorded(t, file) {
			require.False(t, seen[name], name)
			seen[name] = true
		}
	}
	require.Len(t, seen, 800, "each call is recorded once")

	for range 4 {
		wg.Go(func() {
			for range 20 {
				if _, err := r.Sync(context.Background(), about(t, "late")); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, file := range files(t, path) {
		recorded(t, file)
	}
	require.Empty(t, log.take())
}

func TestOptions(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	good := filepath.Join(folder, "sites.jsonl")
	other := filepath.Join(folder, "notes.txt")
	require.NoError(t, os.WriteFile(other, []byte("buy milk\n"), 0o600))
	for name, tc := range map[string]struct {
		reason string
		h      handler.Handler
		opts   recorder.Options
		want   string
	}{
		"no handler": {"there is nothing to record", nil, recorder.Options{Path: good}, "recorder: the handler is nil"},
		"no path":    {"there is no default", sites(), recorder.Options{}, "recorder: Path: must be set"},
		"negative":   {"it means nothing", sites(), recorder.Options{Path: good, MaxBytes: -1}, "recorder: MaxBytes: -1: must be 0 or at least 4096"},
		"megabytes":  {"somebody thinks of another unit", sites(), recorder.Options{Path: good, MaxBytes: 10}, "recorder: MaxBytes: 10: must be 0 or at least 4096"},
		"files":      {"it means nothing", sites(), recorder.Options{Path: good, Files: -1}, "recorder: Files: -1: must not be negative"},
		"no folder":  {"it may be a volume that isn't mounted", sites(), recorder.Options{Path: filepath.Join(folder, "none", "a")}, "recorder: Path: open " + filepath.Join(folder, "none", "a") + ": no such file or directory"},
		"folder":     {"it isn't a file", sites(), recorder.Options{Path: folder}, "recorder: Path: " + folder + ": it isn't a regular file"},
		"device":     {"it can't be renamed", sites(), recorder.Options{Path: os.DevNull}, "recorder: Path: " + os.DevNull + ": it isn't a regular file"},
		"other file": {"it is somebody's", sites(), recorder.Options{Path: other}, "recorder: Path: " + other + ": it isn't a recording"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := recorder.New(tc.h, tc.opts)
			require.EqualError(t, err, tc.want, tc.reason)
			require.Nil(t, r)
		})
	}
	require.NoFileExists(t, good)
	text, err := os.ReadFile(other)
	require.NoError(t, err)
	require.Equal(t, "buy milk\n", string(text))
}

// TestImports: a production binary gets no test code by this package.
func TestImports(t *testing.T) {
	t.Parallel()
	output, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Standard", ".").Output()
	require.NoError(t, err)
	packages := json.NewDecoder(bytes.NewReader(output))
	var own []string
	for packages.More() {
		var p struct {
			ImportPath string
			Standard   bool
		}
		require.NoError(t, packages.Decode(&p))
		if name, ok := strings.CutPrefix(p.ImportPath, "github.com/roperator/roperator/"); ok {
			own = append(own, name)
		}
		for _, never := range []string{"testing", "sigs.k8s.io/controller-runtime", "github.com/roperator/roperator/testkit", "github.com/roperator/roperator/internal/testing", "github.com/roperator/roperator/runner", "github.com/roperator/roperator/internal/engine"} {
			require.False(t, p.ImportPath == never || strings.HasPrefix(p.ImportPath, never+"/"), "it links %s", p.ImportPath)
		}
	}
	require.Contains(t, own, "internal/recording", "the list is one of packages")
	require.Contains(t, own, "handler/recorder")
}
