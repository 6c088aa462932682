package window

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/engine/explain"
	"github.com/roperator/roperator/internal/engine/journal"
	"github.com/roperator/roperator/internal/engine/view"
)

// explainedAt has the source note when it is asked for explanations, and returns these times.
func explainedAt(source *fakeSource, err error) func() []time.Time {
	var mu sync.Mutex
	var at []time.Time
	source.explain = func(context.Context, explain.Process) (explain.Explanation, error) {
		mu.Lock()
		defer mu.Unlock()
		at = append(at, time.Now())
		return explanationOf("a", ""), err
	}
	return func() []time.Time {
		mu.Lock()
		defer mu.Unlock()
		return append([]time.Time{}, at...)
	}
}

// Two explanations of a stream are so far apart: two seconds if the parent changes, ten if the one before has
// failed and nothing changes.
func TestSpacing_Explanations(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		changes bool
		err     error
		want    time.Duration // between two
	}{
		"Changes":           {"each second", true, nil, 2 * time.Second},
		"Fails":             {"and nothing changes", false, errFake, 10 * time.Second},
		"Fails and changes": {"a change doesn't wait for the second try", true, errFake, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := newSource()
				times := explainedAt(source, tc.err)
				source.know("shop/a", family("0", 0))
				w, _ := opened(t, source)
				visit(t, w, parentPath)
				for i := range 60 {
					if tc.changes {
						source.know("shop/a", family(strings.Repeat("v", i+1), i))
					}
					pass(time.Second)
				}
				at := times()
				require.Greater(t, len(at), 4, tc.reason)
				for i := range at[1:] {
					between := at[i+1].Sub(at[i])
					require.GreaterOrEqual(t, between, tc.want, tc.reason)
					require.LessOrEqual(t, between, tc.want+time.Second, tc.reason)
				}
			})
		})
	}
}

// A deadlineNoter notes how much time it is given for each write, and fails after so many.
type deadlineNoter struct {
	header http.Header
	given  []time.Duration
	writes int
	good   int // writes that don't fail
}

func (d *deadlineNoter) Header() http.Header { return d.header }
func (*deadlineNoter) WriteHeader(int)       {}
func (*deadlineNoter) Flush()                {}

func (d *deadlineNoter) Write(p []byte) (int, error) {
	if d.writes++; d.writes > d.good {
		return 0, errors.New("broken pipe")
	}
	return len(p), nil
}

func (d *deadlineNoter) SetWriteDeadline(at time.Time) error {
	d.given = append(d.given, time.Until(at))
	return nil
}

// A client has ten seconds for each write anew, and one that can't be written to is written to no more.
func TestSpacing_Deadlines(t *testing.T) {
	for name, path := range map[string]string{"Overview": overviewPath, "Parent": parentPath} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := newSource()
				source.know("shop/a", family("0", 0))
				w, log := opened(t, source)
				client := &deadlineNoter{header: http.Header{}, good: 4}
				ended := make(chan struct{})
				go func() { // ends when a write fails
					defer close(ended)
					req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
					if err == nil {
						req.Host = "localhost"
						w.ServeHTTP(client, req)
					}
				}()
				<-ended
				require.Equal(t, 5, client.writes, "none after the one that has failed")
				require.Len(t, client.given, 5, "one deadline for each write")
				for _, each := range client.given {
					require.Equal(t, 10*time.Second, each)
				}
				require.Equal(t, source.taps.Load(), source.releases.Load())
				require.True(t, w.hubs["sites"].idle())
				require.Empty(t, w.mu.open)
				require.Empty(t, log.String(), "a client that goes is nothing to complain of")
			})
		})
	}
}

// A plan is possible again after one that was given up, failed or panicked.
func TestSpacing_PlanAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		first  func(ctx context.Context) error
		leaves bool
	}{
		"Client":  {"its client has gone", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, true},
		"Failure": {"it has failed", func(context.Context) error { return errFake }, false},
		"Panic":   {"it has panicked", func(context.Context) error { panic("hidden treasure") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := newSource()
				source.plan = func(ctx context.Context, _ func(view.Planned, int)) error { return tc.first(ctx) }
				w, _ := opened(t, source)
				first := visit(t, w, planPath)
				synctest.Wait()
				if tc.leaves {
					first.leave()
				}
				<-first.ended
				source.plan = nil
				second := visit(t, w, planPath)
				<-second.ended
				require.Equal(t, http.StatusOK, second.status(), tc.reason)
				require.Equal(t, []string{"begin", "end"}, names(second.events()), tc.reason)
			})
		})
	}
}

// Whatever is said of a parent by a plan, or of a problem, is one line, and is the same again when it is read.
func TestSpacing_Hostile(t *testing.T) {
	for _, text := range []string{"</script>", "a\nb", "a\r\n\r\nevent: end\ndata: {}\n\n", "\u2028\u2029", "\x00\x1b[2J", "bad \xff\xc3 bytes"} {
		synctest.Test(t, func(t *testing.T) {
			source := newSource()
			source.plan = func(_ context.Context, found func(view.Planned, int)) error {
				found(view.Planned{Name: text, Error: text}, 1)
				return errors.New(text)
			}
			w, _ := opened(t, source)
			v := visit(t, w, planPath)
			<-v.ended
			events := v.events() // which fails if they aren't of two lines each
			require.Equal(t, []string{"begin", "parent", "progress", "problem"}, names(events))
			want := strings.ReplaceAll(strings.ReplaceAll(text, "\xff", "\ufffd"), "\xc3", "\ufffd")
			var planned view.Planned
			require.NoError(t, json.Unmarshal([]byte(only(events, "parent")[0]), &planned))
			require.Equal(t, want, planned.Error)
			require.Equal(t, want, planned.Name)
			var told problem
			require.NoError(t, json.Unmarshal([]byte(only(events, "problem")[0]), &told))
			require.Equal(t, want, told.Error)
		})
	}
}

// A family that is no JSON ends the stream, and the log says so: otherwise nobody would know why it ends again and again.
func TestSpacing_NoJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		f := family("1", 0)
		f.Passes = append(f.Passes, passOf(nan()))
		source.know("shop/a", f)
		w, log := opened(t, source)
		v := visit(t, w, parentPath)
		<-v.ended
		require.NotContains(t, names(v.events()), "family")
		require.Contains(t, log.String(), "event=family")
		require.EqualValues(t, 1, source.releases.Load())
	})
}

// passOf returns a pass that took so long.
func passOf(millis float64) journal.Pass { return journal.Pass{Millis: millis} }
