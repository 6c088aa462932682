package window

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/engine/view"
	"github.com/roperator/roperator/resource"
)

const planPath = "/window/plan?operator=sites"

// A client is told of those that would change or fail, and of how many there are.
func TestPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		change := plan.Change{Verb: "create", Type: resource.Type{APIVersion: "v1", Kind: "ConfigMap"}, Fields: []plan.FieldChange{{Desired: "<b>\n"}}}
		source.plan = func(_ context.Context, found func(view.Planned, int)) error {
			for i := range 100 {
				p := view.Planned{Namespace: "shop", Name: fmt.Sprint(i), Changes: []plan.Change{}}
				switch i {
				case 3:
					p.Changes = []plan.Change{change, change}
				case 50:
					p.Error = "Site shop/50: <no>"
				}
				<-time.After(10 * time.Millisecond)
				found(p, 100)
			}
			return nil
		}
		w, log := opened(t, source)
		v := visit(t, w, planPath)
		<-v.ended
		events := v.events()
		require.Equal(t, parentBegins, events[0])
		require.Equal(t, `end {"parents":100,"changes":2,"errors":1}`, events[len(events)-1])
		found := only(events, "parent")
		require.Len(t, found, 2)
		var p struct {
			Name    string
			Changes []struct{ Verb string }
			Error   string
		}
		require.NoError(t, json.Unmarshal([]byte(found[0]), &p))
		require.Equal(t, "3", p.Name)
		require.Len(t, p.Changes, 2)
		require.Equal(t, "create", p.Changes[0].Verb)
		require.JSONEq(t, `{"namespace":"shop","name":"50","changes":[],"error":"Site shop/50: <no>"}`, found[1])
		require.NotContains(t, found[1], "<")
		progress := only(events, "progress")
		require.InDelta(t, 5, len(progress), 2, "five a second, and the last")
		require.Equal(t, `{"done":100,"parents":100}`, progress[len(progress)-1])
		require.Empty(t, log.String())
		require.Empty(t, w.plan, "another may begin")
	})
}

// An operator without parents has a plan.
func TestPlan_Empty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := opened(t, newSource())
		v := visit(t, w, planPath)
		<-v.ended
		require.Equal(t, []string{parentBegins, `end {"parents":0,"changes":0,"errors":0}`}, v.events())
	})
}

// There is one plan at a time, of whichever operator. It ends with its client, and with the window.
func TestPlan_Alone(t *testing.T) {
	for name, end := range map[string]func(v *visitor, w *Window){
		"Client": func(v *visitor, _ *Window) { v.cancel() },
		"Window": func(_ *visitor, w *Window) { w.Close() },
		"Slow":   func(v *visitor, _ *Window) { v.stick(true); pass(keepAlive + patience + time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := newSource()
				var cause error
				source.plan = func(ctx context.Context, found func(view.Planned, int)) error {
					found(view.Planned{Name: "a"}, 2)
					<-ctx.Done()
					cause = ctx.Err()
					return cause
				}
				w, _ := opened(t, source)
				v := visit(t, w, planPath)
				pass(time.Second)
				other := visit(t, w, "/window/plan?operator=shops")
				<-other.ended
				require.Equal(t, 503, other.status())
				require.Contains(t, other.text(), "a plan is under way")
				require.Equal(t, "5", other.header.Get("Retry-After"))
				require.False(t, v.hasEnded())

				end(v, w)
				<-v.ended
				require.ErrorIs(t, cause, context.Canceled)
				require.NotContains(t, names(v.events()), "end")
				require.Empty(t, w.plan)
			})
		})
	}
}

// A plan ends as soon as its client has taken nothing for too long.
func TestPlan_Slow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		source.plan = func(ctx context.Context, found func(view.Planned, int)) error {
			<-time.After(time.Second)
			found(view.Planned{Name: "a", Error: "e"}, 2)
			<-ctx.Done()
			return ctx.Err()
		}
		w, _ := opened(t, source)
		v := visit(t, w, planPath)
		pass(time.Second / 2) // the first event has come
		v.stick(true)
		pass(patience)
		require.False(t, v.hasEnded())
		pass(time.Second)
		require.True(t, v.hasEnded())
		require.Equal(t, []string{parentBegins}, v.events())
	})
}

// A plan that takes its time to find the next parent has its stream kept open.
func TestPlan_KeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		source.plan = func(context.Context, func(view.Planned, int)) error {
			<-time.After(59 * time.Second)
			return nil
		}
		w, _ := opened(t, source)
		v := visit(t, w, planPath)
		<-v.ended
		require.Equal(t, []string{"begin", ":", ":", ":", "end"}, names(v.events()))
	})
}

// A client is told why there is no plan, or no complete one.
func TestPlan_Problem(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		fail   func() error
		want   string // what the client is told
		log    string // what the log has; empty: nothing
	}{
		"Error": {"the source says it", func() error { return fmt.Errorf("plan: %w", errFake) }, "plan: fake: the API server is away", ""},
		"Panic": {"the log alone says it", func() error { panic("hidden treasure") }, errPanic.Error(), "hidden treasure"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := newSource()
				source.plan = func(_ context.Context, found func(view.Planned, int)) error {
					found(view.Planned{Name: "a", Error: "e"}, 2)
					return tc.fail()
				}
				w, log := opened(t, source)
				v := visit(t, w, planPath)
				<-v.ended
				events := v.events()
				require.Equal(t, []string{"begin", "parent", "progress", "problem"}, names(events), tc.reason)
				require.Equal(t, []string{fmt.Sprintf(`{"error":%q}`, tc.want)}, only(events, "problem"), tc.reason)
				require.Contains(t, log.String(), tc.log)
				require.Equal(t, tc.log == "", log.String() == "")
				require.Empty(t, w.plan)
			})
		})
	}
}

// A source that goes on after it has returned writes to nobody.
func TestPlan_Afterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newSource()
		done := make(chan struct{})
		source.plan = func(_ context.Context, found func(view.Planned, int)) error {
			go func() { // ends a second later
				defer close(done)
				<-time.After(time.Second)
				found(view.Planned{Name: "late", Error: "e"}, 1)
			}()
			return errors.New("took too long")
		}
		w, _ := opened(t, source)
		v := visit(t, w, planPath)
		<-v.ended
		require.Equal(t, []string{"begin", "problem"}, names(v.events()))
		<-done
		require.Empty(t, v.events())
	})
}
