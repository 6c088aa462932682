package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

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

func readyFleet(strategy config.UpdateStrategy) config.Operator {
	cfg := rolling(config.Roll{}, strategy)
	cfg.ReadyCondition = true
	return cfg
}

// stands returns the conditions of a parent, as "Ready=True Reconciling=False Stalled=False",
// and the reason and the message of Ready. All must be of the parent's generation, and so must
// the status.
func stands(t *testing.T, r *rig.Rig, name string) (conditions, reason, message string) {
	t.Helper()
	parent := r.Get(sample.ParentType(), name)
	observed, _ := parent.Field("status", "observedGeneration")
	require.EqualValues(t, parent.Generation(), observed)
	field, _ := parent.Field("status", "conditions")
	list, _ := field.([]any)
	var says []string
	for _, item := range list {
		c, _ := item.(map[string]any)
		require.EqualValues(t, parent.Generation(), c["observedGeneration"])
		require.NotEmpty(t, c["lastTransitionTime"])
		says = append(says, fmt.Sprintf("%s=%s", c["type"], c["status"]))
		if c["type"] == "Ready" {
			reason, _ = c["reason"].(string)
			message, _ = c["message"].(string)
		}
	}
	slices.Sort(says)
	return strings.Join(says, " "), reason, message
}

const (
	isReady       = "Ready=True Reconciling=False Stalled=False"
	isReconciling = "Ready=False Reconciling=True Stalled=False"
	isStalled     = "Ready=False Reconciling=False Stalled=True"
)

// The conditions follow a rollout, also for a handler that returns no status, and name what is in
// the way.
func TestReady_Rollout(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := serverOfDeployments()
		r := rig.Start(t, server, readyFleet(config.Replace), handler.SyncFunc(fleet))
		expect := func(want, message string) {
			t.Helper()
			conditions, _, says := stands(t, r, "a")
			require.Equal(t, want, conditions)
			require.Equal(t, message, says)
		}
		r.Create("a", "1")
		rig.Elapse(time.Second)
		expect(isReconciling, "Deployment ns/ship-0: 0 of 1 replicas exist")
		allReady(t, r)
		expect(isReady, "all children are as desired and ready")
		r.SetSpec("a", "2")
		rig.Elapse(time.Second)
		expect(isReconciling, "Deployment ns/ship-0: Deployment generation is 2, but latest observed generation is 1")
		setReady(t, server, shipName(0), true)
		rig.Elapse(time.Second)
		expect(isReconciling, "Deployment ns/ship-1: Deployment generation is 2, but latest observed generation is 1")
		_, err := server.Change(k8s.Deployment, rig.Key(shipName(1)), func(object map[string]any) {
			object["status"] = map[string]any{"observedGeneration": int64(2), "conditions": []any{map[string]any{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}}}
		})
		require.NoError(t, err)
		rig.Elapse(time.Second)
		expect(isStalled, "Deployment ns/ship-1: Progress deadline exceeded")
		before, passes := len(server.Writes()), r.Passes()
		rig.Elapse(time.Hour)
		require.Equal(t, []int{before, passes}, []int{len(server.Writes()), r.Passes()}, "silence")
		for range fleetSize {
			allReady(t, r)
		}
		expect(isReady, "all children are as desired and ready")
		setReady(t, server, shipName(3), false)
		rig.Elapse(time.Second)
		expect(isReconciling, "Deployment ns/ship-3: 0 of 1 replicas are available")
		setReady(t, server, shipName(3), true)
		rig.Elapse(time.Second)
		expect(isReady, "all children are as desired and ready")
		r.Stop()

		before = len(server.Writes())
		r = rig.Start(t, server, readyFleet(config.Replace), handler.SyncFunc(fleet))
		rig.Elapse(time.Hour)
		require.Len(t, server.Writes(), before, "a restart writes nothing")
		r.Stop()
	})
}

