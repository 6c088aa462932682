package manager_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
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

// finalizing is a handler that copies, and finalizes at once. It counts the calls of
// Finalize.
type finalizing struct {
	mu struct {
		sync.Mutex
		finalized int
	}
}

func (f *finalizing) Sync(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	return rig.Copier(ctx, req)
}

func (f *finalizing) Finalize(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.finalized++
	return &handler.FinalizeResponse{Finalized: true}, nil
}

func (f *finalizing) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.finalized
}

// collect collects garbage every second until the test ends.
func collect(t *testing.T, server *fakeapi.Server) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
				server.CollectGarbage()
			}
		}
	}()
	t.Cleanup(func() { stop(); <-done })
}

// uninstall takes the operator out of the cluster.
func uninstall(ctx context.Context, t *testing.T, server *fakeapi.Server, cfg config.Operator, h handler.Handler, how leave.How) (*leave.Departure, string, error) {
	t.Helper()
	rc := server.RESTConfig()
	rc.UserAgent = "uninstall"
	m, err := rig.NewOne(cfg, h, manager.Options{RESTConfig: rc, Logger: sample.DiscardLog(), LeaderElection: &lead.Config{Namespace: "ns", Identity: "uninstall"}})
	require.NoError(t, err)
	var said strings.Builder
	if how.Drain == 0 {
		how.Drain = 5 * time.Minute
	}
	d, err := m.Leave(ctx, how, func(*leave.Departure) bool { return true }, func(text string) { said.WriteString(text + "\n") })
	return d, said.String(), err
}

func populate(t *testing.T, server *fakeapi.Server) {
	t.Helper()
	for _, name := range []string{"a", "b", "c"} {
		rig.CreateParent(t, server, name, "v")
	}
	rig.Elapse(5 * time.Second)
	require.Len(t, server.List(k8s.ConfigMap), 3)
}

func leftNothing(t *testing.T, d *leave.Departure) {
	t.Helper()
	require.NotEmpty(t, d.Left)
	for _, l := range d.Left {
		require.True(t, l.Nothing(), "%+v", l)
	}
}

func TestLeave(t *testing.T) {
	for name, tc := range map[string]struct {
		reason             string
		how                leave.How
		parents, children  int
		finalized          int
		pausedWhileItWorks bool
	}{
		"Everything":    {"parents are finalized, children collected", leave.How{}, 0, 0, 3, false},
		"Keep children": {"they are nobody's", leave.How{KeepChildren: true}, 0, 3, 3, false},
		"Keep parents":  {"nothing is deleted, nothing finalized", leave.How{KeepParents: true}, 3, 3, 0, true},
		"Keep both":     {"nothing is deleted, nothing finalized", leave.How{KeepParents: true, KeepChildren: true}, 3, 3, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := electionServer()
				collect(t, server)
				h := &finalizing{}
				one, two := startReplica(t, server, "one", h), startReplica(t, server, "two", h)
				populate(t, server)
				d, said, err := uninstall(t.Context(), t, server, rig.Config(), h, tc.how)
				require.NoError(t, err, said)
				leftNothing(t, d)
				require.Equal(t, tc.pausedWhileItWorks, d.Paused)
				rig.Elapse(time.Minute)
				require.Len(t, server.List(sample.ParentType()), tc.parents, tc.reason)
				require.Len(t, server.List(k8s.ConfigMap), tc.children, tc.reason)
				require.Equal(t, tc.finalized, h.count(), tc.reason)
				for _, parent := range server.List(sample.ParentType()) {
					require.Empty(t, parent.Finalizers())
				}
				for _, child := range server.List(k8s.ConfigMap) {
					require.Equal(t, tc.how.KeepChildren, len(child.OwnerReferences()) == 0)
					require.Equal(t, tc.how.KeepChildren, len(child.Labels()) == 0)
					require.Equal(t, tc.how.KeepChildren, len(child.Annotations()) == 0, "any operator may adopt what carries no mark")
				}
				one.cancel()
				two.cancel()
				require.NoError(t, <-one.ended)
				require.NoError(t, <-two.ended)

				d, said, err = uninstall(t.Context(), t, server, rig.Config(), h, tc.how)
				require.NoError(t, err, said)
				leftNothing(t, d)
				require.False(t, d.Paused)
				for _, parent := range server.List(sample.ParentType()) {
					require.Empty(t, parent.Annotations(), "nobody is left that it has to be kept from")
				}
				before := len(server.Writes())
				_, _, err = uninstall(t.Context(), t, server, rig.Config(), h, leave.How{KeepParents: true})
				require.NoError(t, err)
				if tc.parents == 0 {
					require.Empty(t, slices.DeleteFunc(server.Writes()[before:], func(w string) bool { return strings.Contains(w, "Lease") }), "there is nothing left to do")
				}
			})
		})
	}
}

