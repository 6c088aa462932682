package manager_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/lead"
	"github.com/roperator/roperator/internal/engine/leave"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// TestLeave_KeepChildrenFails: a parent isn't deleted if its children couldn't be let go, since they would go with
// it. A second run, of which nothing fails, goes on.
func TestLeave_KeepChildrenFails(t *testing.T) {
	locked := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "b", errors.New(`admission webhook "x.y.z" denied the request: locked`))
	for name, tc := range map[string]struct {
		reason  string
		fails   func(r fakeapi.Request, lists int) error
		parents int // that stay until the second run
	}{
		"Patch": {"a webhook refuses to let a child go", func(r fakeapi.Request, _ int) error {
			if r.Writes() && r.Type == k8s.ConfigMap && r.Key.Name == "b" {
				return locked
			}
			return nil
		}, 1},
		"List": {"the children can't be listed after the survey", func(r fakeapi.Request, lists int) error {
			if r.Verb == "list" && r.Type == k8s.ConfigMap && lists == 2 {
				return apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
			}
			return nil
		}, 3},
		"ListOfStripped": {"those without a label can't be listed", func(r fakeapi.Request, lists int) error {
			if r.Verb == "list" && r.Type == k8s.ConfigMap && lists == 3 {
				return apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
			}
			return nil
		}, 3},
		"Lease": {"the lease can't be taken", func(r fakeapi.Request, _ int) error {
			if r.Writes() && r.Type == leaseType {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "op", errors.New("no"))
			}
			return nil
		}, 3},
	} {
		for _, runs := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/runs=%t", name, runs), func(t *testing.T) {
				rig.Bubble(t, func(t *testing.T) {
					server := electionServer()
					collect(t, server)
					h := &finalizing{}
					one := startReplica(t, server, "one", h)
					populate(t, server)
					if !runs {
						one.cancel()
						require.NoError(t, <-one.ended)
					}
					lists := 0
					server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
						if r.UserAgent != "uninstall" {
							return nil
						}
						if r.Verb == "list" && r.Type == k8s.ConfigMap {
							lists++
						}
						return tc.fails(r, lists)
					}})
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // a lease is asked for until then
					defer cancel()
					how := leave.How{KeepChildren: true, Finalize: !runs}
					d, said, err := uninstall(ctx, t, server, rig.Config(), h, how)
					require.Error(t, err, said)
					rig.Elapse(time.Minute)
					require.Len(t, server.List(k8s.ConfigMap), 3, "%s: %s", tc.reason, said)
					require.Len(t, server.List(sample.ParentType()), tc.parents, "%s: %s", tc.reason, said)
					require.Len(t, d.Left[0].Parents, tc.parents)

					server.SetHooks(fakeapi.Hooks{})
					d, _, err = uninstall(t.Context(), t, server, rig.Config(), h, how)
					require.NoError(t, err)
					leftNothing(t, d)
					rig.Elapse(time.Minute)
					require.Empty(t, server.List(sample.ParentType()))
					require.Len(t, server.List(k8s.ConfigMap), 3)
					if runs {
						one.cancel()
						require.NoError(t, <-one.ended)
					}
				})
			})
		}
	}
}

// TestLeave_KeepChildrenOfShards: shards have no lease that could be taken as a whole, so nothing is done.
func TestLeave_KeepChildrenOfShards(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		f := newFleet(t, 2)
		f.server.SetHooks(fakeapi.Hooks{})
		collect(t, f.server)
		h := &finalizing{}
		one := f.start("one", 2, h)
		f.create(0, 4, "v")
		rig.Elapse(30 * time.Second)
		d, _, err := uninstall(t.Context(), t, f.server, f.cfg, h, leave.How{KeepChildren: true})
		require.ErrorContains(t, err, "scale the deployed operator to zero first")
		require.Len(t, d.Left[0].Parents, 4)
		rig.Elapse(time.Minute)
		require.Len(t, f.server.List(k8s.ConfigMap), 4)
		require.Zero(t, h.count())
		one.cancel()
		require.NoError(t, <-one.ended)
	})
}

