package window

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxRecording bounds a recording, in bytes. It is held as a whole, so that a client gets all of it or an error.
	maxRecording = 16 << 20
	// partOfFile is how much of a file a client must take at a time, in bytes.
	partOfFile = 256 << 10
	// recordingType is the media type of a recording: lines of JSON.
	recordingType = "application/x-ndjson"
	// maxFileName is how long the name of a file may be before its ending, in bytes; file systems take 255 with it.
	maxFileName = 200
)

// errLarge says that there is no recording, since it would be too large.
var errLarge = fmt.Errorf("the recording is larger than %d MiB", maxRecording>>20)

// serveRecording answers with a file.
func (w *Window) serveRecording(ctx context.Context, a *answer, t target) {
	file := &bounded{}
	if err := w.record(ctx, t, file); err != nil {
		http.Error(a.rw, err.Error(), codeOf(err))
		return
	}
	a.rw.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", fileName(t)))
	a.rw.Header().Set("Content-Length", strconv.Itoa(file.Len()))
	a.begin(recordingType)
	for part := range slices.Chunk(file.Bytes(), partOfFile) {
		if a.write(part) != nil {
			return // a client that is gone needs no answer
		}
	}
}

// record asks the source.
func (w *Window) record(ctx context.Context, t target, to io.Writer) (err error) {
	defer w.recovered("the recording of "+t.String(), &err)
	return w.source.Record(ctx, t.operator, t.parent, to)
}

// codeOf returns the status of an answer that says why there is no recording.
func codeOf(err error) int {
	switch {
	case errors.Is(err, errPanic) || errors.Is(err, errLarge):
		return http.StatusInternalServerError
	case errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout
	}
	return http.StatusConflict // the parent isn't in a state in which there is one
}

// fileName returns a name for the recording of a parent that every file system takes.
func fileName(t target) string {
	var parts []string
	for _, name := range []string{t.operator, t.parent.Namespace, t.parent.Name} {
		if name != "" {
			parts = append(parts, strings.Map(plain, strings.ToLower(name)))
		}
	}
	name := strings.TrimLeft(strings.Join(parts, "-"), ".")
	return name[:min(len(name), maxFileName)] + ".recording.jsonl"
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
