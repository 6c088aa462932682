package fuzz

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/testkit"
)

// A collector is a test that fails without failing the one that looks at it.
type collector struct {
	testing.TB
	failures []string
}

func (c *collector) Helper() {}

func (c *collector) Errorf(format string, args ...any) {
	c.failures = append(c.failures, fmt.Sprintf(format, args...))
}

func (c *collector) Fatalf(format string, args ...any) {
	c.Errorf(format, args...)
	runtime.Goexit()
}

// replayed returns the failures of a recording.
func replayed(t *testing.T, recording []byte) []string {
	c := &collector{TB: t}
	done := make(chan struct{})
	go func() { // until Fatalf, or the end of the recording
		defer close(done)
		testkit.Replay(c, bytes.NewReader(recording), pages)
	}()
	<-done
	return c.failures
}

var pages = handler.Funcs{
	SyncFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		text, ok := req.Parent.Field("spec", "text")
		if !ok {
			return nil, errors.New("spec.text: it must be set")
		}
		return &handler.SyncResponse{
			Status: map[string]any{"children": req.Children.Len(), "text": text},
			Children: []any{
				map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "page"}, "data": map[string]any{"text": text}},
				map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "key"}, "stringData": map[string]any{"key": "hunter2"}},
			},
		}, nil
	},
	FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
		return &handler.FinalizeResponse{Finalized: true}, nil
	},
}

const site = `{"apiVersion":"example.com/v1","kind":"Site","metadata":{"name":"a","namespace":"ns","uid":"u","resourceVersion":"1"}`

// recording returns a genuine one, of four calls.
func recording(tb testing.TB) string {
	tb.Helper()
	var out bytes.Buffer
	rec := testkit.Record(&out, pages)
	secret := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"key","namespace":"ns","uid":"v","resourceVersion":"2"},"data":{"key":"aHVudGVyMg=="}}`
	for _, text := range []string{
		`{"parent":` + site + `,"spec":{"text":"hello"}},"children":[]}`,
		`{"parent":` + site + `},"children":[]}`,
		`{"parent":` + site + `,"spec":{"text":"hello"}},"children":[` + secret + `]}`,
	} {
		var req handler.SyncRequest
		require.NoError(tb, req.UnmarshalJSON([]byte(text)))
		_, _ = rec.Sync(tb.Context(), &req) // an error is recorded
	}
	parent, err := resource.New([]byte(site + "}"))
	require.NoError(tb, err)
	_, err = rec.Finalize(tb.Context(), &handler.SyncRequest{Parent: parent})
	require.NoError(tb, err)
	require.NotContains(tb, out.String(), "hunter2")
	require.NotContains(tb, out.String(), "aHVudGVyMg")
	return out.String()
}

// namesTheLine: where in a recording something is wrong, or different.
var namesTheLine = regexp.MustCompile(`^testkit: replay: line \d+: .`)

func checkReplay(t *testing.T, recording []byte) {
	t.Helper()
	for _, failure := range replayed(t, recording) {
		require.Regexp(t, namesTheLine, failure)
		require.NotContains(t, failure, "it panicked")
	}
}

// FuzzReplay replays recordings that were cut, garbled or written by hand:
// nothing to say, or failures that each name the line.
func FuzzReplay(f *testing.F) {
	whole := recording(f)
	header, _, _ := strings.Cut(whole, "\n")
	for _, at := range []int{0, 1, len(header), len(header) + 1, len(header) + 20, len(whole) - 20, len(whole) - 1, len(whole)} {
		f.Add([]byte(whole[:at]))
	}
	for _, line := range []string{
		`{}`, `null`, `[]`, `{"call":"sync"}`, `{"call":"sync","request":{}}`, `{"call":"sync","request":{"parent":null,"children":[null]}}`,
		`{"call":"none","request":{"parent":` + site + `}}}`,
		`{"call":"finalize","request":{"parent":` + site + `},"children":[{}]}}`,
		`{"call":"finalize","request":{"parent":` + site + `},"children":null}}`,
		`{"call":"sync","response":{"children":[null,{},{"metadata":[]}]},"request":{"parent":` + site + `,"spec":{"text":1}}}}`,
		`{"call":"sync","response":{"status":{"a":[1,null]},"after":"x","events":[{}]},"request":{"parent":` + site + `,"spec":{"text":null}}}}`,
		strings.Repeat("[", 20_000), "\xff",
	} {
		f.Add([]byte(header + "\n" + line + "\n"))
	}
	f.Fuzz(checkReplay)
}

// A recording that was cut anywhere says at which line.
func TestReplayOfACutRecording(t *testing.T) {
	whole := []byte(recording(t))
	require.Empty(t, replayed(t, whole))
	ends := map[int]bool{}
	for at, b := range whole {
		ends[at+1] = b == '\n'
	}
	calls := 0
	for at := range whole {
		failures := replayed(t, whole[:at])
		if ends[at] {
			calls++
		}
		if ends[at] && calls > 1 { // the header is one line
			require.Empty(t, failures, "a whole number of calls")
			continue
		}
		require.Len(t, failures, 1, "byte %d", at)
		require.Regexp(t, fmt.Sprintf(`^testkit: replay: line %d: `, calls+1), failures[0])
	}
}