// TestLeave_KeepChildrenOfTwo: two operators have the same parents. A parent goes once the children of both are
// let go, and stays if those of one can't be, or aren't known.
func TestLeave_KeepChildrenOfTwo(t *testing.T) {
	for name, tc := range map[string]struct{ runs, refused, unlisted bool }{
		"Running": {runs: true}, "Stopped": {}, "RunningRefused": {runs: true, refused: true}, "StoppedRefused": {refused: true},
		"RunningUnlisted": {runs: true, unlisted: true}, "StoppedUnlisted": {unlisted: true},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := electionServer()
				collect(t, server)
				sync := func(prefix string) handler.Handler {
					return handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
						value, _ := req.Parent.Field("spec", "value")
						return &handler.SyncResponse{Children: []any{rig.Copied(prefix+req.Parent.Name(), value)}}, nil
					})
				}
				two := rig.Config()
				two.Name = "two"
				specs := []manager.Spec{{Config: rig.Config(), Handler: sync("one-")}, {Config: two, Handler: sync("two-")}}
				of := func(name string) *manager.Manager {
					rc := server.RESTConfig()
					rc.UserAgent = name
					m, err := manager.New(manager.Options{RESTConfig: rc, Logger: sample.DiscardLog(), LeaderElection: &lead.Config{Namespace: "ns", Identity: name}}, specs...)
					require.NoError(t, err)
					return m
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := make(chan error, 1)
				go func() { ended <- of("operator").Start(ctx) }()
				for _, name := range []string{"a", "b", "c"} {
					rig.CreateParent(t, server, name, "v")
				}
				rig.Elapse(time.Minute)
				require.Len(t, server.List(k8s.ConfigMap), 6)
				if !tc.runs {
					cancel()
					require.NoError(t, <-ended)
				}
				lists := 0 // two for the survey, then three for each operator
				server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
					if r.UserAgent != "uninstall" || r.Type != k8s.ConfigMap {
						return nil
					}
					if r.Verb == "list" {
						lists++
					}
					if tc.refused && r.Writes() && r.Key.Name == "two-b" || tc.unlisted && r.Verb == "list" && lists == 6 {
						return apierrors.NewInternalError(errors.New("not now"))
					}
					return nil
				}})
				_, err := of("uninstall").Leave(t.Context(), leave.How{KeepChildren: true, Drain: time.Minute}, func(*leave.Departure) bool { return true }, func(string) {})
				require.Equal(t, tc.refused || tc.unlisted, err != nil, "%v", err)
				rig.Elapse(time.Minute)
				if tc.runs {
					cancel()
					require.NoError(t, <-ended)
				}
				require.Len(t, server.List(k8s.ConfigMap), 6)
				require.Equal(t, tc.refused || tc.unlisted, server.Get(sample.ParentType(), rig.Key("b")) != nil)
				require.Equal(t, tc.unlisted, server.Get(sample.ParentType(), rig.Key("a")) != nil)
				if tc.unlisted {
					require.NotEmpty(t, server.Get(k8s.ConfigMap, rig.Key("one-a")).OwnerReferences(), "nothing is let go in vain")
				}
			})
		})
	}
}

// TestLeave_KeepChildrenStripped: a child from which somebody took labels while no operator ran is a child all the same.
func TestLeave_KeepChildrenStripped(t *testing.T) {
	for name, taken := range map[string][]string{
		"Operator": {"roperator.com/operator"}, "Parent": {"roperator.com/parent-uid"}, "Both": {"roperator.com/operator", "roperator.com/parent-uid"},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := electionServer()
				collect(t, server)
				h := &finalizing{}
				one := startReplica(t, server, "one", h)
				populate(t, server)
				one.cancel()
				require.NoError(t, <-one.ended)
				_, err := server.Change(k8s.ConfigMap, rig.Key("a"), func(o map[string]any) {
					meta, _ := o["metadata"].(map[string]any)
					labels, _ := meta["labels"].(map[string]any)
					for _, label := range taken {
						require.Contains(t, labels, label)
						delete(labels, label)
					}
				})
				require.NoError(t, err)
				_, said, err := uninstall(t.Context(), t, server, rig.Config(), h, leave.How{KeepChildren: true, Finalize: true})
				require.NoError(t, err)
				require.Contains(t, said, "children that are nobody's now: 3")
				rig.Elapse(time.Minute)
				require.Len(t, server.List(k8s.ConfigMap), 3)
			})
		})
	}
}

