package window

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/engine/explain"
	"github.com/roperator/roperator/internal/engine/journal"
	"github.com/roperator/roperator/internal/engine/view"
)

const parentPath = "/window/parent?operator=sites&namespace=shop&name=a"

// family returns one that has a version and a number of failures.
func family(version string, failures int) *view.Family {
	return &view.Family{Version: version, Process: explain.Process{Held: true, Failures: failures}, Passes: []journal.Pass{}, Events: []journal.Event{}}
}

// parentBegins is the first event of a stream of a parent.
const parentBegins = `begin {"operator":"sites"}`

func familyOf(failures int) string {
	if failures == 0 {
		return `family {"process":{"leading":false,"held":true,"running":false,"queued":false},"passes":[],"events":[]}`
	}
	return fmt.Sprintf(`family {"process":{"leading":false,"held":true,"running":false,"queued":false,"failures":%d},"passes":[],"events":[]}`, failures)
}

// reasons returns the reasons of explanations.
func reasons(t *testing.T, events []string) (out []string) {
	t.Helper()
	for _, data := range only(events, "explanation") {
		var e explain.Explanation
		require.NoError(t, json.Unmarshal([]byte(data), &e))
		out = append(out, e.Parent.Reason)
	}
	return out
}

// A client is told of a family when it changes, and of an explanation when its version does.
func TestParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		source.know("shop/a", family("1", 0))
		w, log := opened(t, source)
		v := visit(t, w, parentPath)
		pass(100 * time.Millisecond)
		events := v.events()
		require.Equal(t, parentBegins, events[0])
		require.ElementsMatch(t, []string{"begin", "family", "explanation"}, names(events))
		require.Contains(t, events, familyOf(0))
		require.Equal(t, []string{"1"}, reasons(t, events))
		require.EqualValues(t, 1, source.taps.Load())
		require.Zero(t, source.releases.Load())

		pass(10 * time.Second)
		require.Empty(t, v.events(), "nothing has changed")
		require.EqualValues(t, 11, source.families.Load())
		source.know("shop/a", family("1", 2))
		pass(5 * time.Second)
		require.Equal(t, []string{familyOf(2)}, v.events(), "of the same version: what an explanation says is the same")
		source.know("shop/a", family("2", 3))
		pass(time.Second)
		events = v.events()
		require.ElementsMatch(t, []string{"family", "explanation"}, names(events))
		require.Equal(t, []string{"2"}, reasons(t, events))
		v.leave()
		require.EqualValues(t, 1, source.releases.Load())
		looked := source.families.Load()
		pass(time.Minute)
		require.Equal(t, looked, source.families.Load(), "nobody looks")
		require.EqualValues(t, 2, source.explains.Load())
		require.Empty(t, log.String())
	})
}

// A parent that changes all the time is explained once in two seconds, and what the process knew then is
// told to Explain.
func TestParent_Restless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		var failures atomic.Int64
		source.explain = func(_ context.Context, known explain.Process) (explain.Explanation, error) {
			failures.Store(int64(known.Failures))
			return explanationOf("a", fmt.Sprint(known.Failures)), nil
		}
		source.know("shop/a", family("0", 0))
		w, _ := opened(t, source)
		v := visit(t, w, parentPath)
		pass(100 * time.Millisecond)
		for i := range 20 {
			source.know("shop/a", family(fmt.Sprint(i+1), i+1))
			pass(time.Second)
		}
		events := v.events()
		require.Len(t, only(events, "family"), 21)
		require.InDelta(t, 11, source.explains.Load(), 1)
		pass(2 * time.Second)
		require.EqualValues(t, 20, failures.Load(), "the last change is explained")
	})
}

