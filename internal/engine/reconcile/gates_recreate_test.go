package reconcile_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// openOrClosed returns a Deployment with the first word of the parent's value, behind a gate that is closed if that is
// the second word. With other second words it says nothing of children.
func openOrClosed(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	value, _ := req.Parent.Field("spec", "value")
	text, _ := value.(string)
	wanted, gate, _ := strings.Cut(text, " ")
	switch gate {
	case "failing":
		return nil, errors.New("not now")
	case "keeping":
		return &handler.SyncResponse{KeepChildren: true}, nil
	}
	return &handler.SyncResponse{Children: []any{handler.When(deployment("d", wanted), gate != "closed")}}, nil
}

// A child that Recreate has deleted is created anew whatever its gate says, though the operator is restarted while the child
// takes its time to end. One that somebody else has deleted waits.
func TestGate_RecreateRestart(t *testing.T) {
	set := func(value string) func(r *rig.Rig) { return func(r *rig.Rig) { r.SetSpec("a", value) } }
	paused := func(value string) func(r *rig.Rig) {
		return func(r *rig.Rig) {
			r.Change(sample.ParentType(), "a", func(o map[string]any) { metaOf(o)["annotations"] = map[string]any{"roperator.com/paused": value} })
		}
	}
	remove := func(r *rig.Rig) { require.NoError(t, r.Server.Delete(k8s.Deployment, rig.Key("d"))) }
	for name, tc := range map[string]struct {
		strategy config.UpdateStrategy // empty: Replace with RecreateImmutable
		do       []func(r *rig.Rig)    // before the restarts
		restarts int
		want     bool               // that it is created anew
		then     []func(r *rig.Rig) // after the restarts, while the child still ends, which it does before the last of them
	}{
		"deleted by Recreate":                                            {config.Recreate, []func(*rig.Rig){set("2 closed")}, 1, true, nil},
		"more than one restart":                                          {config.Recreate, []func(*rig.Rig){set("2 closed")}, 3, true, nil},
		"no restart":                                                     {config.Recreate, []func(*rig.Rig){set("2 closed")}, 0, true, nil},
		"another state while it ends":                                    {config.Recreate, []func(*rig.Rig){set("2 closed"), set("3 closed")}, 1, true, nil},
		"deleted by somebody":                                            {config.Recreate, []func(*rig.Rig){set("1 closed"), remove}, 1, false, nil},
		"deleted by somebody, updated in place":                          {config.Replace, []func(*rig.Rig){set("2 closed"), remove}, 1, false, nil},
		"deleted by somebody, to be updated later":                       {config.Replace, []func(*rig.Rig){set("1 closed"), remove, set("2 closed")}, 1, false, nil},
		"deleted by somebody, to be updated, without a restart":          {config.Recreate, []func(*rig.Rig){set("1 closed"), remove, set("2 closed")}, 0, false, nil},
		"deleted for an immutable field":                                 {"", []func(*rig.Rig){set("2 closed")}, 1, true, nil},
		"then the handler fails":                                         {config.Recreate, []func(*rig.Rig){set("2 closed"), set("2 failing")}, 1, true, []func(*rig.Rig){set("2 closed")}},
		"then the children are kept":                                     {config.Recreate, []func(*rig.Rig){set("2 closed"), set("2 keeping")}, 1, true, []func(*rig.Rig){set("2 closed")}},
		"then the parent is paused":                                      {config.Recreate, []func(*rig.Rig){set("2 closed"), paused("true")}, 1, true, []func(*rig.Rig){paused("false")}},
		"deleted by somebody, then paused":                               {config.Recreate, []func(*rig.Rig){set("1 closed"), remove, paused("true")}, 1, false, []func(*rig.Rig){paused("false")}},
		"deleted by somebody before the restart, to be updated after it": {config.Recreate, []func(*rig.Rig){set("1 closed"), remove}, 1, false, []func(*rig.Rig){set("2 closed")}},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				kind := fakeapi.KindOf(k8s.Deployment) // whose selector is immutable
				kind.Plural = "deployments"
				if tc.strategy != "" {
					kind = fakeapi.Custom(k8s.Deployment, "deployments")
				}
				server, cfg := fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"), kind), rig.Config()
				cfg.Children = []config.Child{{Type: k8s.Deployment, Strategy: cmp.Or(tc.strategy, config.Replace), RecreateImmutable: tc.strategy == ""}}
				r := rig.Start(t, server, cfg, handler.SyncFunc(openOrClosed))
				r.Create("a", "1")
				rig.Elapse(time.Second)
				finalizer := func(set []any) {
					r.Change(k8s.Deployment, "d", func(o map[string]any) { metaOf(o)["finalizers"] = set })
				}
				finalizer([]any{"example.com/grace"})
				for _, do := range tc.do {
					do(r)
					rig.Elapse(time.Second)
				}
				require.True(t, r.Get(k8s.Deployment, "d").IsDeleting())
				for range tc.restarts {
					r.Stop()
					r = rig.Start(t, server, cfg, handler.SyncFunc(openOrClosed))
					rig.Elapse(time.Second)
				}
				for i, then := range tc.then {
					if i == len(tc.then)-1 {
						finalizer(nil)
						rig.Elapse(time.Minute)
					}
					then(r)
					rig.Elapse(time.Minute)
				}
				if len(tc.then) == 0 {
					finalizer(nil)
				}
				rig.Elapse(time.Hour)
				require.Equal(t, tc.want, r.Get(k8s.Deployment, "d") != nil, "%v", r.Manager.Engine().Waits(rig.Key("a")))
				r.Stop()
			})
		})
	}
}