// startSelecting starts an operator that serves the parents "a" and "b" by a label, and returns its configuration.
func startSelecting(t *testing.T, server *fakeapi.Server, h handler.Handler) (config.Operator, *replica) {
	t.Helper()
	cfg := rig.Config()
	cfg.ParentSelector = "app=x"
	one := startReplicaOf(t, server, "one", cfg, h)
	for _, name := range []string{"a", "b"} {
		_, err := server.Create(map[string]any{
			"apiVersion": sample.ParentType().APIVersion, "kind": sample.ParentType().Kind,
			"metadata": map[string]any{"name": name, "namespace": "ns", "labels": map[string]any{"app": "x"}}, "spec": map[string]any{"value": "v"},
		})
		require.NoError(t, err)
	}
	rig.Elapse(time.Minute)
	require.Len(t, server.List(k8s.ConfigMap), 2)
	return cfg, one
}

// unselect takes a parent out of the ParentSelector of startSelecting.
func unselect(t *testing.T, server *fakeapi.Server, name string) {
	t.Helper()
	_, err := server.Change(sample.ParentType(), rig.Key(name), func(o map[string]any) {
		meta, _ := o["metadata"].(map[string]any)
		meta["labels"] = map[string]any{"app": "y"}
	})
	require.NoError(t, err)
}

// TestLeave_UnselectedStays: a parent that has left the ParentSelector while no operator ran loses the operator's
// finalizer, and nothing else becomes of it or its children, whatever is to stay.
func TestLeave_UnselectedStays(t *testing.T) {
	for name, how := range map[string]leave.How{
		"Delete": {Finalize: true}, "KeepChildren": {KeepChildren: true, Finalize: true}, "KeepParents": {KeepParents: true}, "KeepBoth": {KeepParents: true, KeepChildren: true},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := electionServer()
				collect(t, server)
				h := &finalizing{}
				cfg, one := startSelecting(t, server, h)
				one.cancel()
				require.NoError(t, <-one.ended)
				unselect(t, server, "b")
				child := server.Get(k8s.ConfigMap, rig.Key("b"))
				d, _, err := uninstall(t.Context(), t, server, cfg, h, how)
				require.NoError(t, err)
				leftNothing(t, d)
				rig.Elapse(time.Minute)
				require.Equal(t, how.KeepParents, server.Get(sample.ParentType(), rig.Key("a")) != nil)
				parent := server.Get(sample.ParentType(), rig.Key("b"))
				require.NotNil(t, parent)
				require.False(t, parent.IsDeleting())
				require.Empty(t, parent.Finalizers())
				require.Empty(t, parent.Annotations())
				require.Equal(t, child.ResourceVersion(), server.Get(k8s.ConfigMap, rig.Key("b")).ResourceVersion())
			})
		})
	}
}

// TestLeave_ChildrenOfReleased: what a parent kept that has left the ParentSelector isn't waited for.
func TestLeave_ChildrenOfReleased(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := electionServer()
		collect(t, server)
		h := &finalizing{}
		cfg, one := startSelecting(t, server, h)
		unselect(t, server, "b")
		rig.Elapse(time.Minute)
		require.Empty(t, server.Get(sample.ParentType(), rig.Key("b")).Finalizers())
		begin := time.Now()
		d, _, err := uninstall(t.Context(), t, server, cfg, h, leave.How{})
		require.NoError(t, err)
		leftNothing(t, d)
		require.Len(t, d.Surveys[0].Children, 1, "the other one stays")
		require.Less(t, time.Since(begin), time.Minute)
		require.NotNil(t, server.Get(k8s.ConfigMap, rig.Key("b")))
		one.cancel()
		require.NoError(t, <-one.ended)
	})
}

// TestLeave_PausedBeforeItLeft: a pause of an earlier uninstall ends although the parent has left the ParentSelector since.
func TestLeave_PausedBeforeItLeft(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := electionServer()
		h := &finalizing{}
		cfg, one := startSelecting(t, server, h)
		d, _, err := uninstall(t.Context(), t, server, cfg, h, leave.How{KeepParents: true})
		require.NoError(t, err)
		require.True(t, d.Paused)
		require.NotEmpty(t, server.Get(sample.ParentType(), rig.Key("b")).Annotations())
		one.cancel()
		require.NoError(t, <-one.ended)
		unselect(t, server, "b")
		_, _, err = uninstall(t.Context(), t, server, cfg, h, leave.How{KeepParents: true})
		require.NoError(t, err)
		for _, name := range []string{"a", "b"} {
			require.Empty(t, server.Get(sample.ParentType(), rig.Key(name)).Annotations())
		}
	})
}
