package cli

import (
	"bytes"
	"io"
	"log"
	"log/slog"
	"time"

	"github.com/roperator/roperator/internal/logbuffer"
)

// flushTimeout is how long a process that ends waits until its log is written.
const flushTimeout = 3 * time.Second

// logger returns the program's own Logger, else one that writes to w as the flags say.
func (f *flags) logger(w io.Writer) *slog.Logger {
	if f.defaults.Logger != nil {
		return f.defaults.Logger
	}
	opts := &slog.HandlerOptions{Level: f.logLevel}
	if f.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// bufferLog makes the log of the command one that doesn't block whoever writes it, even if
// nobody reads it. What the program itself writes to the same place by packages log and
// slog, without having chosen another one for them, goes the same way. written must be
// called before the process ends. It returns when all lines are out, or after
// flushTimeout. A Logger of the program's own stays as it is.
func (c *command) bufferLog() (written func()) {
	if c.flags.defaults.Logger != nil {
		return func() {}
	}
	w := logbuffer.New(c.stderr, c.flags.dropped)
	c.log, c.lost = c.flags.logger(w), w.Dropped
	if log.Writer() == c.stderr {
		log.SetOutput(w)
	}
	return func() {
		if log.Writer() == w {
			log.SetOutput(c.stderr)
		}
		w.Close(flushTimeout)
	}
}

// dropped returns the line of the log that says how many lines are missing in its place.
func (f *flags) dropped(lines int) []byte {
	var line bytes.Buffer
	f.logger(&line).Error("lines of the log were dropped: they couldn't be written, or nobody read them", "lines", lines)
	return line.Bytes()
}