// What is in the way is told, by condition and reason, once, and until it is over.
func TestReady_InTheWay(t *testing.T) {
	invalid := func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Children: []any{map[string]any{"kind": "Nothing"}}}, nil
	}
	failing := func(err error) handler.SyncFunc {
		return func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) { return nil, err }
	}
	withStatus := func(_ context.Context, _ *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Status: map[string]any{"phase": "sad"}}, errors.New("broken")
	}
	refusing := func(err error) func(r fakeapi.Request, object map[string]any) error {
		return func(_ fakeapi.Request, object map[string]any) error {
			if object["kind"] == "ConfigMap" {
				return err
			}
			return nil
		}
	}
	waiting := func(_ context.Context, _ *handler.SyncRequest) (*handler.SyncResponse, error) {
		return &handler.SyncResponse{Children: []any{handler.When(rig.Copied("x", "1"), false)}}, nil
	}
	group := schema.GroupResource{Resource: "configmaps"}
	for name, tc := range map[string]struct {
		why             string
		handler         handler.SyncFunc
		admit           func(r fakeapi.Request, object map[string]any) error
		want            string
		reason, message string
	}{
		"Failed":     {"it is tried again", failing(errors.New("no database")), nil, isReconciling, "HandlerFailed", "handler: Sync: no database"},
		"Permanent":  {"it isn't", failing(handler.Permanent(errors.New("no such plan"))), nil, isStalled, "HandlerFailed", "handler: Sync: no such plan"},
		"WithStatus": {"the handler's status is written, too", withStatus, nil, isReconciling, "HandlerFailed", "handler: Sync: broken"},
		"Panic":      {"it is a failure", func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) { panic("oh") }, nil, isReconciling, "HandlerFailed", "handler: Sync: panic: oh"},
		"Invalid":    {"the handler must be mended", invalid, nil, isStalled, "InvalidResponse", "invalid response: child 0: "},
		"Refused":    {"somebody must act", rig.Copier, refusing(apierrors.NewForbidden(group, "a", errors.New("exceeded quota"))), isStalled, "WriteRefused", "ConfigMap ns/a: create: "},
		"Two lines":  {"the second one says what is wrong", rig.Copier, refusing(apierrors.NewForbidden(group, "a", errors.New("rights that you lack:\n{create pods}"))), isStalled, "WriteRefused", "ConfigMap ns/a: create: configmaps \"a\" is forbidden: rights that you lack: {create pods}"},
		"Outage":     {"it will pass", rig.Copier, refusing(apierrors.NewInternalError(errors.New("etcd"))), isReconciling, "WriteFailed", "ConfigMap ns/a: create: "},
		"Waits":      {"it goes on by itself", waiting, nil, isReconciling, "Waiting", "not creating ConfigMap x before the handler's own condition for it is met"},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				server.SetHooks(fakeapi.Hooks{Admit: tc.admit})
				cfg := rig.Config()
				cfg.ReadyCondition = true
				var mended atomic.Bool
				r := rig.Start(t, server, cfg, handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
					if mended.Load() {
						return rig.Copier(ctx, req)
					}
					return tc.handler(ctx, req)
				}))
				r.Create("a", "1")
				rig.Elapse(10 * time.Minute)
				conditions, reason, message := stands(t, r, "a")
				require.Equal(t, []string{tc.want, tc.reason}, []string{conditions, reason}, tc.why)
				require.True(t, strings.HasPrefix(message, tc.message), message)
				require.Equal(t, 1, statusWrites(server), "once")
				if name == "WithStatus" {
					phase, _ := r.Get(sample.ParentType(), "a").Field("status", "phase")
					require.Equal(t, "sad", phase)
				}
				mended.Store(true)
				server.SetHooks(fakeapi.Hooks{})
				r.SetSpec("a", "2")
				rig.Elapse(time.Hour)
				conditions, reason, _ = stands(t, r, "a")
				require.Equal(t, []string{isReady, "Ready"}, []string{conditions, reason})
				require.Equal(t, 2, statusWrites(server))
				r.Stop()
			})
		})
	}
}

