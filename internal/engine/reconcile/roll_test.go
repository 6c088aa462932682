package reconcile_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/internal/testing/budget"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

const fleetSize = 5

// fleet is a handler that wants five Deployments.
func fleet(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	value, _ := req.Parent.Field("spec", "value")
	text, _ := value.(string)
	out := &handler.SyncResponse{}
	for i := range fleetSize {
		out.Children = append(out.Children, deployment(shipName(i), text))
	}
	return out, nil
}

func shipName(i int) string { return fmt.Sprintf("ship-%d", i) }

func rolling(roll config.Roll, strategy config.UpdateStrategy) config.Operator {
	cfg := rig.Config()
	cfg.Children = []config.Child{{Type: k8s.Deployment, Strategy: strategy, Roll: &roll}}
	return cfg
}

// values returns what the Deployments were given, "" for one that doesn't exist.
func values(r *rig.Rig) (out []string) {
	for i := range fleetSize {
		text := ""
		if d := r.Get(k8s.Deployment, shipName(i)); d != nil {
			value, _ := d.Field("spec", "selector", "matchLabels", "value")
			text, _ = value.(string)
		}
		out = append(out, text)
	}
	return out
}

func launch(t *testing.T, r *rig.Rig, value string) {
	t.Helper()
	r.Create("a", value)
	rig.Elapse(time.Second)
	allReady(t, r)
}

func allReady(t *testing.T, r *rig.Rig) {
	t.Helper()
	for i := range fleetSize {
		if r.Get(k8s.Deployment, shipName(i)) != nil {
			setReady(t, r.Server, shipName(i), true)
		}
		rig.Elapse(time.Second) // it may be another's turn now, which Recreate deletes
	}
}

// A rollout goes child by child, each once the one before is ready.
func TestRoll_OneAfterTheOther(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := serverOfDeployments()
		r := rig.Start(t, server, rolling(config.Roll{}, config.Replace), handler.SyncFunc(fleet))
		launch(t, r, "1")
		require.Equal(t, []string{"1", "1", "1", "1", "1"}, values(r), "creation isn't bounded")
		require.Empty(t, r.Manager.Engine().Waits(rig.Key("a")))
		r.SetSpec("a", "2")
		rig.Elapse(time.Hour)
		require.Equal(t, []string{"2", "1", "1", "1", "1"}, values(r))
		const text = "not updating another Deployment before Deployment ship-0 is there and ready"
		require.Equal(t, []string{text}, r.Manager.Engine().Waits(rig.Key("a")))
		require.Len(t, said(server, text), 1)
		before, passes := len(server.Writes()), r.Passes()
		rig.Elapse(time.Hour)
		require.Equal(t, []int{before, passes}, []int{len(server.Writes()), r.Passes()}, "silence")
		for i := range fleetSize - 1 {
			setReady(t, server, shipName(i), true)
			rig.Elapse(time.Second)
			require.Equal(t, "2", values(r)[i+1])
			if i+2 < fleetSize {
				require.Equal(t, "1", values(r)[i+2])
			}
		}
		require.Empty(t, r.Manager.Engine().Waits(rig.Key("a")), "nothing is outdated")
		require.Empty(t, r.Errors("a"))
		r.Stop()
	})
}

// A rollout that breaks at the first child stands there. The next desired state mends it, and
// that may be the old one.
func TestRoll_Mended(t *testing.T) {
	for _, next := range []string{"1", "3"} {
		t.Run(next, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := serverOfDeployments()
				r := rig.Start(t, server, rolling(config.Roll{MaxUnavailable: "40%"}, config.Replace), handler.SyncFunc(fleet))
				launch(t, r, "1")
				r.SetSpec("a", "2")
				rig.Elapse(time.Hour)
				require.Equal(t, []string{"2", "2", "1", "1", "1"}, values(r), "two of five")
				setReady(t, server, shipName(0), true)
				rig.Elapse(time.Hour)
				require.Equal(t, []string{"2", "2", "2", "1", "1"}, values(r))
				r.Stop()

				r = rig.Start(t, server, rolling(config.Roll{MaxUnavailable: "40%"}, config.Replace), handler.SyncFunc(fleet))
				rig.Elapse(time.Second)
				require.Equal(t, []string{"2", "2", "2", "1", "1"}, values(r), "a restart changes nothing")
				r.SetSpec("a", next)
				rig.Elapse(time.Second)
				require.Equal(t, []string{"2", next, next, "1", "1"}, values(r), "the broken ones first")
				for range fleetSize {
					allReady(t, r)
				}
				require.Equal(t, []string{next, next, next, next, next}, values(r))
				require.Empty(t, r.Errors("a"))
				r.Stop()
			})
		})
	}
}

