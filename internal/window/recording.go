package window

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// maxRecording bounds a recording, in bytes.
const maxRecording = 16 << 20

// errLarge says that there is no recording, since it would be too large.
var errLarge = fmt.Errorf("the recording is larger than %d MiB", maxRecording>>20)

// serveRecording answers with a file.
func (w *Window) serveRecording(rw http.ResponseWriter, req *http.Request) {
	t, ok := w.target(rw, req, true)
	if !ok {
		return
	}
	ctx, end, ok := w.begin(rw, req)
	if !ok {
		return
	}
	defer end()
	if req.Method == http.MethodHead {
		return
	}
	file := &bounded{}
	if err := w.record(ctx, t, file); err != nil {
		http.Error(rw, err.Error(), http.StatusConflict)
		return
	}
	rw.Header().Set("Content-Type", "application/x-ndjson")
	rw.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", fileName(t)))
	rw.Header().Set("Content-Length", strconv.Itoa(file.Len()))
	_, _ = file.WriteTo(rw) // a client that is gone needs no answer
}

// record asks the source.
func (w *Window) record(ctx context.Context, t target, to io.Writer) (err error) {
	defer w.recovered("recording", &err)
	return w.source.Record(ctx, t.operator, t.parent, to)
}

// fileName returns a name for the recording of a parent that every file system takes.
func fileName(t target) string {
	var parts []string
	for _, name := range []string{t.operator, t.parent.Namespace, t.parent.Name} {
		if name != "" {
			parts = append(parts, strings.Map(plain, strings.ToLower(name)))
		}
	}
	return strings.Join(parts, "_") + ".recording.jsonl"
}

// plain returns a character that may be in the name of a file, in the place of any.
func plain(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
		return r
	}
	return '-'
}

// A bounded buffer takes maxRecording bytes at most.
type bounded struct{ bytes.Buffer }

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxRecording {
		return 0, errLarge
	}
	return b.Buffer.Write(p)
}