// statusWrites returns how often the status of a parent was written.
func statusWrites(server *fakeapi.Server) (n int) {
	for _, w := range server.Writes() {
		if strings.HasPrefix(w, "update status Parent") {
			n++
		}
	}
	return n
}

// A paused parent says so, in its conditions and in one Event, over a restart, too.
func TestReady_Paused(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		cfg := rig.Config()
		cfg.ReadyCondition = true
		r := rig.Start(t, server, cfg, handler.SyncFunc(rig.Copier))
		r.Create("a", "1")
		rig.Elapse(time.Second)
		pause := func(value any) {
			r.Change(sample.ParentType(), "a", func(object map[string]any) {
				object["metadata"].(map[string]any)["annotations"] = map[string]any{"roperator.com/paused": value}
			})
		}
		pause("true")
		r.SetSpec("a", "2")
		rig.Elapse(time.Minute)
		conditions, reason, message := stands(t, r, "a")
		require.Equal(t, []string{isStalled, "Paused"}, []string{conditions, reason})
		require.Equal(t, "paused by the annotation roperator.com/paused; remove it to go on", message)
		value, _ := r.Get(sample.ParentType(), "a").Field("status", "value")
		require.Equal(t, "1", value, "the handler's status stays")
		require.Len(t, said(server, message), 1)
		r.Stop()
		before := len(server.Writes())
		r = rig.Start(t, server, cfg, handler.SyncFunc(rig.Copier))
		rig.Elapse(time.Hour)
		require.Len(t, server.Writes(), before)
		require.Len(t, said(server, message), 1, "by the process before")
		pause("false")
		rig.Elapse(time.Second)
		conditions, _, _ = stands(t, r, "a")
		require.Equal(t, isReady, conditions)
		value, _ = r.Get(k8s.ConfigMap, "a").Field("data", "value")
		require.Equal(t, "2", value)
		r.Stop()
	})
}

// A conflict loop is told, and that it is over.
func TestReady_ConflictLoop(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		cfg := rig.Config()
		cfg.ReadyCondition = true
		var fights atomic.Bool
		fights.Store(true)
		r := rig.Start(t, server, cfg, handler.SyncFunc(rig.Copier))
		r.Create("a", "1")
		rig.Elapse(time.Second)
		for range 600 {
			if cm := r.Get(k8s.ConfigMap, "a"); fights.Load() && cm != nil {
				r.Change(k8s.ConfigMap, "a", func(object map[string]any) { object["data"] = map[string]any{"value": "mine"} })
			}
			rig.Elapse(100 * time.Millisecond)
		}
		conditions, reason, _ := stands(t, r, "a")
		require.Equal(t, []string{isStalled, "ConflictLoop"}, []string{conditions, reason})
		rig.Elapse(6 * time.Hour)
		conditions, _, _ = stands(t, r, "a")
		require.Equal(t, isReady, conditions)
		require.Less(t, statusWrites(server), 12)
		r.Stop()
	})
}

// A handler that fails at every second call has the conditions change again and again, which is
// slowed down. Once it doesn't fail any more, that ends: what is said of the loop is no reason for
// the next one.
func TestReady_FailsNowAndThen(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		cfg := rig.Config()
		cfg.ReadyCondition, cfg.MaxErrorBackoff = true, 20*time.Second
		var calls atomic.Int64
		var healed atomic.Bool
		r := rig.Start(t, server, cfg, handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			if n := calls.Add(1); !healed.Load() && n%2 == 0 {
				return nil, fmt.Errorf("simulated %d", n%3)
			}
			return rig.Copier(ctx, req)
		}))
		r.Create("a", "1")
		rig.Elapse(10 * time.Minute)
		require.Less(t, calls.Load(), int64(500), "it is slowed down")
		require.NotEmpty(t, r.Manager.Engine().Loops())
		healed.Store(true)
		rig.Elapse(time.Hour)
		conditions, _, _ := stands(t, r, "a")
		require.Equal(t, isReady, conditions)
		before, passes := len(server.Writes()), r.Passes()
		rig.Elapse(time.Hour)
		require.Equal(t, []int{before, passes}, []int{len(server.Writes()), r.Passes()}, "silence")
		r.Stop()
	})
}

