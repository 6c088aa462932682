package soak

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/plane"
)

// ignoreAbsent is for an object that isn't there yet.
func ignoreAbsent(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// A worker is a handler whose children's names end with suffix. The first one
// has the status, which only one operator can.
type worker struct {
	suffix string
	first  bool
}

// Sync is handler.Handler's.
func (w *worker) Sync(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	value, _ := req.Parent.Field("spec", "value")
	port, _ := req.Parent.Field("spec", "port")
	name := req.Parent.Name() + w.suffix
	meta := map[string]any{"name": name, "labels": map[string]any{"app": name}}
	resp := &handler.SyncResponse{
		Children: []any{
			map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": map[string]any{"value": value}},
			map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": map[string]any{"value": base64.StdEncoding.EncodeToString(fmt.Append(nil, value))}},
			map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": map[string]any{
				"selector": map[string]any{"app": name}, "ports": []any{map[string]any{"name": "main", "port": port}},
			}},
		},
		Events: []handler.Event{{Type: "Normal", Reason: "Seen", Message: fmt.Sprint("at port ", port)}},
	}
	if w.first {
		resp.Status = map[string]any{"value": value, "children": req.Children.Len()}
	}
	return resp, nil
}

// Finalize is handler.Handler's.
func (w *worker) Finalize(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	return &handler.FinalizeResponse{Finalized: true}, nil
}

// TestSoak is make soak.
func TestSoak(t *testing.T) {
	minutes, err := strconv.ParseFloat(os.Getenv("SOAK_MINUTES"), 64)
	if err != nil {
		t.Skip("needs SOAK_MINUTES: make soak sets it")
	}
	operators, err := strconv.Atoi(os.Getenv("SOAK_OPERATORS"))
	if err != nil {
		operators = 1
	}
	total := time.Duration(minutes * float64(time.Minute))
	warmUp := min(total/4, 2*time.Minute)
	s := begin(t, operators)
	s.churn(t.Context(), t, warmUp, 150*time.Millisecond)
	first := s.rest(t)
	fmt.Printf("soak: warm after %v: %v\n", warmUp, first)
	for range 4 {
		s.churn(t.Context(), t, (total-warmUp)/4, 150*time.Millisecond)
		fmt.Printf("soak: parents=%d %v\n", s.lives.Load(), s.rest(t))
	}
	last, grown := s.back(t, first)
	verdict := "ok"
	if len(grown) > 0 {
		verdict = "LEAKS"
	}
	fmt.Printf("soak: minutes=%v parents=%d heap=%.1fMB→%.1fMB goroutines=%d→%d files=%d→%d series=%d→%d %s\n", minutes, s.lives.Load(),
		float64(first.heap)/1e6, float64(last.heap)/1e6, first.goroutines, last.goroutines, first.files, last.files, first.series, last.series, verdict)
	require.Empty(t, grown)
}

// TestSmoke is the same without an eye on times: 40 parents, then 80 more.
func TestSmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	s := begin(t, 2)
	s.crowd(t.Context(), t, 40)
	first := s.rest(t)
	s.crowd(t.Context(), t, 80)
	last, grown := s.back(t, first)
	require.Empty(t, grown, "%v, then %v", first, last)
	require.NotZero(t, first.sizes["remembered parents"], "there is something to see")
}