// A rollout counts a child that Recreate has deleted, whatever its gate says, though the operator is restarted while the child
// takes its time to end.
func TestGate_RecreateRestartRoll(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, cfg := serverOfDeployments(), rolling(config.Roll{}, config.Recreate)
		h := handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			value, _ := req.Parent.Field("spec", "value")
			text, _ := value.(string)
			out := &handler.SyncResponse{}
			for i := range fleetSize {
				out.Children = append(out.Children, handler.When(deployment(shipName(i), text), text == "1"))
			}
			return out, nil
		})
		r := rig.Start(t, server, cfg, h)
		launch(t, r, "1")
		for i := range fleetSize {
			r.Change(k8s.Deployment, shipName(i), func(o map[string]any) { metaOf(o)["finalizers"] = []any{"example.com/grace"} })
		}
		r.SetSpec("a", "2")
		for range 3 {
			rig.Elapse(time.Minute)
			r.Stop()
			r = rig.Start(t, server, cfg, h)
			rig.Elapse(time.Minute)
			ending := 0
			for i := range fleetSize {
				if d := r.Get(k8s.Deployment, shipName(i)); d.IsDeleting() {
					ending++
					r.Change(k8s.Deployment, shipName(i), func(o map[string]any) { delete(metaOf(o), "finalizers") })
				}
			}
			require.Equal(t, 1, ending, "the step of the rollout")
			rig.Elapse(time.Minute)
			var down []string // all are looked at before one gets ready, since it's another's turn then, at any moment
			for i := range fleetSize {
				d := r.Get(k8s.Deployment, shipName(i))
				require.NotNil(t, d, shipName(i))
				require.False(t, d.IsDeleting(), "%s was to be created anew", shipName(i))
				if plan.ReadinessOf(d).State != readiness.Current {
					down = append(down, shipName(i))
				}
			}
			require.Len(t, down, 1)
			setReady(t, server, down[0], true)
		}
		r.Stop()
	})
}

// TestGates_ConflictIsNoVerification: the writes of a child conflict, and then it is another object, of which it must be found out
// whether it differs. What waits for it waits for that, too: an update that has come to nothing says nothing of that. (S251)
func TestGates_ConflictIsNoVerification(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		first, later := rig.Key("first"), rig.Key("later")
		var armed atomic.Bool
		var tries int
		var early []string
		edit := func(value string) {
			_, err := server.Change(k8s.ConfigMap, first, func(o map[string]any) { o["data"] = map[string]any{"value": value} })
			require.NoError(t, err)
		}
		server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
			switch {
			case req.DryRun || req.Type != k8s.ConfigMap:
			case req.Verb == "create" && req.Key == later:
				if v, _ := server.Get(k8s.ConfigMap, first).Field("data", "value"); v != "v" {
					early = append(early, fmt.Sprint(v))
				}
			case req.Verb == "update" && req.Key == first && armed.Load():
				if tries++; tries == 1 {
					require.NoError(t, server.Delete(k8s.ConfigMap, later))
				}
				if tries < 4 {
					edit(fmt.Sprint("edit-", tries)) // so that the update conflicts
					return nil
				}
				armed.Store(false)
				copied := server.Get(k8s.ConfigMap, first).Unstructured().Object
				require.NoError(t, server.Delete(k8s.ConfigMap, first))
				for _, name := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"} {
					delete(metaOf(copied), name)
				}
				_, err := server.Create(copied)
				require.NoError(t, err)
			}
			return nil
		}})
		r := rig.Start(t, server, rig.Config(), handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			a := rig.Copied("first", "v")
			return wants(a, handler.After(rig.Copied("later", "v"), a)), nil
		}))
		r.Create("one", "v")
		rig.Elapse(time.Second)
		require.NotNil(t, server.Get(k8s.ConfigMap, later))
		armed.Store(true)
		edit("edited")
		rig.Elapse(time.Minute)
		require.False(t, armed.Load())
		require.NotNil(t, server.Get(k8s.ConfigMap, later))
		require.Empty(t, early)
		r.Stop()
	})
}

