package conformance

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/testkit"
)

// selected returns a parent with a value of the label mine, and with these finalizers.
func selected(name, mine string, finalizers ...any) map[string]any {
	it := parent(name, withData("k", "v"))
	metadata(it)["labels"] = map[string]any{"mine": mine}
	if len(finalizers) > 0 {
		metadata(it)["finalizers"] = finalizers
	}
	return it
}

// relabel sets the label mine of a live parent.
func relabel(kit *testkit.Kit, it any, mine string) {
	live := toUpdate(kit.Get(it))
	set := live.GetLabels() // a Kit for cluster-scoped parents has a label of its own
	set["mine"] = mine
	live.SetLabels(set)
	kit.Update(live)
}

func TestC161_LeavesSelectorWhileNoOperatorRuns(t *testing.T) {
	scenario(t, "C161", "a parent that has left the selector while no operator ran is read live and released at the start, one that is being deleted as well; its children stay, and no other parent is touched")
	cfg := operator("c161", configMapChild())
	cfg.ParentSelector = "mine=yes"
	kit := testkit.New(t, cluster, cfg, finalizing(released))
	for _, name := range []string{"left", "left-and-deleted", "stays"} {
		kit.Create(selected(name, "yes"))
	}
	settle(t, kit)
	kit.Stop()
	const ours = "roperator.com/c161"
	for _, name := range []string{"left", "left-and-deleted"} {
		require.Equal(t, []string{ours}, kit.Get(parent(name, nil)).Finalizers())
		relabel(kit, parent(name, nil), "no")
	}
	kit.Delete(parent("left-and-deleted", nil))
	kit.Create(selected("shared", "no", "example.com/theirs", ours))
	var untouched []string
	for name, finalizers := range map[string][]any{"bare": nil, "theirs": {"example.com/theirs"}, "namesake": {"example.com/c161"}} {
		kit.Create(selected(name, "no", finalizers...))
		untouched = append(untouched, name)
	}
	versions := map[string]string{}
	for _, name := range append(untouched, "stays") {
		versions[name] = kit.Get(parent(name, nil)).ResourceVersion()
	}
	child := kit.Get(configMap("left", "", ""))
	before := len(kit.Writes())

	changes, err := planFor(t, kit, cfg, finalizing(released), parent("left", nil))
	require.NoError(t, err)
	planned := make([]string, 0, len(changes))
	for _, c := range changes {
		planned = append(planned, c.Verb+" "+c.Type.Kind+" "+c.Object.Name+" "+c.Fields[0].Path)
	}
	require.Equal(t, []string{
		"update Parent left metadata.finalizers", "update Parent left-and-deleted metadata.finalizers", "update Parent shared metadata.finalizers",
	}, planned)

	kit.Restart(cfg, finalizing(released))
	settle(t, kit)
	require.Empty(t, kit.Get(parent("left", nil)).Finalizers())
	require.Nil(t, kit.Get(parent("left-and-deleted", nil)))
	require.Equal(t, []string{"example.com/theirs"}, kit.Get(parent("shared", nil)).Finalizers())
	require.Equal(t, child.ResourceVersion(), kit.Get(child).ResourceVersion(), "the children stay as they are")
	for name, version := range versions {
		require.Equal(t, version, kit.Get(parent(name, nil)).ResourceVersion(), name)
	}
	require.Zero(t, kit.Finalizes(parent("left-and-deleted", nil)), "Finalize isn't called: the parent isn't this operator's any more")
	require.Len(t, kit.Writes()[before:], 3)
	for _, name := range []string{"shared", "theirs", "namesake"} {
		withFinalizers(t, kit, name, func([]string) []string { return nil })
	}
}

func TestC161b_ManyParents(t *testing.T) {
	scenario(t, "C161b", "many parents have left the selector; the first passes don't wait for them")
	cfg := operator("c161-many", configMapChild())
	cfg.ParentSelector = "mine=yes"
	kit := testkit.New(t, cluster, cfg, finalizing(released))
	kit.Stop()
	const many = 60
	for i := range many {
		kit.Create(selected(fmt.Sprint("p", i), "no", "roperator.com/c161-many"))
	}
	kit.Create(selected("mine", "yes"))
	kit.Restart(cfg, finalizing(released))
	kit.EventuallyExists(configMap("mine", "", ""), patience)
	settle(t, kit)
	for i := range many {
		require.Empty(t, kit.Get(parent(fmt.Sprint("p", i), nil)).Finalizers())
	}
	require.Equal(t, []string{"roperator.com/c161-many"}, kit.Get(parent("mine", nil)).Finalizers())
}

