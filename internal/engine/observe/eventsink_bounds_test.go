package observe

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/internal/apierror"
)

// An API server that doesn't answer never holds up a pass: what the queue has no room for
// is dropped.
func TestEventSink_NeverBlocks(t *testing.T) {
	withEventSink(t, func(s *EventSink, server *eventServer) {
		answered := make(chan struct{})
		server.failing(func() (*metav1.Status, error) { <-answered; return nil, http.ErrHandlerTimeout })
		begin := time.Now()
		for i := range 2 * maxEventQueue {
			s.record(someEvent(fmt.Sprint(i)))
		}
		require.Zero(t, time.Since(begin))
		require.LessOrEqual(t, s.Pending(), maxEventQueue+1)
		close(answered)
	})
}

// An Event that may not be written without the lease isn't tried again: that process
// leads no more.
func TestEventSink_WithoutTheLease(t *testing.T) {
	withEventSink(t, func(s *EventSink, server *eventServer) {
		tries := 0
		server.failing(func() (*metav1.Status, error) { tries++; return nil, apierror.ErrNoLease })
		s.record(someEvent("a"))
		<-time.After(time.Minute)
		synctest.Wait()
		require.Equal(t, 1, tries)
	})
}

// The Events that later ones are compared with don't grow without bound, however many
// parents there are.
func TestEventSink_SeriesAreBounded(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		reason string
		old    int // how many of the series are over
		left   int
	}{
		"Over":       {"those that are over go", 1000, maxEventSeries - 1000},
		"All recent": {"all go, and are told anew", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := &EventSink{series: map[eventKey]*eventSeries{}}
			for i := range maxEventSeries {
				last := now
				if i < tc.old {
					last = now.Add(-2 * eventSeriesGap)
				}
				s.series[eventKey{regarding: types.UID(fmt.Sprint(i))}] = &eventSeries{last: last}
			}
			s.sweep(now)
			require.Len(t, s.series, tc.left, tc.reason)
		})
	}
}
