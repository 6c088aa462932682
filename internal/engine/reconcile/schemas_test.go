package reconcile

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/internal/testing/settings"
	"github.com/roperator/roperator/resource/k8s"
)

// A change of a CustomResourceDefinition may be what a parent needs whose child was rejected, up to ten minutes
// before its next retry.
func TestSchemaChanged(t *testing.T) {
	const never = -1
	again := schedule.Outcome{Err: true, RetryAfter: time.Hour}
	for name, tc := range map[string]struct {
		reason string
		child  bool             // the parent has a child of the type
		last   schedule.Outcome // of its last reconciliation
		after  time.Duration    // when the schema changes, after that
		want   time.Duration    // when the parent is reconciled, after the change
		as     schedule.Priority
	}{
		"Settled with a child":    {"it may differ from now on, as that of all others", true, schedule.Outcome{}, time.Minute, 0, schedule.Backlog},
		"Settled without a child": {"nothing has changed for it", false, schedule.Outcome{}, time.Minute, never, schedule.Backlog},
		"Failing with a child":    {"its update may be accepted now", true, again, time.Minute, 0, schedule.Fresh},
		"Failing without a child": {"its create may be accepted now", false, again, time.Minute, 0, schedule.Fresh},
		"Failed a moment ago":     {"no earlier than after any other change", false, again, 0, time.Second, schedule.Fresh},
		"Permanent":               {"it is as any other external change (S94)", false, schedule.Outcome{Err: true, Permanent: true}, time.Minute, 0, schedule.Fresh},
		"In a conflict loop":      {"a loop that goes on stays slow", true, schedule.Outcome{Throttled: true}, 0, time.Second, schedule.Backlog},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := testEngine(t, settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace}), handler.SyncFunc(nil))
				defer e.queue.Close()
				e.store.Observe(store.Stream{Type: sample.ParentType()}, sample.Object(t, sample.ParentType(), "p", "p", 1, ""))
				if tc.child {
					e.store.Observe(store.Stream{Type: k8s.ConfigMap}, sample.Object(t, k8s.ConfigMap, "c", "c", 1, "p"))
				}
				e.queue.Add("p", schedule.Fresh, "begin", 0)
				due, _ := e.queue.Next(t.Context())
				require.Equal(t, types.UID("p"), due.UID)
				e.queue.Done("p", tc.last)
				<-time.After(tc.after)
				e.schemaChanged(k8s.ConfigMap)
				start := time.Now()
				taken := make(chan schedule.Due, 1)
				go func() {
					d, _ := e.queue.Next(t.Context()) // until the queue is closed
					taken <- d
				}()
				select {
				case due = <-taken:
					require.Equal(t, tc.want, time.Since(start).Truncate(time.Second), tc.reason)
					require.Equal(t, tc.as, due.Priority, tc.reason)
				case <-time.After(30 * time.Minute):
					require.EqualValues(t, never, tc.want, tc.reason)
				}
			})
		})
	}
}
