package recording

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
)

func TestTap_Bounds(t *testing.T) {
	t.Parallel()
	size := func(n int) int { // of the line of call n
		text, err := Encode(Call{Kind: KindSync, Request: about(t, "one"), Response: &handler.SyncResponse{Status: n}}, Alike)
		require.NoError(t, err)
		return len(text)
	}
	for name, tc := range map[string]struct {
		reason        string
		max, maxBytes int
		calls         []int
		want          []int
	}{
		"room":       {"all are kept", 3, 1 << 20, []int{1, 2, 3}, []int{1, 2, 3}},
		"number":     {"the newest are kept", 3, 1 << 20, []int{1, 2, 3, 4, 5}, []int{3, 4, 5}},
		"bytes":      {"the newest are kept", 10, 2 * size(1), []int{1, 2, 3}, []int{2, 3}},
		"a large":    {"it takes the room of several", 10, 3*size(1) + 1, []int{1, 2, 3, 10_000}, []int{3, 10_000}},
		"too large":  {"it would leave nothing", 10, size(1), []int{1, 10_000}, []int{1}},
		"no lines":   {"nothing is kept", 0, 1 << 20, []int{1}, nil},
		"no bytes":   {"nothing is kept", 10, 0, []int{1}, nil},
		"just right": {"the bound is included", 10, size(1), []int{1, 2}, []int{2}},
	} {
		t.Run(name, func(t *testing.T) {
			tap := NewTap(tc.max, tc.maxBytes)
			defer tap.Open(named("one"))()
			for _, n := range tc.calls {
				syncing(tap.Handler(answering(&handler.SyncResponse{Status: n}, nil)), about(t, "one"))
			}
			var got []int
			sum := 0
			for _, text := range tap.Calls(named("one")) {
				got = append(got, int(read(t, text).Response.Status.(float64)))
				sum += len(text)
			}
			require.Equal(t, tc.want, got, tc.reason)
			require.Equal(t, sum, tap.mu.parents[named("one")].bytes)
		})
	}
}

// TestTap_Parents: many who look can't make a process keep ever more.
func TestTap_Parents(t *testing.T) {
	t.Parallel()
	tap := NewTap(10, 1<<20)
	h := tap.Handler(answering(&handler.SyncResponse{}, nil))
	var releases []func()
	for i := range maxTapped + 1 {
		releases = append(releases, tap.Open(named(fmt.Sprint("p", i))))
		syncing(h, about(t, fmt.Sprint("p", i)))
	}
	require.Len(t, tap.Calls(named("p0")), 1)
	require.Empty(t, tap.Calls(named("p16")), "it is one too many")
	releases[16]()
	require.Len(t, tap.mu.parents, maxTapped)
	again := tap.Open(named("p0"))
	require.Len(t, tap.mu.parents, maxTapped, "a parent that is tapped needs no room")
	releases[0]()
	again()
	defer tap.Open(named("p16"))()
	syncing(h, about(t, "p16"))
	require.Len(t, tap.Calls(named("p16")), 1, "there is room again")
	for _, release := range releases {
		release()
	}
	require.Len(t, tap.mu.parents, 1)
	require.EqualValues(t, 1, tap.open.Load())
}

func TestTap_Concurrently(t *testing.T) {
	t.Parallel()
	tap := NewTap(5, 1<<20)
	h := tap.Handler(answering(&handler.SyncResponse{Status: map[string]any{"a": 1}}, nil))
	var requests []*handler.SyncRequest
	for i := range maxTapped + 4 {
		requests = append(requests, about(t, fmt.Sprint("p", i)))
	}
	var wg sync.WaitGroup
	for _, req := range requests {
		parent := req.Parent.Key()
		wg.Go(func() {
			for range 50 {
				if _, err := h.Sync(context.Background(), req); err != nil {
					t.Error(err)
				}
			}
		})
		for range 2 {
			wg.Go(func() {
				for range 50 {
					release := tap.Open(parent)
					if err := tap.Write(&bytes.Buffer{}, tap.Calls(parent)); err != nil || len(tap.Calls(parent)) > 5 {
						t.Errorf("too many lines, or %v", err)
					}
					release()
				}
			})
		}
	}
	wg.Wait()
	require.Zero(t, tap.open.Load())
	require.Empty(t, tap.mu.parents)
}
