package faults

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Diary keeps what happens in a run. It may be used concurrently, and begins when it is made.
type Diary struct {
	begin time.Time

	mu struct {
		sync.Mutex
		history    []string
		violations []string
		logs       bytes.Buffer
	}
}

// NewDiary returns a diary that begins now.
func NewDiary() *Diary { return &Diary{begin: time.Now()} }

// Elapsed returns how long the run has lasted.
func (d *Diary) Elapsed() time.Duration { return time.Since(d.begin) }

// Note notes what has happened.
func (d *Diary) Note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note(format, args...)
}

func (d *Diary) note(format string, args ...any) {
	d.mu.history = append(d.mu.history, fmt.Sprintf("%9v ", d.Elapsed().Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// Violated notes what must not have happened, once.
func (d *Diary) Violated(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.mu.violations, text) {
		d.mu.violations = append(d.mu.violations, text)
		d.note("VIOLATION: %s", text)
	}
}

// Write takes logs. It is io.Writer's.
func (d *Diary) Write(line []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.logs.Write(line)
}

// Violations returns what must not have happened.
func (d *Diary) Violations() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.mu.violations)
}

// Tell fails a test by what must not have happened. How says by which command a script happens
// again.
func (d *Diary) Tell(t *testing.T, script fmt.Stringer, how string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	t.Errorf("%d violations:\n%s\n\nthe script, which is played again by %s:\n%s\nwhat happened:\n%s\nlogs:\n%s",
		len(d.mu.violations), strings.Join(d.mu.violations, "\n"), how, script, strings.Join(d.mu.history, "\n"), d.mu.logs.String())
}