// What somebody else changes in a child that has the newest desired state is corrected at once.
func TestRoll_Drift(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := serverOfDeployments()
		r := rig.Start(t, server, rolling(config.Roll{}, config.Replace), handler.SyncFunc(fleet))
		launch(t, r, "1")
		r.SetSpec("a", "2")
		rig.Elapse(time.Second)
		setReady(t, server, shipName(0), true)
		rig.Elapse(time.Second) // ship-1 isn't ready
		r.Change(k8s.Deployment, shipName(0), func(object map[string]any) { object["spec"].(map[string]any)["paused"] = true })
		rig.Elapse(time.Second)
		paused, _ := r.Get(k8s.Deployment, shipName(0)).Field("spec", "paused")
		require.Equal(t, false, paused)
		r.Change(k8s.Deployment, shipName(4), func(object map[string]any) { object["spec"].(map[string]any)["paused"] = true })
		rig.Elapse(time.Second)
		paused, _ = r.Get(k8s.Deployment, shipName(4)).Field("spec", "paused")
		require.Equal(t, true, paused, "its turn will come")
		require.NoError(t, server.Delete(k8s.Deployment, rig.Key(shipName(3))))
		rig.Elapse(time.Second)
		require.Equal(t, []string{"2", "2", "1", "2", "1"}, values(r), "creation isn't bounded")
		r.Stop()
	})
}

// A restarted operator corrects a child first, which counts as unavailable then. If the correction is rejected, that does not hold up
// the others (S189).
func TestRoll_Verified(t *testing.T) {
	for _, refused := range []bool{false, true} {
		t.Run(fmt.Sprint("refused=", refused), func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := serverOfDeployments()
				r := rig.Start(t, server, rolling(config.Roll{}, config.Replace), handler.SyncFunc(fleet))
				launch(t, r, "1")
				r.SetSpec("a", "2")
				rig.Elapse(time.Second)
				setReady(t, server, shipName(0), true)
				rig.Elapse(time.Second)
				require.Equal(t, []string{"2", "2", "1", "1", "1"}, values(r))
				r.Stop()
				pauseByHand(r, shipName(0))
				setReady(t, server, shipName(0), true)
				setReady(t, server, shipName(1), true)
				rejectUpdates(server, shipName(0), refused)
				r = rig.Start(t, server, rolling(config.Roll{}, config.Replace), handler.SyncFunc(fleet))
				rig.Elapse(time.Minute)
				if !refused {
					require.Equal(t, []string{"2", "2", "1", "1", "1"}, values(r), "the first one was written again")
					setReady(t, server, shipName(0), true)
					rig.Elapse(time.Second)
				}
				require.Equal(t, []string{"2", "2", "2", "1", "1"}, values(r))
				r.Stop()
			})
		})
	}
}

// The parent says how many children are updated at all.
func TestRoll_Partition(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := serverOfDeployments()
		r := rig.Start(t, server, rolling(config.Roll{MaxUnavailable: "3", Partition: "spec.updated"}, config.Replace), handler.SyncFunc(fleet))
		launch(t, r, "1")
		set := func(updated any, value string) {
			r.Change(sample.ParentType(), "a", func(object map[string]any) {
				object["spec"] = map[string]any{"updated": updated, "value": value}
			})
			rig.Elapse(time.Second)
		}
		set(int64(2), "2")
		require.Equal(t, []string{"1", "1", "1", "2", "2"}, values(r))
		allReady(t, r)
		require.Equal(t, []string{"1", "1", "1", "2", "2"}, values(r))
		require.Empty(t, r.Manager.Engine().Waits(rig.Key("a")), "nothing is waited for")
		set(int64(0), "3")
		require.Equal(t, []string{"1", "1", "1", "2", "2"}, values(r))
		set("two", "3")
		require.ErrorContains(t, r.Errors("a")[0], "Parent ns/a: spec.updated: two: must be how many children of type apps/v1/Deployment are updated, a number from 0 on")
		set(int64(-1), "3")
		require.Equal(t, []string{"1", "1", "1", "2", "2"}, values(r))
		set(int64(9), "3")
		require.Equal(t, []string{"3", "3", "3", "2", "2"}, values(r))
		allReady(t, r)
		require.Equal(t, []string{"3", "3", "3", "3", "3"}, values(r))
		r.Stop()
	})
}

// A rollout over many children that are ready at once is no conflict loop.
func TestRoll_Many(t *testing.T) {
	const many = 60
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		cfg := rig.Config()
		cfg.Children[0].Roll = &config.Roll{}
		r := rig.Start(t, server, cfg, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			value, _ := req.Parent.Field("spec", "value")
			out := &handler.SyncResponse{Status: map[string]any{"value": value}}
			for i := range many {
				out.Children = append(out.Children, rig.Copied(fmt.Sprintf("c-%d", i), value))
			}
			return out, nil
		}))
		r.Create("a", "1")
		rig.Elapse(time.Second)
		r.SetSpec("a", "2")
		rig.Elapse(many / 5 * time.Second)
		for _, c := range server.List(k8s.ConfigMap) {
			value, _ := c.Field("data", "value")
			require.Equal(t, "2", value)
		}
		require.Empty(t, r.Manager.Engine().Loops())
		require.Less(t, r.Passes(), many+10)
		r.Stop()
	})
}