// While an explanation is under way, the family is told, and no other explanation begins. Its context ends with the stream.
func TestParent_SlowExplanation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		var underWay, most, canceled atomic.Int32
		source.explain = func(ctx context.Context, _ explain.Process) (explain.Explanation, error) {
			most.Store(max(most.Load(), underWay.Add(1)))
			defer underWay.Add(-1)
			<-ctx.Done()
			canceled.Add(1)
			return explain.Explanation{}, ctx.Err()
		}
		source.know("shop/a", family("0", 0))
		w, _ := opened(t, source)
		v := visit(t, w, parentPath)
		pass(100 * time.Millisecond)
		for i := range 5 {
			source.know("shop/a", family(fmt.Sprint(i+1), i+1))
			pass(time.Second)
		}
		require.Len(t, v.named("family"), 6)
		require.EqualValues(t, 1, source.explains.Load())
		v.leave()
		require.EqualValues(t, 1, canceled.Load())
		require.Empty(t, v.events(), "nobody is told of the canceled one")

		var all []*visitor
		for range 10 {
			all = append(all, visit(t, w, parentPath))
		}
		pass(5 * time.Second)
		require.EqualValues(t, maxExplaining, most.Load())
		for _, v := range all {
			require.Equal(t, []string{"begin", "family"}, names(v.events()))
			v.leave()
		}
		require.Zero(t, underWay.Load())
		require.Empty(t, w.explain)
	})
}

// Those that wait for the places of others are explained when there is room.
func TestParent_ExplanationsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		source.explain = func(context.Context, explain.Process) (explain.Explanation, error) {
			<-time.After(time.Second)
			return explanationOf("a", ""), nil
		}
		source.know("shop/a", family("0", 0))
		w, _ := opened(t, source)
		var all []*visitor
		for range 3 * maxExplaining {
			all = append(all, visit(t, w, parentPath))
		}
		pass(3*time.Second + 100*time.Millisecond)
		for _, v := range all {
			require.Len(t, v.named("explanation"), 1)
		}
		require.EqualValues(t, 3*maxExplaining, source.explains.Load())
	})
}

// Where there is no explanation, the client is told why, and it is tried again though nothing changes.
func TestParent_Problem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		var fails atomic.Bool
		fails.Store(true)
		source.explain = func(context.Context, explain.Process) (explain.Explanation, error) {
			if fails.Load() {
				return explain.Explanation{}, fmt.Errorf("sites: %w", errFake)
			}
			return explanationOf("a", ""), nil
		}
		source.know("shop/a", family("0", 0))
		w, log := opened(t, source)
		v := visit(t, w, parentPath)
		pass(100 * time.Millisecond)
		require.Equal(t, []string{`{"error":"sites: fake: the API server is away"}`}, v.named("problem"))
		pass(8 * time.Second)
		require.Empty(t, v.events())
		fails.Store(false)
		pass(5 * time.Second)
		require.Equal(t, []string{"explanation"}, names(v.events()))
		pass(time.Minute)
		require.Empty(t, v.named("explanation"))
		require.EqualValues(t, 2, source.explains.Load())
		require.Empty(t, log.String())
	})
}

// A parent that isn't known is told of once, and so is one that comes to be, and goes again.
func TestParent_Unknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		source.explain = func(context.Context, explain.Process) (explain.Explanation, error) {
			return explain.Explanation{}, errors.New("Site shop/a: not found")
		}
		w, _ := opened(t, source)
		v := visit(t, w, parentPath)
		without := func() (out []string) { // problems, which may come at any time
			for _, each := range v.events() {
				if names([]string{each})[0] != "problem" && each != ":" {
					out = append(out, each)
				}
			}
			return out
		}
		pass(5100 * time.Millisecond)
		require.Equal(t, []string{parentBegins, "unknown {}"}, without())
		source.know("shop/a", family("1", 0))
		pass(5 * time.Second)
		require.Equal(t, []string{familyOf(0)}, without())
		source.know("shop/a", nil)
		pass(5 * time.Second)
		require.Equal(t, []string{"unknown {}"}, without())
		source.know("shop/a", family("1", 0))
		pass(5 * time.Second)
		require.Equal(t, []string{familyOf(0)}, without(), "the same as before is told again")
	})
}

func TestParent_KeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		source.know("shop/a", family("1", 0))
		w, _ := opened(t, source)
		v := visit(t, w, parentPath)
		pass(100 * time.Millisecond)
		v.events()
		pass(time.Minute)
		require.Equal(t, []string{":", ":", ":", ":"}, v.events())
		v.stick(true)
		pass(15*time.Second + patience)
		require.True(t, v.hasEnded(), "it takes nothing")
		require.EqualValues(t, 1, source.releases.Load())
	})
}