// A Pod that no node can take is Failed after 15 seconds, though nothing changes.
func TestReady_Unschedulable(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"), fakeapi.Kind{Type: k8s.Pod, Plural: "pods", Status: true})
		cfg := rig.Config()
		cfg.Children = []config.Child{{Type: k8s.Pod, Strategy: config.Recreate}}
		cfg.ReadyCondition = true
		r := rig.Start(t, server, cfg, handler.SyncFunc(func(_ context.Context, _ *handler.SyncRequest) (*handler.SyncResponse, error) {
			return &handler.SyncResponse{Children: []any{map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "one"}}}}, nil
		}))
		r.Create("a", "1")
		rig.Elapse(time.Second)
		r.Change(k8s.Pod, "one", func(object map[string]any) {
			object["status"] = map[string]any{"phase": "Pending", "conditions": []any{map[string]any{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}}}
		})
		rig.Elapse(time.Second)
		conditions, _, message := stands(t, r, "a")
		require.Equal(t, []string{isReconciling, "Pod ns/one: Pod has not been scheduled"}, []string{conditions, message})
		rig.Elapse(20 * time.Second)
		conditions, _, message = stands(t, r, "a")
		require.Equal(t, []string{isStalled, "Pod ns/one: Pod could not be scheduled"}, []string{conditions, message})
		passes := r.Passes()
		rig.Elapse(time.Hour)
		require.Equal(t, passes, r.Passes())
		r.Stop()
	})
}

// A handler that returns the present status as it finds it doesn't hold on to what the engine
// has said in it, and one that says what the engine would say is believed.
func TestReady_HandlersOwn(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		own    []any // what the handler states while spec.value is "1"
		want   string
	}{
		"Nothing":     {"the engine's alone", nil, isReady},
		"False":       {"the handler knows more", []any{condition("Ready", "False", "NoBackup", "no backup yet")}, "Ready=False Reconciling=False Stalled=False"},
		"Unknown":     {"the handler doesn't know", []any{condition("Ready", "Unknown", "NoNews", "")}, "Ready=Unknown Reconciling=False Stalled=False"},
		"True":        {"both agree", []any{condition("Ready", "True", "Fine", "as can be")}, isReady},
		"Stalled":     {"the handler knows more", []any{condition("Stalled", "True", "NoBackup", "call somebody")}, isStalled},
		"Reconciling": {"the handler knows more", []any{condition("Reconciling", "True", "Waiting", "for a backup")}, isReconciling},
		"EnginesWord": {"it is the handler's all the same", []any{condition("Stalled", "True", "Paused", "x"), condition("Ready", "False", "Paused", "x")}, isStalled},
		"Others":      {"they stay", []any{condition("Live", "True", "Yes", "")}, "Live=True " + isReady},
		"Mixed":       {"each but once", []any{condition("Stalled", "False", "No", ""), condition("Live", "True", "Yes", ""), condition("Ready", "True", "Yes", "")}, "Live=True " + isReady},
	} {
		for _, copies := range []bool{false, true} {
			t.Run(fmt.Sprint(name, copies), func(t *testing.T) {
				rig.Bubble(t, func(t *testing.T) {
					server := serverOfDeployments()
					r := rig.Start(t, server, readyFleet(config.Replace), handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
						resp, err := fleet(ctx, req)
						var list []any
						if copies {
							field, _ := req.Parent.Field("status", "conditions")
							list, _ = field.([]any)
						}
						value, _ := req.Parent.Field("spec", "value")
						for _, own := range tc.own {
							if value == "1" {
								list = withCondition(list, own.(map[string]any))
							}
						}
						resp.Status = map[string]any{"conditions": list}
						return resp, err
					}))
					r.Create("a", "1")
					rig.Elapse(time.Second)
					conditions, reason, _ := stands(t, r, "a")
					require.Contains(t, conditions, "Ready=False")
					require.Equal(t, "ChildNotReady", reason)
					allReady(t, r)
					conditions, _, _ = stands(t, r, "a")
					require.Equal(t, tc.want, conditions, tc.reason)
					passes := r.Passes()
					rig.Elapse(time.Hour)
					require.Equal(t, passes, r.Passes())
					require.Empty(t, r.Errors("a"))
					require.Less(t, statusWrites(server), 8)
					r.Stop()
				})
			})
		}
	}
}

