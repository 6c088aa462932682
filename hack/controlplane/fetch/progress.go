package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Progress is told of to a terminal in one line that changes, elsewhere in a few lines.
const (
	terminalInterval = 500 * time.Millisecond
	lineInterval     = 10 * time.Second
	worthTelling     = 1 << 20 // bytes: an index or a sum is nothing to wait for
)

// A progress tells how much has been downloaded and what is left. It may be used concurrently.
type progress struct {
	terminal bool
	mu       struct {
		sync.Mutex
		out      io.Writer
		began    time.Time // when the first answer of a size worth telling began
		told     time.Time
		expected int64
		got      int64
		line     bool // the terminal's last line is one of progress
	}
}

func newProgress(out io.Writer) *progress {
	p := &progress{}
	p.mu.out = out
	if file, ok := out.(*os.File); ok {
		info, err := file.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// expect adds an answer of a size, -1 if that is unknown, and says whether it is worth telling of.
func (p *progress) expect(size int64) bool {
	if size < worthTelling {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.began.IsZero() {
		p.mu.began = time.Now()
		p.mu.told = p.mu.began
	}
	p.mu.expected += size
	return true
}

// got adds what has come of an answer that is worth telling of.
func (p *progress) got(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.got += int64(n)
	interval := lineInterval
	if p.terminal {
		interval = terminalInterval
	}
	if time.Since(p.mu.told) < interval {
		return
	}
	p.mu.told = time.Now()
	p.tellLocked()
}

func (p *progress) tellLocked() {
	text := fmt.Sprintf("controlplane: %s of %s", megabytes(p.mu.got), megabytes(p.mu.expected))
	if took := time.Since(p.mu.began); p.mu.got > 0 && took > 0 && p.mu.got < p.mu.expected {
		rate := float64(p.mu.got) / took.Seconds()
		left := time.Duration(float64(p.mu.expected-p.mu.got) / rate * float64(time.Second))
		text += fmt.Sprintf(", %s/s, %v left", megabytes(int64(rate)), left.Round(time.Second))
	}
	if p.terminal {
		fmt.Fprintf(p.mu.out, "\r%s\x1b[K", text)
		p.mu.line = true
		return
	}
	fmt.Fprintln(p.mu.out, text)
}

// say writes a line of its own.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endLineLocked()
	fmt.Fprintf(p.mu.out, "controlplane: "+format+"\n", args...)
}

// end tells how much there was.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.began.IsZero() {
		return
	}
	p.tellLocked()
	p.endLineLocked()
}

func (p *progress) endLineLocked() {
	if p.mu.line {
		fmt.Fprintln(p.mu.out)
		p.mu.line = false
	}
}

// megabytes writes a size: 74 MB, 0.3 MB.
func megabytes(bytes int64) string {
	const mega = 1e6
	if bytes < 10*mega {
		return fmt.Sprintf("%.1f MB", float64(bytes)/mega)
	}
	return fmt.Sprintf("%.0f MB", float64(bytes)/mega)
}
