package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// Parents that have left the selector while no operator ran.

// parentWith creates a parent with a value of the label mine, "" for none, and these
// finalizers.
func parentWith(t *testing.T, server *fakeapi.Server, name, mine string, finalizers ...any) *resource.Resource {
	t.Helper()
	object := map[string]any{
		"apiVersion": "example.com/v1", "kind": "Parent",
		"metadata": map[string]any{"name": name, "namespace": "ns", "finalizers": finalizers}, "spec": map[string]any{"value": "1"},
	}
	if mine != "" {
		label(mine)(object)
	}
	return create(t, server, object)
}

const ours = "roperator.com/op"

func TestDepartedBeforeTheStart_AreReleased(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, finalized := rig.Server(), 0
		h := handler.Funcs{SyncFunc: rig.Copier, FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
			finalized++
			return &handler.FinalizeResponse{}, nil
		}}
		cfg := rig.Config()
		cfg.ParentSelector, cfg.FormerFinalizers = "mine=yes", []string{"example.com/former"}
		r := rig.Start(t, server, cfg, h)
		parentWith(t, server, "child", "yes")
		rig.Elapse(time.Minute)
		r.Stop()
		_, err := server.Change(sample.ParentType(), rig.Key("child"), label("no"))
		require.NoError(t, err)
		parentWith(t, server, "mine", "yes", ours)
		parentWith(t, server, "deleted", "no", ours)
		require.NoError(t, server.Delete(sample.ParentType(), rig.Key("deleted")))
		parentWith(t, server, "shared", "", "example.com/theirs", ours, "example.com/former")
		parentWith(t, server, "former", "no", "example.com/former")
		untouched := []*resource.Resource{
			parentWith(t, server, "bare", "no"), parentWith(t, server, "theirs", "no", "example.com/theirs"),
			parentWith(t, server, "namesake", "no", "example.com/op"),
		}
		child := r.Get(k8s.ConfigMap, "child")

		before := len(server.Requests())
		r = rig.Start(t, server, cfg, h)
		for name, left := range map[string][]string{"child": {}, "former": {}, "shared": {"example.com/theirs"}, "mine": {ours}} {
			require.ElementsMatch(t, left, r.Get(sample.ParentType(), name).Finalizers(), name)
		}
		require.Nil(t, r.Get(sample.ParentType(), "deleted"))
		require.Zero(t, finalized)
		require.Equal(t, child.ResourceVersion(), r.Get(k8s.ConfigMap, "child").ResourceVersion(), "its children stay as they are")
		for _, parent := range untouched {
			require.Equal(t, parent.ResourceVersion(), r.Get(sample.ParentType(), parent.Name()).ResourceVersion(), parent.Name())
		}
		rig.Elapse(time.Hour)
		lists, gets := 0, map[string]int{}
		for _, req := range server.Requests()[before:] {
			switch {
			case req.Verb == "list" && req.Type == sample.ParentType():
				lists++
			case req.Verb == "get" && req.Type == sample.ParentType():
				gets[req.Key.Name]++
			}
		}
		require.Equal(t, 1, lists)
		require.Equal(t, map[string]int{"child": 1, "deleted": 1, "shared": 1, "former": 1}, gets, "each is read before")
		sizes := r.Manager.Engine().Sizes()
		require.Zero(t, sizes["departed"])
		require.Equal(t, 1, sizes["parents by UID"])
		r.Stop()
	})
}

func TestDepartedBeforeTheStart_WhetherTheyAreLookedFor(t *testing.T) {
	finalizing := handler.Funcs{SyncFunc: rig.Copier, FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
		return &handler.FinalizeResponse{Finalized: true}, nil
	}}
	for name, tc := range map[string]struct {
		reason   string
		selector string
		former   []string
		handler  handler.Handler
		dryRun   bool
		lists    int
	}{
		"SelectorAndFinalize": {"such a parent may have the finalizer", "mine=yes", nil, finalizing, false, 1},
		"FormerFinalizers":    {"a build without Finalize may find that of an earlier one", "mine=yes", []string{ours}, handler.SyncFunc(rig.Copier), false, 1},
		"NoSelector":          {"no parent can leave", "", []string{"example.com/former"}, finalizing, false, 0},
		"FinalizeDropped":     {"an earlier build may have had something to finalize", "mine=yes", nil, handler.SyncFunc(rig.Copier), false, 1},
		"DryRun":              {"nothing would be taken off", "mine=yes", nil, finalizing, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				parentWith(t, server, "one", "no", ours)
				cfg := rig.Config()
				cfg.ParentSelector, cfg.FormerFinalizers, cfg.DryRun = tc.selector, tc.former, tc.dryRun
				if slices.Contains(tc.former, ours) {
					cfg.Finalizer = config.FinalizerNever // else the name is that of this build
				}
				r := rig.Start(t, server, cfg, tc.handler)
				require.Equal(t, tc.lists, listsOf(server, sample.ParentType()), tc.reason)
				if tc.lists > 0 {
					require.Empty(t, r.Get(sample.ParentType(), "one").Finalizers())
				}
				r.Stop()
			})
		})
	}
}

