package window

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func TestFileName(t *testing.T) {
	for name, tc := range map[string]struct {
		reason                    string
		operator, namespace, name string
		want                      string
	}{
		"Usual":          {"all three", "sites", "shop", "web", "sites-shop-web.recording.jsonl"},
		"Cluster-scoped": {"there is no namespace", "sites", "", "web", "sites-web.recording.jsonl"},
		"Dots":           {"names have them", "sites", "shop", "web.example.com", "sites-shop-web.example.com.recording.jsonl"},
		"Capitals":       {"some file systems have none", "Sites", "shop", "Web", "sites-shop-web.recording.jsonl"},
		"Path":           {"it leaves no folder", "..", "../../etc", "/passwd", "-..-..-etc--passwd.recording.jsonl"},
		"Quotes":         {"it ends no header", `a"`, `b"; x="`, "c\r\nSet-Cookie: d", "a--b---x---c--set-cookie--d.recording.jsonl"},
		"Others":         {"not every file system has them", "sites", "ü", "日本", "sites-----.recording.jsonl"},
		"Long":           {"file systems have bounds", "sites", strings.Repeat("a", 253), strings.Repeat("b", 253), "sites-" + strings.Repeat("a", 194) + ".recording.jsonl"},
	} {
		t.Run(name, func(t *testing.T) {
			got := fileName(target{tc.operator, types.NamespacedName{Namespace: tc.namespace, Name: tc.name}})
			require.Equal(t, tc.want, got, tc.reason)
			require.Regexp(t, `^[a-z0-9-][a-z0-9.-]*\.recording\.jsonl$`, got)
		})
	}
}

// A recording is sent as a file, as it is.
func TestRecording(t *testing.T) {
	source := newSource()
	lines := bytes.Repeat([]byte("{\"line\":\"<&>\"}\n"), 100_000)
	source.record = func(_ context.Context, to io.Writer) error {
		for part := range bytes.Lines(lines) {
			if _, err := to.Write(part); err != nil {
				return err
			}
		}
		return nil
	}
	w, _ := opened(t, source)
	rec := answerTo(w, http.MethodGet, "/window/recording?operator=sites&namespace=shop&name=web", nil)
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, `attachment; filename="sites-shop-web.recording.jsonl"`, rec.Header().Get("Content-Disposition"))
	require.Equal(t, fmt.Sprint(len(lines)), rec.Header().Get("Content-Length"))
	require.True(t, bytes.Equal(lines, rec.Body.Bytes()))
	source.record = func(context.Context, io.Writer) error { return nil }
	rec = answerTo(w, http.MethodGet, recordingPath, nil)
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, "0", rec.Header().Get("Content-Length"))
	require.Empty(t, w.mu.open)
}

// A client gets a whole recording, or why there is none.
func TestRecording_Fails(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		record func(ctx context.Context, to io.Writer) error
		status int
		text   string
	}{
		"Error": {"the source says it, though there was a part already", func(_ context.Context, to io.Writer) error {
			_, err := io.WriteString(to, "{}\n")
			return fmt.Errorf("Site shop/a: %w", firstOf(err, errFake))
		}, 409, "Site shop/a: fake: the API server is away"},
		"Overdue": {"the handler doesn't return", func(context.Context, io.Writer) error {
			return fmt.Errorf("no answer: %w", context.DeadlineExceeded)
		}, 504, "no answer"},
		"Canceled": {"the operator stops", func(context.Context, io.Writer) error { return context.Canceled }, 503, "canceled"},
		"Panic":    {"the log alone says it", func(context.Context, io.Writer) error { panic("hidden treasure") }, 500, errPanic.Error()},
		"Large": {"it is bounded", func(_ context.Context, to io.Writer) error {
			for {
				if _, err := to.Write(make([]byte, 1<<20)); err != nil {
					return fmt.Errorf("recording: %w", err)
				}
			}
		}, 500, "larger than 16 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			source := newSource()
			source.record = tc.record
			w, log := opened(t, source)
			rec := answerTo(w, http.MethodGet, recordingPath, nil)
			require.Equal(t, tc.status, rec.Code, tc.reason)
			require.Contains(t, rec.Body.String(), tc.text, tc.reason)
			require.Equal(t, "text/plain; charset=utf-8", rec.Header().Get("Content-Type"))
			require.Empty(t, rec.Header().Get("Content-Disposition"))
			require.Equal(t, name == "Panic", strings.Contains(log.String(), "hidden treasure"))
			require.Empty(t, w.mu.open)
		})
	}
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Who takes a recording slowly gets it, and who doesn't take it is dropped.
func TestRecording_Slow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		source.record = func(_ context.Context, to io.Writer) error {
			<-time.After(time.Second)
			_, err := to.Write(make([]byte, 10*partOfFile))
			return err
		}
		w, _ := opened(t, source)
		v := visit(t, w, recordingPath)
		v.stick(true)
		pass(time.Second)
		for range 3 {
			pass(9 * time.Second)
			v.take()
		}
		pass(9 * time.Second)
		require.False(t, v.hasEnded())
		pass(2 * time.Second)
		require.True(t, v.hasEnded())
		require.Len(t, v.text(), 3*partOfFile)
		require.Equal(t, fmt.Sprint(10*partOfFile), v.header.Get("Content-Length"))
	})
}
