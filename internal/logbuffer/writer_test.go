package logbuffer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func notice(dropped int) []byte { return fmt.Appendf(nil, "%d dropped\n", dropped) }

// A sink is a log. While it is stuck, a write takes until it isn't.
type sink struct {
	mu    sync.Mutex
	text  bytes.Buffer
	stuck chan struct{} // nil: it takes what it gets
	err   error         // instead of taking anything
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	stuck := s.stuck
	s.mu.Unlock()
	if stuck != nil {
		<-stuck
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	return s.text.Write(p)
}

func (s *sink) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func line(i int) string { return fmt.Sprintf("line %06d\n", i) }

func write(t *testing.T, w io.Writer, text string) (took time.Duration) {
	t.Helper()
	begin := time.Now()
	n, err := io.WriteString(w, text)
	require.NoError(t, err)
	require.Equal(t, len(text), n)
	return time.Since(begin)
}

// A line is out when Write returns, so that a crash takes none along.
func TestWriter_Flowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{}
		w := New(s, notice)
		want := ""
		for i := range 1000 {
			require.Zero(t, write(t, w, line(i)))
			want += line(i)
			require.Equal(t, want, s.String())
		}
		require.Zero(t, write(t, w, ""))
		w.Close(time.Minute)
		w.Close(time.Minute)
		require.Equal(t, want, s.String())
		require.Zero(t, w.Dropped())
		_, err := io.WriteString(w, "late\n")
		require.ErrorIs(t, err, io.ErrClosedPipe)
	})
}

// A log that nobody reads blocked whoever wrote a line, for ever.
func TestWriter_Stuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{stuck: make(chan struct{})}
		w := New(s, notice)
		require.Equal(t, 100*time.Millisecond, write(t, w, line(0)), "it waits a little, once")
		total, kept := 200_000, 1<<20/len(line(0))
		for i := 1; i < total; i++ {
			require.Zero(t, write(t, w, line(i)))
		}
		require.Equal(t, total-1-kept, int(w.Dropped()))
		require.LessOrEqual(t, cap(w.mu.pending), 2*maxPending)
		release := s.stuck
		s.set(func() { s.stuck = nil })
		close(release)
		synctest.Wait()
		var want strings.Builder
		for i := range 1 + kept {
			want.WriteString(line(i))
		}
		fmt.Fprintf(&want, "%d dropped\n", total-1-kept)
		require.True(t, want.String() == s.String(), "in order, and what is missing is said where it is missing") //nolint:testifylint // it is long
		require.Zero(t, write(t, w, "again\n"))
		require.True(t, strings.HasSuffix(s.String(), " dropped\nagain\n"), "lines are out at once again")
		require.Zero(t, cap(w.mu.pending)/(2*keptBuffer), "what was needed while it was stuck is given back")
		w.Close(time.Minute)
	})
}

// Of lines of different lengths none is kept that came after one that was dropped: what is
// missing is missing in one place.
func TestWriter_Lengths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{stuck: make(chan struct{})}
		w := New(s, notice)
		long := strings.Repeat("x", 2*maxPending) + "\n"
		write(t, w, "first\n")
		write(t, w, long)
		write(t, w, "short\n")
		write(t, w, long)
		write(t, w, "short\n")
		require.EqualValues(t, 3, w.Dropped())
		close(s.stuck)
		synctest.Wait()
		require.True(t, s.String() == "first\n"+long+"3 dropped\n", "a line that is longer than the buffer is a line too") //nolint:testifylint // it is long

		s.set(func() { s.stuck = make(chan struct{}) })
		write(t, w, "second\n")
		write(t, w, "third\n")
		write(t, w, long)
		write(t, w, "fourth\n")
		close(s.stuck)
		synctest.Wait()
		require.True(t, strings.HasSuffix(s.String(), "3 dropped\nsecond\nthird\n2 dropped\n"), "it comes after those that were kept")
		w.Close(time.Minute)
	})
}

// A log that is read slowly delays a line now and then, and not each.
func TestWriter_Slow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{per: time.Second}
		w := New(s, notice)
		var waited time.Duration
		for i := range 100 {
			waited += write(t, w, line(i))
			<-time.After(500 * time.Millisecond)
		}
		require.Equal(t, 100*time.Millisecond, waited, "once, since it never catches up")
		w.Close(time.Minute)
		require.Equal(t, 100, strings.Count(s.text.String(), "line"), "they are written together")
		require.Zero(t, w.Dropped())
	})
}

type slow struct {
	per  time.Duration
	text bytes.Buffer
}

func (s *slow) Write(p []byte) (int, error) {
	<-time.After(s.per)
	return s.text.Write(p)
}

// Close writes what is left, but doesn't wait for ever.
func TestWriter_Close(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{stuck: make(chan struct{})}
		w := New(s, notice)
		write(t, w, line(0))
		write(t, w, line(1))
		begin := time.Now()
		w.Close(3 * time.Second)
		require.Equal(t, 3*time.Second, time.Since(begin))
		go func() { <-time.After(time.Second); close(s.stuck) }()
		w.Close(3 * time.Second)
		require.Equal(t, 4*time.Second, time.Since(begin))
		require.Equal(t, line(0)+line(1), s.String())
	})
}

// Lines that can't be written, since a disk is full say, are counted and told of too.
func TestWriter_Failing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{}
		w := New(s, notice)
		write(t, w, line(0))
		s.set(func() { s.err = errors.New("full") })
		require.Zero(t, write(t, w, line(1)))
		require.Zero(t, write(t, w, line(2)))
		require.EqualValues(t, 2, w.Dropped())
		s.set(func() { s.err = nil })
		write(t, w, line(3))
		require.Equal(t, line(0)+"2 dropped\n"+line(3), s.String())
		w.Close(time.Minute)
		require.EqualValues(t, 2, w.Dropped())
	})
}

// Whoever logs at the same time keeps the order of its own lines.
func TestWriter_Concurrent(t *testing.T) {
	s := &sink{}
	w := New(s, notice)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				_, _ = fmt.Fprintf(w, "%d %d\n", g, i)
			}
		})
	}
	wg.Wait()
	w.Close(time.Minute)
	next := map[int]int{}
	for text := range strings.Lines(s.String()) {
		var g, i int
		_, err := fmt.Sscanf(text, "%d %d", &g, &i)
		require.NoError(t, err)
		require.Equal(t, next[g], i)
		next[g]++
	}
	require.Len(t, next, 8)
	for _, n := range next {
		require.Equal(t, 500, n)
	}
	require.Zero(t, w.Dropped())
}

// A line costs no memory of its own.
func TestWriter_Allocations(t *testing.T) {
	w := New(io.Discard, notice)
	defer w.Close(time.Minute)
	text := []byte(line(1))
	_, _ = w.Write(text)
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = w.Write(text) }))
}

func BenchmarkWrite(b *testing.B) {
	w := New(io.Discard, notice)
	defer w.Close(time.Minute)
	text := []byte(line(1))
	b.ReportAllocs()
	for b.Loop() {
		_, _ = w.Write(text)
	}
}