func TestC161c_FinalizeDropped(t *testing.T) {
	scenario(t, "C161c", "a build whose handler no longer finalizes releases parents that have left the selector from its finalizer and those in FormerFinalizers")
	for name, how := range map[string]struct{ never, former bool }{
		"dropped": {}, "never": {never: true}, "never-and-former": {never: true, former: true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := operator("c161-"+name, configMapChild())
			cfg.ParentSelector = "mine=yes"
			kit := testkit.New(t, cluster, cfg, finalizing(released))
			kit.Create(selected("left", "yes"))
			settle(t, kit)
			kit.Stop()
			relabel(kit, parent("left", nil), "no")
			kit.Create(selected("older", "no", "old.example.com/c161"))
			cfg.FormerFinalizers = []string{"old.example.com/c161"}
			if how.never {
				cfg.Finalizer = config.FinalizerNever
			}
			if how.former {
				cfg.FormerFinalizers = append(cfg.FormerFinalizers, "roperator.com/"+cfg.Name)
			}
			kit.Restart(cfg, handler.SyncFunc(copier))
			settle(t, kit)
			require.Empty(t, kit.Get(parent("left", nil)).Finalizers())
			require.Empty(t, kit.Get(parent("older", nil)).Finalizers())
		})
	}
}

func TestC161d_NoListWhereNobodyCanHaveLeft(t *testing.T) {
	scenario(t, "C161d", "parents are listed once at the start, where there is a selector, and not at all elsewhere; then the operator is silent")
	log := needsAudit(t)
	for name, tc := range map[string]struct {
		selector string
		handler  handler.Handler
		lists    int
	}{
		"both":        {"mine=yes", finalizing(released), 1},
		"noselector":  {"", finalizing(released), 0},
		"nofinalizer": {"mine=yes", handler.SyncFunc(copier), 1}, // an earlier build may have had one
	} {
		t.Run(name, func(t *testing.T) {
			from := log.mark(t)
			cfg := operator("c161-"+name, configMapChild())
			cfg.ParentSelector = tc.selector
			kit := testkit.New(t, cluster, cfg, tc.handler)
			kit.Create(selected("one", "yes"))
			settle(t, kit)
			lists := 0
			for _, r := range log.since(t, from, cfg.Name) {
				if r.Verb == "list" && r.Resource == "parents" {
					lists++
					require.Equal(t, kit.Namespace, r.Namespace, "in the configured namespace")
				}
			}
			require.Equal(t, tc.lists, lists)
			if tc.lists > 0 {
				quiet(t, cfg.Name)
			}
		})
	}
}

// Kits whose operators have the same name share the cluster-scoped parents of the
// cluster, and must not release each other's.
func TestC161e_KitsOfClusterScopedParents(t *testing.T) {
	scenario(t, "C161e", "an operator in a Kit with cluster-scoped parents releases those of its own Kit alone")
	cfg := operator("c161-kits", configMapChild())
	cfg.Parent, cfg.ParentSelector = clusterParentType, "mine=yes"
	h := handler.Funcs{FinalizeFunc: finalizing(released).FinalizeFunc}
	create := func(kit *testkit.Kit) map[string]any {
		it := clusterParent(kit, "one", map[string]any{})
		metadata(it)["labels"] = map[string]any{"mine": "yes"}
		kit.Create(it)
		settle(t, kit)
		return clusterParent(kit, "one", nil)
	}
	first := testkit.New(t, cluster, cfg, h)
	theirs := create(first)
	second := testkit.New(t, cluster, cfg, h)
	it := create(second)
	second.Stop()
	relabel(second, it, "no")
	second.Restart(cfg, h)
	settle(t, second)
	require.Empty(t, second.Get(it).Finalizers(), "by the selector of its own")
	require.Equal(t, []string{"roperator.com/c161-kits"}, first.Get(theirs).Finalizers())
	require.False(t, slices.ContainsFunc(second.Writes(), func(w testkit.Write) bool { return w.Key.Name == first.Get(theirs).Name() }))
	first.Stop()
	first.Restart(cfg, h)
	settle(t, first)
	require.Equal(t, []string{"roperator.com/c161-kits"}, first.Get(theirs).Finalizers())
}
