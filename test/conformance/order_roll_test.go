package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
)

func TestC116_RollLimit(t *testing.T) {
	scenario(t, "C116", "Roll: of four Deployments, at no resourceVersion are more not Current by the operator's doing than MaxUnavailable says, a number or a share")
	for name, tc := range map[string]struct {
		roll  config.Roll
		limit int
	}{"one": {config.Roll{}, 1}, "share": {config.Roll{MaxUnavailable: "50%"}, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFlotilla(t, flotillaOperator("c116-"+name, &tc.roll))
			f.sail("1")
			f.arrives("1")
			f.sail("2")
			f.arrives("2")
			settle(t, f.Kit)
			require.Equal(t, shipCount, neverMoreDown(t, f.seen.until(t, f.Get(parent("one", nil))), tc.limit))
			require.Empty(t, f.HandlerErrors(parent("one", nil)))
			quiet(t, f.cfg.Name)
		})
	}
}

func TestC117_RollStands(t *testing.T) {
	scenario(t, "C117", "Roll: a rollout that breaks at the first child stops there, over a restart too, and says at which child; the next version mends it, the broken child first")
	f := newFlotilla(t, flotillaOperator("c117", &config.Roll{}))
	f.sail("1")
	f.arrives("1")
	f.sail("broken")
	eventually(t, "the first is given up", func() bool {
		c, now := conditionNow(f.Get(parent("one", nil)), "Stalled")
		return now && c.Status == "True" && c.Message == "Deployment "+f.Namespace+"/ship-0: Progress deadline exceeded"
	})
	settle(t, f.Kit)
	require.Equal(t, []string{"broken", "1", "1", "1"}, f.versions())
	require.Equal(t, []string{"not updating another Deployment before Deployment ship-0 is there and ready"}, f.Waits(parent("one", nil)))
	quiet(t, f.cfg.Name)
	f.Restart(f.cfg, handler.SyncFunc(ships))
	settle(t, f.Kit)
	require.Equal(t, []string{"broken", "1", "1", "1"}, f.versions())
	f.sail("2")
	f.arrives("2")
	settle(t, f.Kit)
	neverMoreDown(t, f.seen.until(t, f.Get(parent("one", nil))), 1)
	require.Empty(t, f.Waits(parent("one", nil)))
}

func TestC118_RollReverted(t *testing.T) {
	scenario(t, "C118", "Roll: going back in the middle is one more goal: only what has the other version is written, and the limit holds")
	f := newFlotilla(t, flotillaOperator("c118", &config.Roll{}))
	f.sail("1")
	f.arrives("1")
	untouched := f.Get(ship(3, "")).Generation()
	f.sail("2")
	eventually(t, "the rollout is on its way", func() bool { return f.versions()[1] == "2" })
	f.sail("1")
	f.arrives("1")
	settle(t, f.Kit)
	neverMoreDown(t, f.seen.until(t, f.Get(parent("one", nil))), 1)
	if f.seen.reached(ship(3, "").Name, "2") {
		t.Log("the rollout was over before it was reverted")
	} else {
		require.Equal(t, untouched, f.Get(ship(3, "")).Generation())
	}
	quiet(t, f.cfg.Name)
}

// reached says whether a Deployment ever had a version.
func (c *chronicle) reached(name, version string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.mu.entries {
		if e.object.Name() == name && e.object.Type().Kind == "Deployment" && versionOf(e.object) == version {
			return true
		}
	}
	return false
}

func TestC119_RollDriftAndScale(t *testing.T) {
	scenario(t, "C119", "Roll: in a rollout that stands, a child that is at its goal and changed by somebody is corrected at once, one that is deleted is created with the new state, and a plan says what waits")
	f := newFlotilla(t, flotillaOperator("c119", &config.Roll{}))
	f.sail("1")
	f.arrives("1")
	f.sail("broken")
	eventually(t, "the first is updated", func() bool { return f.versions()[0] == "broken" })
	settle(t, f.Kit)
	changes, err := planFor(t, f.Kit, f.cfg, handler.SyncFunc(ships), parent("one", nil))
	require.NoError(t, err)
	require.Len(t, changes, shipCount-1)
	for _, c := range changes {
		require.Equal(t, "waits for Deployment "+f.Namespace+"/ship-0", c.Waits)
		require.Equal(t, "update", c.Verb)
		require.NotEmpty(t, c.Fields)
	}
	_, client := clients(t, "somebody")
	_, err = client.Resource(plural(k8s.Deployment)).Namespace(f.Namespace).Patch(t.Context(), ship(0, "").Name, types.MergePatchType, []byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	eventually(t, "the change is undone", func() bool {
		replicas, _ := f.Get(ship(0, "")).Field("spec", "replicas")
		return replicas == int64(1)
	})
	f.Delete(ship(2, ""))
	eventually(t, "it is there again", func() bool { return f.versions()[2] == "broken" })
	settle(t, f.Kit)
	require.Equal(t, []string{"broken", "1", "broken", "1"}, f.versions())
}

func TestC120_RollPartition(t *testing.T) {
	scenario(t, "C120", "Roll: the parent's partition says how many children are updated, the last ones; the others stay, which is nothing to wait for; a wrong value is an error that names the field")
	f := newFlotilla(t, flotillaOperator("c120", &config.Roll{MaxUnavailable: "2", Partition: "spec.updated"}))
	f.sail("1")
	f.arrives("1")
	f.sail("2", "updated", 1)
	eventually(t, "the last is updated, and all is Ready", func() bool {
		return f.versions()[3] == "2" && isReadyNow(f.Get(parent("one", nil)))
	})
	settle(t, f.Kit)
	require.Equal(t, []string{"1", "1", "1", "2"}, f.versions())
	require.Empty(t, f.Waits(parent("one", nil)))
	quiet(t, f.cfg.Name)
	f.sail("3", "updated", "many")
	failing(t, f.Kit, parent("one", nil), "Parent "+f.Namespace+"/one: spec.updated: many: must be how many children of type apps/v1/Deployment are updated")
	require.Equal(t, []string{"1", "1", "1", "2"}, f.versions())
	f.sail("3", "updated", 4)
	f.arrives("3")
	neverMoreDown(t, f.seen.until(t, f.Get(parent("one", nil))), 2)
}