// A lookout checks each write of a Deployment: it must not make more than max of them
// unavailable.
type lookout struct {
	sync.Mutex
	max     int
	live    map[string]*resource.Resource
	exempt  atomic.Bool // the test itself is changing something
	goal    string      // of the parent; a child that has it is recreated only for what a stranger has changed
	started bool        // all were created
	wrongs  []string
}

func (l *lookout) aim(goal string) {
	l.Lock()
	defer l.Unlock()
	l.goal = goal
}

func (l *lookout) saw(was, is map[string]any) {
	l.Lock()
	defer l.Unlock()
	of := is
	if of == nil {
		of = was
	}
	if of["kind"] != "Deployment" {
		return
	}
	name, _ := of["metadata"].(map[string]any)["name"].(string)
	if l.started && !l.exempt.Load() && was != nil && wanted(was) != wanted(is) && wanted(was) != l.goal {
		l.check(name, wanted(is))
	}
	delete(l.live, name)
	if is != nil {
		l.live[name], _ = resource.New(is)
	}
	l.started = l.started || len(l.live) == fleetSize
}

// wanted returns what a Deployment is to be, "" if it goes.
func wanted(object map[string]any) string {
	res, err := resource.New(object)
	if object == nil || err != nil || res.IsDeleting() {
		return ""
	}
	value, _ := res.Field("spec", "selector", "matchLabels", "value")
	text, _ := value.(string)
	return text
}

// check checks a write that makes a Deployment what it shall be.
func (l *lookout) check(name, want string) {
	others, atGoal := 0, 0
	for i := range fleetSize {
		res := l.live[shipName(i)]
		if shipName(i) == name || res != nil && readiness.Of(res).State == readiness.Current {
			continue
		}
		others++
		if res != nil && wanted(res.Unstructured().Object) == want {
			atGoal++
		}
	}
	if readiness.Of(l.live[name]).State != readiness.Current {
		others = atGoal
	}
	if others >= l.max {
		l.wrongs = append(l.wrongs, fmt.Sprintf("%s became %q while %d others weren't ready", name, want, others))
	}
}

// However states of children, desired states, strangers and restarts follow one another, never
// are more children unavailable by the operator's doing than the configuration says, and
// once all become ready the rollout ends.
func TestRoll_Property(t *testing.T) {
	first, count := budget.FromEnv(t, "ROLL_FIRST", 1), budget.Count(t, "ROLL_COUNT", 60)
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) { rollAtRandom(t, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

func rollAtRandom(t *testing.T, random *rand.Rand) {
	strategy := []config.UpdateStrategy{config.Replace, config.Recreate}[random.IntN(2)]
	limit := 1 + random.IntN(2)
	cfg := rolling(config.Roll{MaxUnavailable: fmt.Sprint(limit)}, strategy)
	look := &lookout{max: limit, live: map[string]*resource.Resource{}}
	server := serverOfDeployments()
	server.SetHooks(fakeapi.Hooks{Changed: look.saw})
	r := rig.Start(t, server, cfg, handler.SyncFunc(fleet))
	launch(t, r, "1")
	value := "1"
	stranger := func(does func()) { look.exempt.Store(true); does(); look.exempt.Store(false) }
	for range 40 {
		name := shipName(random.IntN(fleetSize))
		there := r.Get(k8s.Deployment, name) != nil
		switch random.IntN(9) {
		case 0, 1:
			value = fmt.Sprint(1 + random.IntN(3))
			look.aim(value)
			r.SetSpec("a", value)
		case 2, 3, 4, 5:
			if there {
				setReady(t, server, name, random.IntN(3) > 0)
			}
		case 6:
			if there {
				stranger(func() { _ = server.Delete(k8s.Deployment, rig.Key(name)) })
			}
		case 7:
			if there {
				r.Change(k8s.Deployment, name, func(object map[string]any) { object["spec"].(map[string]any)["paused"] = true })
			}
		case 8:
			r.Stop()
			r = rig.Start(t, server, cfg, handler.SyncFunc(fleet))
		}
		rig.Elapse(time.Second)
	}
	for range 2*fleetSize + 2 {
		rig.Elapse(15 * time.Minute) // drift under Recreate may have been taken for a loop
		allReady(t, r)
	}
	require.Equal(t, []string{value, value, value, value, value}, values(r))
	require.Empty(t, r.Manager.Engine().Waits(rig.Key("a")))
	require.Empty(t, look.wrongs)
	r.Stop()
}
