package recording

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
)

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

func TestWriter(t *testing.T) {
	t.Parallel()
	file := &brokenWriter{left: 2}
	w := NewWriter(file)
	good, bad := Call{Kind: KindSync, Request: about(t, "one")}, Call{Kind: KindSync}
	require.ErrorContains(t, w.Call(bad), "sync: request: no parent")
	require.Empty(t, file.String(), "the header comes with the first call")
	require.NoError(t, w.Call(good))
	require.ErrorContains(t, w.Call(bad), "no parent")
	require.NoError(t, w.Call(good))
	lines := strings.Split(file.String(), "\n")
	require.Len(t, lines, 4)
	require.JSONEq(t, `{"format":"roperator-recording/v1"}`, lines[0])
	require.Equal(t, lines[1], lines[2])
	require.EqualError(t, w.Call(good), "recording: disk full")
	file.left = 1
	require.Equal(t, ErrFailed, w.Call(good), "a line may be missing")
	require.Equal(t, ErrFailed, w.Call(bad))
	require.Len(t, strings.Split(file.String(), "\n"), 4)
}

// TestRecordingIsNoOracle: equal values are equal in one recording, and nothing in it
// tells, by trying, what they are.
func TestRecordingIsNoOracle(t *testing.T) {
	t.Parallel()
	secret := func(value string) any {
		return map[string]any{"apiVersion": "v1", "kind": "Secret", "data": map[string]any{"password": base64.StdEncoding.EncodeToString([]byte(value))}}
	}
	record := func() string {
		var out bytes.Buffer
		require.NoError(t, NewWriter(&out).Call(Call{
			Kind: KindSync, Request: about(t, "one"), Response: &handler.SyncResponse{Children: []any{secret("1234"), secret("1234"), secret("sha256:1234")}},
		}))
		return out.String()
	}
	values := func(recording string) (out []string) {
		for entry, err := range Read(strings.NewReader(recording)) {
			require.NoError(t, err)
			for _, child := range entry.Answer.Children {
				out = append(out, child["data"].(map[string]any)["password"].(string))
			}
		}
		return out
	}
	first, second := record(), record()
	require.NotContains(t, first, "salt", "with what the values were hidden by, one could try")
	require.NotContains(t, first, base64.StdEncoding.EncodeToString([]byte("sha256:1234")))
	a, b := values(first), values(second)
	require.Equal(t, a[0], a[1])
	require.NotEqual(t, a[0], a[2])
	require.NotEqual(t, a[0], b[0], "two recordings can't be compared")
}

func TestRead(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := NewWriter(&out)
	require.NoError(t, w.Call(Call{Kind: KindSync, Request: about(t, "one"), Response: &handler.SyncResponse{KeepChildren: true}}))
	require.NoError(t, w.Call(Call{Kind: KindFinalize, Request: about(t, "two"), Err: errors.New("no")}))
	whole := out.String()
	head, calls, _ := strings.Cut(whole, "\n")
	for name, tc := range map[string]struct {
		reason, text string
		want         string // the error; "": none
		entries      int
	}{
		"whole":         {"it ends after a line", whole, "", 2},
		"empty":         {"nothing was written", "", "line 1: the recording ends before the first call", 0},
		"empty line":    {"the end of a file is no header", "\n", "line 1: not a recording: want the format", 0},
		"header":        {"it has no call", head + "\n", "line 2: the recording ends before the first call", 0},
		"part":          {"of a header", head, "line 1: the recording was cut off", 0},
		"cut off":       {"what comes before is read", whole[:len(whole)-5], "line 3: the recording was cut off", 1},
		"no end":        {"the last newline tells that the line is whole", whole[:len(whole)-1], "line 3: the recording was cut off", 1},
		"other format":  {"a later version", `{"format":"roperator-recording/v2"}` + "\n" + calls, `line 1: not a recording: want the format "roperator-recording/v1"`, 0},
		"unknown field": {"it may say something that counts", head + "\n" + `{"call":"sync","more":1}` + "\n", `line 2: json: unknown field "more"`, 0},
		"no parent":     {"there is nothing to ask", head + "\n" + `{"call":"sync","request":{}}` + "\n" + calls, "line 2: request: no parent", 0},
		"blank line":    {"it is no call", head + "\n\n" + calls, "line 2: ", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var entries []Entry
			var failure error
			for entry, err := range Read(strings.NewReader(tc.text)) {
				require.NoError(t, failure, "an error is the last")
				if failure = err; err == nil {
					entries = append(entries, entry)
				}
			}
			require.Len(t, entries, tc.entries, tc.reason)
			if tc.want == "" {
				require.NoError(t, failure, tc.reason)
			} else {
				require.ErrorContains(t, failure, tc.want, tc.reason)
			}
		})
	}
	for _, err := range Read(io.MultiReader(strings.NewReader(head+"\n"), iotest.ErrReader(errors.New("disk gone")))) {
		require.EqualError(t, err, "line 2: disk gone")
	}
	for entry, err := range Read(strings.NewReader(whole)) {
		require.NoError(t, err)
		require.Equal(t, 2, entry.Number)
		require.Equal(t, KindSync, entry.Kind)
		require.Equal(t, "one", entry.Request.Parent.Name())
		require.Equal(t, &Answer{KeepChildren: true}, entry.Answer)
		break
	}
}