// begin returns a stage at rest, which ends with the test.
func begin(t *testing.T, operators int) *stage {
	t.Helper()
	for _, program := range []string{"etcd", "kube-apiserver", "kube-controller-manager"} {
		if _, err := plane.Binary(program); err != nil {
			if os.Getenv("CI") == "true" {
				require.NoError(t, err)
			}
			t.Skip(err)
		}
	}
	p, err := plane.New(plane.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(p.Stop)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, p.Start(ctx))
	require.NoError(t, p.StartControllerManager(plane.GarbageCollector))
	s := &stage{}
	s.api, err = newClient(p.Config())
	require.NoError(t, err)
	require.NoError(t, s.prepare(ctx))
	require.NoError(t, s.start(p.Config(), operators))
	err = s.settle(t.Context(), residents)
	// Somebody else may have taken the port, and the API server may be busy.
	for err != nil && (strings.Contains(err.Error(), "address already in use") || errors.Is(err, context.DeadlineExceeded)) {
		s.runner.stop()
		require.NoError(t, s.start(p.Config(), operators))
		err = s.settle(t.Context(), residents)
	}
	t.Cleanup(func() {
		s.runner.stop()
		require.NoError(t, <-s.runner.ended)
	})
	require.NoError(t, err)
	return s
}

// rest waits until nothing goes on, and measures.
func (s *stage) rest(t *testing.T) *measure {
	t.Helper()
	require.NoError(t, s.settle(t.Context(), residents))
	m, err := s.measure(t.Context())
	require.NoError(t, err)
	return m
}

// back waits until nothing is more than it was first: a leak stays, whereas what
// the watches have yet to tell of, or a connection that has just been closed,
// goes. It returns the last measure, and what there was too much of in it.
func (s *stage) back(t *testing.T, first *measure) (last *measure, grown []string) {
	t.Helper()
	_ = plane.Until(t.Context(), patience, func() error { // grown tells
		last = s.rest(t)
		if grown = last.grown(first); len(grown) > 0 {
			return errors.New(grown[0])
		}
		return nil
	})
	return last, grown
}

// churn lets parents come and go for a time, a few at once.
func (s *stage) churn(ctx context.Context, t *testing.T, d, pause time.Duration) {
	t.Helper()
	end := time.Now().Add(d)
	s.together(ctx, t, func() bool { return time.Now().Before(end) }, pause)
}

// crowd lets that many come and go.
func (s *stage) crowd(ctx context.Context, t *testing.T, n int64) {
	t.Helper()
	limit := s.lives.Load() + n
	s.together(ctx, t, func() bool { return s.lives.Load() < limit }, 50*time.Millisecond)
}

func (s *stage) together(ctx context.Context, t *testing.T, more func() bool, pause time.Duration) {
	t.Helper()
	var all sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		all.Go(func() {
			for more() && errs[i] == nil {
				errs[i] = s.life(ctx, pause)
			}
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
}

func TestGrown(t *testing.T) {
	begin := measure{heap: 40 << 20, goroutines: 100, files: 20, series: 200, sizes: map[string]int{"timers": 5}}
	cases := map[string]struct {
		reason string
		end    measure
		want   string // "": nothing
	}{
		"same":       {reason: "everything is where it was", end: begin},
		"less":       {reason: "what shrinks is no leak", end: measure{}},
		"within":     {reason: "caches may fill", end: measure{heap: 45 << 20, goroutines: 105, files: 22, series: 220, sizes: map[string]int{"timers": 5}}},
		"heap":       {reason: "more than a quarter and 3 MiB", end: measure{heap: 60 << 20}, want: "heap: "},
		"goroutines": {reason: "one for each parent, say", end: measure{goroutines: 150}, want: "goroutines: 150, and 100 at the beginning"},
		"files":      {reason: "connections that stay open", end: measure{files: 40}, want: "open files: 40"},
		"series":     {reason: "a label that has a parent's name", end: measure{series: 900}, want: "metric series: 900"},
		"sizes":      {reason: "a single parent that wasn't forgotten", end: measure{sizes: map[string]int{"timers": 6}}, want: "timers: 6"},
		"new size":   {reason: "of a map that was empty", end: measure{sizes: map[string]int{"waiting": 1}}, want: "waiting: 1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			grown := c.end.grown(&begin)
			if c.want == "" {
				require.Empty(t, grown, c.reason)
				return
			}
			require.Len(t, grown, 1, c.reason)
			require.Contains(t, grown[0], c.want, c.reason)
		})
	}
}