// TestLeave_NoOperator: without an operator nobody finalizes, which is said, and mended.
func TestLeave_NoOperator(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := electionServer()
		collect(t, server)
		h := &finalizing{}
		one := startReplica(t, server, "one", h)
		populate(t, server)
		_, _, err := uninstall(t.Context(), t, server, rig.Config(), h, leave.How{Finalize: true})
		require.ErrorContains(t, err, "Lease ns/op: one renews it, so an operator works")
		require.Empty(t, writesBy(server, "uninstall"))
		one.cancel()
		require.NoError(t, <-one.ended)

		begin := time.Now()
		d, _, err := uninstall(t.Context(), t, server, rig.Config(), h, leave.How{})
		require.NoError(t, err)
		require.Less(t, time.Since(begin), time.Minute, "it doesn't wait for nobody")
		require.True(t, d.Stuck)
		require.Len(t, d.Left[0].Parents, 3)
		require.True(t, d.Left[0].Parents[0].Deleting)
		require.Zero(t, h.count())

		rig.CreateParent(t, server, "late", "v")
		d, said, err := uninstall(t.Context(), t, server, rig.Config(), h, leave.How{Finalize: true})
		require.NoError(t, err, said)
		leftNothing(t, d)
		require.Equal(t, 3, h.count(), "what was created since has no finalizer")
		require.Empty(t, server.List(sample.ParentType()))
		require.Empty(t, server.List(k8s.ConfigMap))
		require.Empty(t, holder(server))
	})
}

// TestLeave_Renamed: what an operator has let go, one of another name may adopt, as docs/guide/upgrading.md says.
func TestLeave_Renamed(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := electionServer()
		h := &finalizing{}
		former := rig.Start(t, server, rig.Config(), h)
		populate(t, server)
		before := server.Get(k8s.ConfigMap, rig.Key("a")).UID()
		former.Stop()
		d, said, err := uninstall(t.Context(), t, server, rig.Config(), h, leave.How{KeepParents: true, KeepChildren: true})
		require.NoError(t, err, said)
		leftNothing(t, d)

		cfg := rig.Config()
		cfg.Name, cfg.Children[0].Adopt = "renamed", true
		r := rig.Start(t, server, cfg, h)
		rig.Elapse(time.Minute)
		child := server.Get(k8s.ConfigMap, rig.Key("a"))
		errs := r.Errors("a")
		r.Stop()
		require.Empty(t, errs)
		require.Equal(t, before, child.UID())
		require.Equal(t, "renamed", child.Labels()["roperator.com/operator"])
		require.Len(t, child.OwnerReferences(), 1)
	})
}

// TestLeave_Created: parents that are created meanwhile are named, and left alone.
func TestLeave_Created(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := electionServer()
		collect(t, server)
		h := &finalizing{}
		one := startReplica(t, server, "one", h)
		populate(t, server)
		var once sync.Once
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Verb == "delete" && r.UserAgent == "uninstall" {
				once.Do(func() { rig.CreateParent(t, server, "late", "v") })
			}
			return nil
		}})
		d, _, err := uninstall(t.Context(), t, server, rig.Config(), h, leave.How{})
		require.NoError(t, err)
		require.Len(t, d.Left[0].Parents, 1)
		require.Equal(t, "late", d.Left[0].Parents[0].Ref.Key.Name)
		require.True(t, d.Left[0].Parents[0].New)
		rig.Elapse(10 * time.Second)
		require.NotNil(t, server.Get(k8s.ConfigMap, rig.Key("late")), "the operator serves it")
		one.cancel()
		require.NoError(t, <-one.ended)
	})
}

// TestLeave_Interrupted: what was begun is gone on with.
func TestLeave_Interrupted(t *testing.T) {
	for name, how := range map[string]leave.How{"Everything": {}, "Keep children": {KeepChildren: true}} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := electionServer()
				collect(t, server)
				h := &finalizing{}
				one := startReplica(t, server, "one", h)
				populate(t, server)
				children := server.List(k8s.ConfigMap)
				ctx, interrupt := context.WithCancelCause(t.Context())
				server.SetHooks(fakeapi.Hooks{After: func(r fakeapi.Request) error {
					if r.Verb == "delete" && r.UserAgent == "uninstall" {
						interrupt(errors.New("interrupted"))
					}
					return nil
				}})
				_, _, err := uninstall(ctx, t, server, rig.Config(), h, how)
				require.ErrorContains(t, err, "interrupted")
				server.SetHooks(fakeapi.Hooks{})
				rig.Elapse(time.Minute)
				require.Equal(t, "one", holder(server), "the operator works again")
				require.Len(t, server.List(sample.ParentType()), 2)
				d, said, err := uninstall(t.Context(), t, server, rig.Config(), h, how)
				require.NoError(t, err, said)
				leftNothing(t, d)
				require.Empty(t, server.List(sample.ParentType()))
				if how.KeepChildren {
					for i, child := range server.List(k8s.ConfigMap) {
						require.Equal(t, children[i].UID(), child.UID(), "it is the same one")
						require.Empty(t, child.OwnerReferences())
					}
				}
				one.cancel()
				require.NoError(t, <-one.ended)
			})
		})
	}
}