// listsOf returns how often a type was listed.
func listsOf(server *fakeapi.Server, t resource.Type) int {
	n := 0
	for _, r := range server.Requests() {
		if r.Verb == "list" && r.Type == t {
			n++
		}
	}
	return n
}

// expireBetweenPages has the first list of parents expire before its second page, and tells whether it has.
func expireBetweenPages(server *fakeapi.Server) *atomic.Bool {
	var expired atomic.Bool
	server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
		if r.Type == sample.ParentType() && r.Query.Get("continue") != "" && !expired.Swap(true) {
			server.Compact()
		}
		return nil
	}})
	return &expired
}

func TestDepartedBeforeTheStart_ManyOnSeveralPages(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		for i := range 25 {
			parentWith(t, server, fmt.Sprint("p", i), []string{"yes", "no"}[i%2], ours)
		}
		server.LimitPages(3)
		expired := expireBetweenPages(server)
		r := rig.Start(t, server, selecting(), handler.SyncFunc(rig.Copier))
		rig.Elapse(time.Minute)
		require.True(t, expired.Load())
		for i := range 25 {
			require.Equal(t, i%2 == 0, slices.Contains(r.Get(sample.ParentType(), fmt.Sprint("p", i)).Finalizers(), ours), i)
		}
		r.Stop()
	})
}

// The list fails for a while: passes don't wait for it.
func TestDepartedBeforeTheStart_ListThatFails(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, fails := rig.Server(), 5
		parentWith(t, server, "left", "no", ours)
		parentWith(t, server, "mine", "yes")
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Verb == "list" && r.Type == sample.ParentType() && fails > 0 {
				fails--
				return errors.New("connection refused")
			}
			return nil
		}})
		r := rig.Start(t, server, selecting(), handler.SyncFunc(rig.Copier))
		require.NotNil(t, r.Get(k8s.ConfigMap, "mine"), "the first passes don't wait")
		require.Equal(t, []string{ours}, r.Get(sample.ParentType(), "left").Finalizers())
		require.Zero(t, r.Manager.Engine().Activity().Due, "a list that fails isn't work that is due")
		rig.Elapse(time.Hour)
		require.Empty(t, r.Get(sample.ParentType(), "left").Finalizers())
		require.Equal(t, 1, strings.Count(r.Logs.String(), "can't look for parents that left the selector"))
		require.Equal(t, 1, strings.Count(r.Logs.String(), "looked for parents that left the selector while no operator ran"))
		require.Equal(t, 6, listsOf(server, sample.ParentType()))
		r.Stop()
	})
}

// Something happens before the live read, or before the patch, of a parent that the
// list has found.
func TestDepartedBeforeTheStart_Races(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		verb   string
		change func(t *testing.T, server *fakeapi.Server)
		check  func(t *testing.T, r *rig.Rig)
	}{
		"BackBeforeTheRead": {"it is an ordinary parent again", "get", func(t *testing.T, server *fakeapi.Server) {
			_, err := server.Change(sample.ParentType(), rig.Key("one"), label("yes"))
			require.NoError(t, err)
		}, func(t *testing.T, r *rig.Rig) {
			require.Equal(t, []string{ours}, r.Get(sample.ParentType(), "one").Finalizers())
			require.NotNil(t, r.Get(k8s.ConfigMap, "one"))
		}},
		"BackBeforeThePatch": {"the patch is tested", "patch", func(t *testing.T, server *fakeapi.Server) {
			_, err := server.Change(sample.ParentType(), rig.Key("one"), label("yes"))
			require.NoError(t, err)
		}, func(t *testing.T, r *rig.Rig) {
			require.Equal(t, []string{ours}, r.Get(sample.ParentType(), "one").Finalizers())
		}},
		"BackWhileTheWatchLags": {"the live state counts", "get", func(t *testing.T, server *fakeapi.Server) {
			server.Hold(sample.ParentType())
			_, err := server.Change(sample.ParentType(), rig.Key("one"), label("yes"))
			require.NoError(t, err)
		}, func(t *testing.T, r *rig.Rig) {
			require.Equal(t, []string{ours}, r.Get(sample.ParentType(), "one").Finalizers())
		}},
		"AnotherFinalizer": {"it stays", "patch", func(t *testing.T, server *fakeapi.Server) {
			_, err := server.Change(sample.ParentType(), rig.Key("one"), func(o map[string]any) {
				metaOf(o)["finalizers"] = []any{"example.com/theirs", ours}
			})
			require.NoError(t, err)
		}, func(t *testing.T, r *rig.Rig) {
			require.Equal(t, []string{"example.com/theirs"}, r.Get(sample.ParentType(), "one").Finalizers())
		}},
		"Replaced": {"a parent of the same name is another one", "get", func(t *testing.T, server *fakeapi.Server) {
			_, err := server.Change(sample.ParentType(), rig.Key("one"), func(o map[string]any) { metaOf(o)["finalizers"] = []any{} })
			require.NoError(t, err)
			require.NoError(t, server.Delete(sample.ParentType(), rig.Key("one")))
			parentWith(t, server, "one", "no", ours)
		}, func(t *testing.T, r *rig.Rig) {
			require.Equal(t, []string{ours}, r.Get(sample.ParentType(), "one").Finalizers(), "of which nothing is known")
		}},
		"Deleted": {"it goes", "patch", func(t *testing.T, server *fakeapi.Server) {
			require.NoError(t, server.Delete(sample.ParentType(), rig.Key("one")))
		}, func(t *testing.T, r *rig.Rig) {
			require.Nil(t, r.Get(sample.ParentType(), "one"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, happened := rig.Server(), false
				parentWith(t, server, "one", "no", ours)
				server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
					if r.Verb == tc.verb && r.Type == sample.ParentType() && !happened {
						happened = true
						tc.change(t, server)
					}
					return nil
				}})
				r := rig.Start(t, server, selecting(), handler.SyncFunc(rig.Copier))
				rig.Elapse(time.Minute)
				require.True(t, happened)
				tc.check(t, r)
				server.Release()
				rig.Elapse(time.Minute)
				require.Zero(t, r.Manager.Engine().Sizes()["departed"], tc.reason)
				require.NotContains(t, r.Logs.String(), "level=ERROR")
				r.Stop()
			})
		})
	}
}

