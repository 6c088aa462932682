package window

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Followers that come and go at once, while looks fail now and then, each leave, never get two looks at once of
// the hub, and leave nothing behind. It is of use with the race detector.
func TestCrowd_ComesAndGoes(t *testing.T) {
	var underWay, calls atomic.Int32
	h := newHub(func() (look, bool) {
		if underWay.Add(1) > 1 {
			t.Error("two looks at once")
		}
		defer underWay.Add(-1)
		for range 100 { // it takes its time
			runtime.Gosched()
		}
		return look{running: true}, calls.Add(1)%7 != 0
	})
	var got atomic.Int32
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() { // ends after so many turns
			random := rand.New(rand.NewPCG(uint64(i), 3))
			for range 300 {
				looks, leave := h.join()
				for range random.IntN(3) {
					runtime.Gosched()
				}
				if random.IntN(2) == 0 { // one comes at once, or the channel is closed
					if _, ok := <-looks; ok {
						got.Add(1)
					}
				}
				leave()
			}
		})
	}
	wg.Wait()
	require.Positive(t, got.Load())
	require.True(t, h.idle())
	require.Zero(t, underWay.Load())
}

// Streams that come while the window is closed are served and ended, or refused, and nothing else.
func TestCrowd_ComesWhileClosed(t *testing.T) {
	for range 30 {
		source := newSource()
		w, _ := opened(t, source)
		var wg sync.WaitGroup
		var odd atomic.Int32
		for range 20 {
			wg.Go(func() { // ends with the window
				v := visit(t, w, parentPath)
				<-v.ended
				if status := v.status(); status != 200 && status != 503 {
					odd.Add(1)
				}
			})
		}
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() { // ends at once
			defer cancel()
			w.Close()
		})
		<-ctx.Done()
		wg.Wait()
		require.Zero(t, odd.Load())
		require.Empty(t, w.mu.open)
		require.Equal(t, source.taps.Load(), source.releases.Load())
	}
}