func condition(name, status, reason, message string) map[string]any {
	return map[string]any{"type": name, "status": status, "reason": reason, "message": message}
}

// withCondition states a condition in a list as meta.SetStatusCondition does.
func withCondition(list []any, c map[string]any) []any {
	for i, item := range list {
		if was, _ := item.(map[string]any); was["type"] == c["type"] {
			now := maps.Clone(c)
			if was["status"] == c["status"] {
				now["lastTransitionTime"] = was["lastTransitionTime"]
			}
			list[i] = now
			return list
		}
	}
	return append(list, c)
}

// A status that has no place for conditions is an error that says so.
func TestReady_NoPlace(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		cfg := rig.Config()
		cfg.ReadyCondition = true
		var status atomic.Value
		status.Store(any("text"))
		r := rig.Start(t, server, cfg, handler.SyncFunc(func(_ context.Context, _ *handler.SyncRequest) (*handler.SyncResponse, error) {
			return &handler.SyncResponse{Status: status.Load()}, nil
		}))
		r.Create("a", "1")
		rig.Elapse(time.Second)
		require.ErrorContains(t, r.Errors("a")[0], "Parent ns/a: status: is no object, so ReadyCondition has nowhere to keep its conditions")
		conditions, reason, _ := stands(t, r, "a")
		require.Equal(t, isStalled, conditions)
		require.Equal(t, "InvalidResponse", reason)
		r.Stop()
	})
}

// A schema without conditions is told of, once, and silent from then on.
func TestReady_Dropped(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		server.SetHooks(fakeapi.Hooks{Admit: func(_ fakeapi.Request, object map[string]any) error {
			if status, ok := object["status"].(map[string]any); ok {
				delete(status, "conditions")
			}
			return nil
		}})
		cfg := rig.Config()
		cfg.ReadyCondition = true
		r := rig.Start(t, server, cfg, handler.SyncFunc(rig.Copier))
		r.Create("a", "1")
		r.Create("b", "1")
		rig.Elapse(time.Hour)
		require.Equal(t, 1, strings.Count(r.Logs.String(), "the API server drops status.conditions"))
		require.Equal(t, 2, statusWrites(server))
		r.Stop()
	})
}

// A watchman checks each state of a parent: it is Ready only if all its children are.
type watchman struct {
	sync.Mutex
	live   map[string]*resource.Resource
	wrongs []string
	ready  int
}

func (w *watchman) saw(_, is map[string]any) {
	w.Lock()
	defer w.Unlock()
	if is == nil {
		return
	}
	res, err := resource.New(is)
	if err != nil {
		return
	}
	switch is["kind"] {
	case "Deployment":
		w.live[res.Name()] = res
	case "Parent":
		if !claimsReady(res) {
			return
		}
		w.ready++
		goal, _ := res.Field("spec", "value")
		for i := range fleetSize {
			child := w.live[shipName(i)]
			if child == nil || readiness.Of(child).State != readiness.Current || wanted(child.Unstructured().Object) != goal {
				w.wrongs = append(w.wrongs, fmt.Sprintf("Ready at resourceVersion %s without %s", res.ResourceVersion(), shipName(i)))
			}
		}
	}
}

// claimsReady says whether a parent is Ready at its newest generation.
func claimsReady(parent *resource.Resource) bool {
	field, _ := parent.Field("status", "conditions")
	list, _ := field.([]any)
	for _, item := range list {
		if c, _ := item.(map[string]any); c["type"] == "Ready" {
			return c["status"] == "True" && c["observedGeneration"] == parent.Generation()
		}
	}
	return false
}