// A release that fails is tried again.
func TestDepartedBeforeTheStart_ReleaseThatFails(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, fails := rig.Server(), 3
		parentWith(t, server, "one", "no", ours)
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Verb == "get" && fails > 0 {
				fails--
				return errors.New("connection refused")
			}
			return nil
		}})
		r := rig.Start(t, server, selecting(), handler.SyncFunc(rig.Copier))
		require.NotEmpty(t, r.Get(sample.ParentType(), "one").Finalizers())
		rig.Elapse(time.Minute)
		require.Empty(t, r.Get(sample.ParentType(), "one").Finalizers())
		r.Stop()
	})
}

// Only the configured namespaces are looked at, and what the spec selects.
func TestDepartedBeforeTheStart_Within(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		for _, namespace := range []string{"ns", "other"} {
			create(t, server, map[string]any{
				"apiVersion": "example.com/v1", "kind": "Parent",
				"metadata": map[string]any{"name": "one", "namespace": namespace, "finalizers": []any{ours}},
			})
		}
		cfg := selecting()
		cfg.Namespaces = []string{"ns"}
		r := rig.Start(t, server, cfg, handler.SyncFunc(rig.Copier))
		require.Empty(t, r.Get(sample.ParentType(), "one").Finalizers())
		for _, parent := range server.List(sample.ParentType()) {
			require.Equal(t, parent.Namespace() == "other", len(parent.Finalizers()) == 1)
		}
		r.Stop()

		parentWith(t, server, "mine", "was", ours)
		parentWith(t, server, "theirs", "", ours)
		m, err := manager.New(manager.Options{RESTConfig: server.RESTConfig(), Logger: sample.DiscardLog()},
			manager.Spec{Config: selecting(), Handler: handler.SyncFunc(rig.Copier), DepartedWithin: "mine"})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Start(ctx) }()
		synctest.Wait()
		require.Empty(t, server.Get(sample.ParentType(), rig.Key("mine")).Finalizers())
		require.NotEmpty(t, server.Get(sample.ParentType(), rig.Key("theirs")).Finalizers())
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestDepartedBeforeTheStart_Plan(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		parentWith(t, server, "b", "no", ours, "example.com/theirs")
		parentWith(t, server, "a", "yes", ours)
		parentWith(t, server, "c", "yes", ours)
		lines, err := planOf(t, server, selecting(), handler.SyncFunc(rig.Copier))
		require.NoError(t, err)
		require.Equal(t, []string{"a: create ConfigMap a", "b: update Parent b", "c: create ConfigMap c"}, verbsOnly(lines))
		require.Contains(t, strings.Join(lines, "\n"), `metadata.finalizers: ["roperator.com/op","example.com/theirs"] -> ["example.com/theirs"]`)
		require.Empty(t, server.Writes())
	})
}

// A list that expires between two pages begins anew. No parent is planned twice.
func TestDepartedBeforeTheStart_PlanOfExpiredPages(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		var want []string
		for i := range 9 {
			parentWith(t, server, fmt.Sprint("p", i), "no", ours)
			want = append(want, fmt.Sprintf("p%d: update Parent p%[1]d", i))
		}
		server.LimitPages(3)
		expired := expireBetweenPages(server)
		lines, err := planOf(t, server, selecting(), handler.SyncFunc(rig.Copier))
		require.NoError(t, err)
		require.True(t, expired.Load())
		require.Equal(t, want, verbsOnly(lines))
	})
}
