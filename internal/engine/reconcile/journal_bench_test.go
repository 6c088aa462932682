package reconcile

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/internal/engine/journal"
	"github.com/roperator/roperator/internal/engine/schedule"
	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// fullJournal returns a journal in which a new pass takes the place of an older one.
func fullJournal() *journal.Journal {
	j := journal.New()
	for n := range 20_000 {
		j.Note(types.UID(fmt.Sprint("other-", n)), journal.Entry{Start: time.Unix(int64(n), 0)})
	}
	return j
}

// TestJournalCostsNoAllocation: a pass allocates as much with a window as without one.
func TestJournalCostsNoAllocation(t *testing.T) {
	allocs := func(j *journal.Journal) float64 {
		e, uid := settledEngine(t, 3, 0)
		e.journal = j
		pass := func() { e.sync(context.Background(), "", schedule.Due{UID: uid, Trigger: "resync"}) }
		for range 2 * journal.PassesOfParent {
			pass()
		}
		return mallocsPerRun(2000, pass)
	}
	without, with := allocs(nil), allocs(fullJournal())
	require.InDelta(t, without, with, 0.5)
}

// mallocsPerRun is testing.AllocsPerRun with its fraction. A pass takes buffers from pools, of which
// the race detector drops some by chance, so that whole numbers differ by one now and then.
func mallocsPerRun(runs int, run func()) float64 {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		run()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(runs)
}

// TestJournalForgets: nothing is kept of a parent that is gone.
func TestJournalForgets(t *testing.T) {
	e, uid := settledEngine(t, 3, 0)
	e.journal = journal.New()
	e.sync(context.Background(), "", schedule.Due{UID: uid, Trigger: "resync"})
	require.Len(t, e.journal.Passes(uid), 1)
	e.forget(uid)
	require.Empty(t, e.journal.Passes(uid))
}

// BenchmarkWindow is a pass that finds nothing to do, with and without what is kept for a window.
func BenchmarkWindow(b *testing.B) {
	for name, j := range map[string]*journal.Journal{"without": nil, "with": fullJournal()} {
		b.Run(name, func(b *testing.B) {
			e, uid := settledEngine(b, 3, 500)
			e.journal = j
			b.ReportAllocs()
			for b.Loop() {
				e.sync(context.Background(), "", schedule.Due{UID: uid, Trigger: "resync"})
			}
		})
	}
}

// BenchmarkSurvey is a look at 10,000 parents with three children each, which somebody who looks at the
// overview costs once a second: the first one, and one after nothing has changed.
func BenchmarkSurvey(b *testing.B) {
	e, _ := settledEngine(b, 3, 500)
	for i := range 10_000 {
		owner := fmt.Sprintf("other-%d", i)
		e.store.Observe(store.Stream{Type: sample.ParentType()}, sample.Object(b, sample.ParentType(), owner, owner, 1, ""))
		for c := range 3 {
			name := fmt.Sprintf("%s-%d", owner, c)
			e.store.Observe(store.Stream{Type: k8s.ConfigMap}, sample.Object(b, k8s.ConfigMap, name, name, 1, owner))
		}
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			e.survey.mu.families, e.survey.mu.order = nil, nil
			e.Survey()
		}
	})
	b.Run("again", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			e.Survey()
		}
	})
}