// Ready is never True between a change of the parent and the end of what follows from it.
func TestReady_Property(t *testing.T) {
	first, count := budget.FromEnv(t, "READY_FIRST", 1), budget.Count(t, "READY_COUNT", 40)
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) { readyAtRandom(t, rand.New(rand.NewPCG(seed, 3))) })
		})
	}
}

func readyAtRandom(t *testing.T, random *rand.Rand) {
	cfg := readyFleet([]config.UpdateStrategy{config.Replace, config.Recreate}[random.IntN(2)])
	if random.IntN(2) == 0 {
		cfg.Children[0].Roll = nil
	}
	watch := &watchman{live: map[string]*resource.Resource{}}
	server := serverOfDeployments()
	refused := &atomic.Bool{}
	server.SetHooks(fakeapi.Hooks{Changed: watch.saw, Admit: func(_ fakeapi.Request, object map[string]any) error {
		if refused.Load() && object["kind"] == "Deployment" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "x", errors.New("not now"))
		}
		return nil
	}})
	r := rig.Start(t, server, cfg, handler.SyncFunc(fleet))
	launch(t, r, "1")
	for range 30 {
		name := shipName(random.IntN(fleetSize))
		there := r.Get(k8s.Deployment, name) != nil
		switch random.IntN(8) {
		case 0, 1:
			r.SetSpec("a", fmt.Sprint(1+random.IntN(3)))
		case 2, 3, 4:
			if there {
				setReady(t, server, name, random.IntN(4) > 0)
			}
		case 5:
			refused.Store(!refused.Load())
		case 6:
			allReady(t, r)
		case 7:
			r.Stop()
			r = rig.Start(t, server, cfg, handler.SyncFunc(fleet))
		}
		rig.Elapse(time.Second)
	}
	refused.Store(false)
	for range 2 * fleetSize {
		rig.Elapse(15 * time.Minute)
		allReady(t, r)
	}
	rig.Elapse(15 * time.Minute)
	conditions, _, _ := stands(t, r, "a")
	require.Equal(t, isReady, conditions)
	require.Positive(t, watch.ready)
	require.Empty(t, watch.wrongs)
	r.Stop()
}

// TestReady_HandlersOwnEnds: a handler that starts from the present status says that it is stalled, and later
// that it isn't. What the engine had made of that in Ready isn't taken for the handler's.
func TestReady_HandlersOwnEnds(t *testing.T) {
	for _, which := range []string{"Stalled", "Reconciling"} {
		for how, end := range map[string]func(list []any) []any{
			"False": func(list []any) []any { return withCondition(list, condition(which, "False", "Licensed", "")) },
			"Removed": func(list []any) []any {
				return slices.DeleteFunc(slices.Clone(list), func(c any) bool {
					fields, _ := c.(map[string]any)
					return fields["type"] == which
				})
			},
		} {
			t.Run(which+"/"+how, func(t *testing.T) {
				rig.Bubble(t, func(t *testing.T) {
					cfg := rig.Config()
					cfg.ReadyCondition = true
					r := rig.Start(t, rig.Server(), cfg, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
						field, _ := req.Parent.Field("status", "conditions")
						list, _ := field.([]any)
						value, _ := req.Parent.Field("spec", "value")
						if value == "bad" {
							list = withCondition(list, condition(which, "True", "NoLicence", "buy one"))
						} else {
							list = end(list)
						}
						return &handler.SyncResponse{Status: map[string]any{"conditions": list}, Children: []any{rig.Copied(req.Parent.Name(), value)}}, nil
					}))
					r.Create("a", "good")
					for range 2 {
						r.SetSpec("a", "bad")
						rig.Elapse(time.Minute)
						says, reason, message := stands(t, r, "a")
						require.NotEqual(t, isReady, says)
						require.Equal(t, "NoLicence", reason)
						require.Equal(t, strings.ToLower(which)+": buy one", message)
						r.SetSpec("a", "good")
						rig.Elapse(time.Minute)
						says, _, _ = stands(t, r, "a")
						require.Equal(t, isReady, says)
					}
					r.Stop()
				})
			})
		}
	}
}
