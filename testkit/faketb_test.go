package testkit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// A fakeTB is a test that fails without failing the test that looks at it.
type fakeTB struct {
	testing.TB // what isn't overridden below isn't called
	mu         struct {
		sync.Mutex
		log      bytes.Buffer
		errors   []string
		ended    bool
		cleanups []func()
	}
	context context.Context //nolint:containedctx // as testing has it
	over    context.CancelFunc
}

// fake runs what a test would do, and its cleanups, and returns the failures.
func fake(t *testing.T, test func(tb testing.TB)) *fakeTB {
	t.Helper()
	f := &fakeTB{TB: t}
	f.context, f.over = context.WithCancel(context.Background())
	f.run(func() { test(f) })
	f.over()
	for len(f.mu.cleanups) > 0 {
		last := len(f.mu.cleanups) - 1
		cleanup := f.mu.cleanups[last]
		f.mu.cleanups = f.mu.cleanups[:last]
		f.run(cleanup)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.ended = true
	return f
}

// run lets a Fatalf end no more than step.
func (f *fakeTB) run(step func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		step()
	}()
	<-done
}

func (f *fakeTB) failure() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.mu.errors, "\n")
}

func (f *fakeTB) logged() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.log.String()
}

func (f *fakeTB) Helper() {}

func (f *fakeTB) Context() context.Context { return f.context }

func (f *fakeTB) Cleanup(c func()) { f.mu.cleanups = append(f.mu.cleanups, c) }

func (f *fakeTB) Failed() bool { return f.failure() != "" }

func (f *fakeTB) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.errors = append(f.mu.errors, fmt.Sprintf(format, args...))
}

func (f *fakeTB) Fatal(args ...any) {
	f.Errorf("%s", fmt.Sprint(args...))
	runtime.Goexit()
}

func (f *fakeTB) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}

func (f *fakeTB) Logf(format string, args ...any) { fmt.Fprintf(f, format+"\n", args...) }

func (f *fakeTB) Output() io.Writer { return f }

// Write fails where a real test would panic.
func (f *fakeTB) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.ended {
		f.mu.errors = append(f.mu.errors, "log after the end of the test")
	}
	return f.mu.log.Write(p)
}