// TestLeave_Refused: mistakes and missing rights are named before the first write.
func TestLeave_Refused(t *testing.T) {
	foreign := rig.Config()
	foreign.Parent = k8s.ConfigMap
	foreign.Children = nil
	for name, tc := range map[string]struct {
		reason string
		cfg    config.Operator
		how    leave.How
		hooks  fakeapi.Hooks
		err    string
	}{
		"Rights": {"half of it would be worse than nothing", rig.Config(), leave.How{}, fakeapi.Hooks{
			Review: func(asked authorizationv1.ResourceAttributes) (authorizationv1.SubjectAccessReviewStatus, error) {
				return authorizationv1.SubjectAccessReviewStatus{Allowed: asked.Verb != "delete"}, nil
			},
		}, "parents.example.com: delete is forbidden"},
		"Lease": {"it may tell whether an operator works", rig.Config(), leave.How{}, fakeapi.Hooks{
			Before: func(r fakeapi.Request) error {
				if r.Type == leaseType {
					return apierrors.NewForbidden(schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, "op", errors.New(`User "me" cannot get resource "leases" in API group "coordination.k8s.io" in the namespace "ns"`))
				}
				return nil
			},
		}, `add the rule {apiGroups: ["coordination.k8s.io"], resources: ["leases"]`},
		"Kubernetes' own":     {"Namespaces of people would go", foreign, leave.How{}, fakeapi.Hooks{}, "use --keep-parents"},
		"Negative":            {"it is none", rig.Config(), leave.How{Drain: -1}, fakeapi.Hooks{}, "--drain"},
		"Finalize what stays": {"one of them is a mistake", rig.Config(), leave.How{Finalize: true, KeepParents: true}, fakeapi.Hooks{}, "contradict"},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := electionServer()
				rig.CreateParent(t, server, "a", "v", "roperator.com/op")
				server.SetHooks(tc.hooks)
				d, _, err := uninstall(t.Context(), t, server, tc.cfg, &finalizing{}, tc.how)
				require.ErrorContains(t, err, tc.err, tc.reason)
				require.False(t, d.Agreed)
				require.Empty(t, writesBy(server, "uninstall"))
				require.Nil(t, holder(server))
			})
		})
	}
}

// TestLeave_KeepsPauses: a pause of somebody else's stays, and so does what others have set.
func TestLeave_KeepsPauses(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := electionServer()
		rig.CreateParent(t, server, "a", "v", "theirs", "roperator.com/op")
		_, err := server.Change(sample.ParentType(), rig.Key("a"), func(o map[string]any) {
			meta, _ := o["metadata"].(map[string]any)
			meta["annotations"] = map[string]any{"roperator.com/paused": "true", "note": "x"}
		})
		require.NoError(t, err)
		d, _, err := uninstall(t.Context(), t, server, rig.Config(), &finalizing{}, leave.How{KeepParents: true})
		require.NoError(t, err)
		leftNothing(t, d)
		synctest.Wait()
		parent := server.Get(sample.ParentType(), rig.Key("a"))
		require.Equal(t, map[string]string{"roperator.com/paused": "true", "note": "x"}, parent.Annotations())
		require.Equal(t, []string{"theirs"}, parent.Finalizers())
	})
}

// TestLeave_Unselected: parents that the operator doesn't serve aren't its to delete, and
// lose its finalizer.
func TestLeave_Unselected(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := electionServer()
		collect(t, server)
		cfg := rig.Config()
		cfg.ParentSelector = "mine"
		rig.CreateParent(t, server, "foreign", "v", "theirs")
		rig.CreateParent(t, server, "former", "v", "roperator.com/op", "theirs")
		mine := rig.CreateParent(t, server, "mine", "v")
		_, err := server.Change(sample.ParentType(), mine.Key(), func(o map[string]any) {
			meta, _ := o["metadata"].(map[string]any)
			meta["labels"] = map[string]any{"mine": ""}
		})
		require.NoError(t, err)
		d, _, err := uninstall(t.Context(), t, server, cfg, &finalizing{}, leave.How{})
		require.NoError(t, err)
		leftNothing(t, d)
		require.Nil(t, server.Get(sample.ParentType(), mine.Key()))
		for _, name := range []string{"foreign", "former"} {
			require.Equal(t, []string{"theirs"}, server.Get(sample.ParentType(), rig.Key(name)).Finalizers())
			require.False(t, server.Get(sample.ParentType(), rig.Key(name)).IsDeleting())
		}
	})
}
