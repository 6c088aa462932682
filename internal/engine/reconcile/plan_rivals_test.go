package reconcile_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/resource/k8s"
)

// TestPlan_Rivals: several parents would create the same object. What can't be known is unsure; the rest is as it
// would be, and what is done is among what was planned.
func TestPlan_Rivals(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, cfg := rig.Server(), rig.Config()
		cfg.Children = append(cfg.Children, config.Child{Type: k8s.Secret, Strategy: config.Replace})
		h := handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			value, _ := req.Parent.Field("spec", "value")
			child := rig.Copied(fmt.Sprint(value), "1")
			secret := map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": fmt.Sprint(value)}}
			if value == "shared" {
				secret = map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": req.Parent.Name()}}
			}
			return &handler.SyncResponse{Children: []any{child, secret}}, nil
		})
		r := rig.Start(t, server, cfg, h)
		for _, name := range []string{"p1", "p2", "p3"} {
			r.Create(name, "old-"+name)
		}
		rig.Elapse(time.Minute)
		for name, value := range map[string]string{"p1": "shared", "p2": "shared", "p3": "alone"} {
			server.Hold(cfg.Parent)
			r.SetSpec(name, value)
		}
		r.Stop()
		server.Release(cfg.Parent)
		before := len(server.Writes())
		changes, err := rig.Plan(server, cfg, h)
		require.NoError(t, err)
		var sure, unsure []string
		for _, c := range changes {
			text := c.Parent.Name + ": " + c.Verb + " " + c.Type.Kind + " " + c.Object.Name
			if c.Unsure {
				unsure = append(unsure, text)
			} else if c.Type != cfg.Parent {
				sure = append(sure, text)
			}
		}
		require.ElementsMatch(t, []string{
			"p1: create ConfigMap shared", "p1: delete ConfigMap old-p1", "p1: delete Secret old-p1",
			"p2: create ConfigMap shared", "p2: delete ConfigMap old-p2", "p2: delete Secret old-p2",
		}, unsure)
		require.ElementsMatch(t, []string{
			"p1: create Secret p1", "p2: create Secret p2",
			"p3: create ConfigMap alone", "p3: create Secret alone", "p3: delete ConfigMap old-p3", "p3: delete Secret old-p3",
		}, sure)
		r = rig.Start(t, server, cfg, h)
		rig.Elapse(time.Minute)
		r.Stop()
		done := server.Writes()[before:]
		for _, want := range []string{"create Secret ns/p1", "create Secret ns/p2", "create ConfigMap ns/alone", "create Secret ns/alone", "delete ConfigMap ns/old-p3", "delete Secret ns/old-p3"} {
			require.Contains(t, done, want)
		}
		kept := slices.DeleteFunc([]string{"old-p1", "old-p2"}, func(name string) bool { return server.Get(k8s.ConfigMap, rig.Key(name)) == nil })
		require.Len(t, kept, 1, "that of the parent whose creation was refused")
	})
}

// TestPlan_RivalsAdopt: the same for an object that is there already, and that each of several parents would adopt.
func TestPlan_RivalsAdopt(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, cfg := rig.Server(), rig.Config()
		cfg.Children[0].Adopt = true
		h := handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			value, _ := req.Parent.Field("spec", "value")
			return &handler.SyncResponse{Children: []any{rig.Copied(fmt.Sprint(value), "1")}}, nil
		})
		free := rig.Copied("shared", "0")
		metaOf(free)["namespace"] = "ns"
		_, err := server.Create(free)
		require.NoError(t, err)
		for name, value := range map[string]string{"p1": "shared", "p2": "shared", "p3": "alone"} {
			rig.CreateParent(t, server, name, value)
		}
		changes, err := rig.Plan(server, cfg, h)
		require.NoError(t, err)
		unsure := map[string]bool{}
		for _, c := range changes {
			if c.Type == k8s.ConfigMap {
				unsure[c.Parent.Name+": "+c.Verb+" "+c.Object.Name] = c.Unsure
			}
		}
		require.Equal(t, map[string]bool{"p1: update shared": true, "p2: update shared": true, "p3: create alone": false}, unsure)
	})
}
