package conformance

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/handler/readiness"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

// mortal starts an operator whose way to the API server is a guillotine's.
func mortal(t *testing.T, cfg config.Operator, h handler.Handler, g *guillotine) *testkit.Kit {
	t.Helper()
	return testkit.NewWithOptions(t, cluster, cfg, h, testkit.KitOptions{Runner: runner.Options{RESTConfig: g.config()}})
}

func TestC121_KilledInGatedCreation(t *testing.T) {
	scenario(t, "C121", "kill -9 at each write of a gated creation, before it arrives and before its answer does: the order is kept, nothing is lost or made twice")
	needsControllerManager(t)
	killedAtEach(t, func(t *testing.T, name string, g *guillotine) {
		cfg := operator("c121-"+name, deploymentAndConfigMap()...)
		cfg.ReadyCondition = true
		h := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			first, second := ship(0, "1"), ship(1, "1")
			return &handler.SyncResponse{Children: []any{handler.After(configMapNamed("late"), second), handler.After(second, first), first}}, nil
		})
		kit := mortal(t, cfg, h, g)
		seen := record(t, kit.Namespace, parentType, k8s.Deployment, k8s.ConfigMap)
		playKubelet(t, kit.Namespace)
		kit.Create(parent("one", nil))
		g.reborn(t, kit, cfg, h, func() bool { return isReadyNow(kit.Get(parent("one", nil))) })
		settle(t, kit)
		entries := seen.until(t, kit.Get(parent("one", nil)))
		require.Less(t, currentAt(t, entries, "ship-0"), firstAt(t, entries, "ship-1"))
		require.Less(t, currentAt(t, entries, "ship-1"), firstAt(t, entries, "late"))
		require.Empty(t, goneOnes(entries))
		quiet(t, cfg.Name)
	})
}

// firstAt returns the resourceVersion at which an object came into being.
func firstAt(t *testing.T, entries []entry, name string) int64 {
	t.Helper()
	for _, e := range entries {
		if e.object.Name() == name {
			return e.version
		}
	}
	require.Fail(t, "it never existed", name)
	return 0
}

// currentAt returns the resourceVersion from which on a Deployment was Current.
func currentAt(t *testing.T, entries []entry, name string) int64 {
	t.Helper()
	for _, e := range entries {
		if e.object.Name() == name && e.object.Type() == k8s.Deployment && readiness.Of(e.object).State == readiness.Current {
			return e.version
		}
	}
	require.Fail(t, "it never was Current", name)
	return 0
}

// goneOnes returns the kinds of the objects that have gone, in order.
func goneOnes(entries []entry) (kinds []string) {
	for _, e := range entries {
		if e.gone && e.object.Name() != "kube-root-ca.crt" {
			kinds = append(kinds, e.object.Type().Kind)
		}
	}
	return kinds
}

func TestC122_KilledInTeardown(t *testing.T) {
	scenario(t, "C122", "kill -9 at each write of an ordered teardown: the order is kept, and nothing stays")
	killedAtEach(t, func(t *testing.T, name string, g *guillotine) {
		cfg := inOrder("c122-" + name)
		var kit *testkit.Kit
		var seen *chronicle
		g.spare(func() {
			kit = mortal(t, cfg, handler.SyncFunc(ofEach), g)
			seen = record(t, kit.Namespace, parentType, k8s.Deployment, k8s.Secret, k8s.ConfigMap)
			kit.Create(parent("one", nil))
			settle(t, kit)
		})
		kit.Delete(parent("one", nil))
		g.reborn(t, kit, cfg, handler.SyncFunc(ofEach), func() bool { return kit.Get(parent("one", nil)) == nil })
		settle(t, kit)
		var gone []string
		eventually(t, "the watches have told of the end", func() bool {
			seen.mu.Lock()
			defer seen.mu.Unlock()
			gone = goneOnes(seen.mu.entries)
			return len(gone) >= 7
		})
		require.Equal(t, []string{"Deployment", "Deployment", "Secret", "Secret", "ConfigMap", "ConfigMap", "Parent"}, gone)
	})
}

func TestC123_KilledInRollout(t *testing.T) {
	scenario(t, "C123", "kill -9 at each write of a rolling update: never are more unavailable than MaxUnavailable says, and it ends")
	needsControllerManager(t)
	killedAtEach(t, func(t *testing.T, name string, g *guillotine) {
		cfg := flotillaOperator("c123-"+name, &config.Roll{})
		f := &flotilla{t: t, cfg: cfg}
		g.spare(func() {
			f.Kit = mortal(t, cfg, handler.SyncFunc(ships), g)
			f.seen = record(t, f.Namespace, parentType, k8s.Deployment)
			playKubelet(t, f.Namespace)
			f.sail("1")
			f.arrives("1")
			settle(t, f.Kit)
		})
		f.sail("2")
		g.reborn(t, f.Kit, cfg, handler.SyncFunc(ships), func() bool {
			version, _ := f.Get(parent("one", nil)).Field("spec", "version")
			return version == "2" && isReadyNow(f.Get(parent("one", nil)))
		})
		settle(t, f.Kit)
		entries := f.seen.until(t, f.Get(parent("one", nil)))
		require.Equal(t, shipCount, neverMoreDown(t, entries, 1))
		neverReadyTooEarly(t, entries)
		require.Equal(t, []string{"2", "2", "2", "2"}, f.versions())
	})
}

func TestC124_KilledInRetain(t *testing.T) {
	scenario(t, "C124", "kill -9 at each write of the end of a parent with a retained claim: the claim survives as it is, without the operator's labels and owner reference, and the parent goes")
	needsControllerManager(t)
	killedAtEach(t, func(t *testing.T, name string, g *guillotine) {
		cfg := operator("c124-"+name, childrenBy(config.Replace, k8s.PersistentVolumeClaim, k8s.ConfigMap)...)
		cfg.Children[0].Retain = true
		cfg.Teardown = config.TeardownOrdered
		claims := []any{claimNamed(t, "a"), claimNamed(t, "b")}
		h := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			return &handler.SyncResponse{Children: append([]any{configMapNamed("goes")}, claims...)}, nil
		})
		var kit *testkit.Kit
		before := map[string]types.UID{}
		g.spare(func() {
			kit = mortal(t, cfg, h, g)
			kit.Create(parent("one", nil))
			settle(t, kit)
			for _, claim := range claims {
				live := kit.Get(claim)
				before[live.Name()] = live.UID()
			}
		})
		kit.Delete(parent("one", nil))
		g.reborn(t, kit, cfg, h, func() bool { return kit.Get(parent("one", nil)) == nil })
		kit.EventuallyGone(configMapNamed("goes"), patience)
		settle(t, kit)
		for _, claim := range claims {
			kept := kit.Get(claim)
			require.NotNil(t, kept)
			require.Equal(t, before[kept.Name()], kept.UID())
			require.Empty(t, kept.OwnerReferences())
			require.Empty(t, kept.Labels())
			require.False(t, kept.IsDeleting())
		}
	})
}

func claimNamed(t *testing.T, name string) map[string]any {
	t.Helper()
	claim := manifest(t, `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`)
	claim["metadata"] = map[string]any{"name": name}
	return claim
}