// TestGates_KeptAtRestart: a child that the handler keeps while it ends is not created anew before its gate opens, also if this
// process has not seen it before. (S251)
func TestGates_KeptAtRestart(t *testing.T) {
	for _, restart := range []bool{false, true} {
		rig.Bubble(t, func(t *testing.T) {
			server, cfg := serverOfDeployments(), deploymentsLater()
			cfg.Children[0].Strategy = config.Recreate
			var gated atomic.Bool
			h := handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
				db, job := deployment("db", "v"), rig.Copied("job", "v")
				metaOf(job)["finalizers"] = []any{"example.com/hold"}
				switch live, ok := req.Children.Find(job); {
				case !gated.Load():
					return wants(db, job), nil
				case ok:
					return wants(db, handler.Keep(live)), nil
				}
				return wants(db, handler.After(job, db)), nil
			})
			r := rig.Start(t, server, cfg, h)
			r.Create("one", "v")
			rig.Elapse(time.Second)
			gated.Store(true)
			if restart {
				r.Stop()
			}
			require.NoError(t, server.Delete(k8s.ConfigMap, rig.Key("job")))
			if restart {
				r = rig.Start(t, server, cfg, h)
			}
			rig.Elapse(time.Second)
			require.True(t, server.Get(k8s.ConfigMap, rig.Key("job")).IsDeleting())
			r.Change(k8s.ConfigMap, "job", func(o map[string]any) { delete(metaOf(o), "finalizers") })
			rig.Elapse(time.Minute)
			require.Nil(t, server.Get(k8s.ConfigMap, rig.Key("job")), "restart %t: db isn't ready", restart)
			setReady(t, server, "db", true)
			rig.Elapse(time.Minute)
			require.NotNil(t, server.Get(k8s.ConfigMap, rig.Key("job")))
			r.Stop()
		})
	}
}

// TestGates_LostResponse: the response to the delete of a recreation is lost, though the child is gone. It is created anew at once,
// as it would be after a response: what it depends on was ready once. (S255)
func TestGates_LostResponse(t *testing.T) {
	for name, lost := range map[string]error{"Connection": errors.New("connection reset"), "Timeout": apierrors.NewTimeoutError("no response", 0)} {
		t.Run(name, func(t *testing.T) {
			rig.Orders(t, func(t *testing.T, start rig.Starter) {
				server, cfg := serverOfDeployments(), deploymentsLater()
				cfg.Children[0].Strategy = config.Recreate
				var once atomic.Bool
				server.SetHooks(fakeapi.Hooks{After: func(req fakeapi.Request) error {
					if req.Verb == "delete" && req.Type == k8s.ConfigMap && once.CompareAndSwap(false, true) {
						return lost
					}
					return nil
				}})
				r := start(server, cfg, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
					db := deployment("db", "v")
					return wants(db, handler.After(rig.Copied("job", specValue(req)), db)), nil
				}))
				r.Create("one", "v1")
				rig.Elapse(time.Second)
				setReady(t, server, "db", true)
				rig.Elapse(time.Second)
				require.NotNil(t, server.Get(k8s.ConfigMap, rig.Key("job")))
				setReady(t, server, "db", false)
				rig.Elapse(time.Second)
				r.SetSpec("one", "v2")
				rig.Elapse(10 * time.Second)
				require.True(t, once.Load())
				value, _ := r.Get(k8s.ConfigMap, "job").Field("data", "value")
				require.Equal(t, "v2", value)
				r.Stop()
			})
		})
	}
}
