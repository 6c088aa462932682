package conformance

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

func TestC11b_RepeatedEnvNames(t *testing.T) {
	scenario(t, "C11b", "two variables of one name, as the API server allows: no loop, and a change converges")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Recreate, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c11-twice-"+lower(strategy), childrenBy(strategy, k8s.Deployment)...)
			deployment := func(first, second string) map[string]any {
				return manifest(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: one}, spec: {replicas: 0, selector: {matchLabels: {app: one}}, template: {
					metadata: {labels: {app: one}}, spec: {containers: [{name: main, image: example.com/app, env: [{name: A, value: "`+first+`"}, {name: B, value: b}, {name: A, value: "`+second+`"}]}]}}}}`)
			}
			s.want(deployment("1", "2"))
			s.silent()
			s.restart()
			s.want(deployment("3", "4"))
			s.Eventually(deployment("3", "4"), patience)
			s.silent()
			s.restart()
		})
	}
}

func TestC15b_ObservedChildChanged(t *testing.T) {
	scenario(t, "C15b", "a handler that returns the observed child with a change of its own: written once, and what others set is kept")
	for _, strategy := range []config.UpdateStrategy{config.Replace, config.Apply} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "c15-changed-"+lower(strategy), childrenBy(strategy, k8s.Service, k8s.Deployment)...)
			first := []any{
				manifest(t, `{apiVersion: v1, kind: Service, metadata: {name: one}, spec: {selector: {app: one}, ports: [{port: 80}]}}`), deploymentWith(t, "1"),
			}
			s.answer(func(req *handler.SyncRequest) *handler.SyncResponse {
				color, _ := req.Parent.Field("spec", "revision")
				var children []any
				for _, child := range first {
					if live, ok := req.Children.Find(child); ok {
						u := live.Unstructured()
						spec := u.Object["spec"].(map[string]any)
						if template, ok := spec["template"].(map[string]any); ok {
							template["metadata"].(map[string]any)["annotations"] = map[string]any{"color": fmt.Sprint(color)}
						} else {
							spec["selector"] = map[string]any{"color": fmt.Sprint(color)}
						}
						child = u
					}
					children = append(children, child)
				}
				return &handler.SyncResponse{Children: children}
			})
			s.EventuallyExists(first[0], patience)
			settle(t, s.Kit)
			s.undisturbed()
			require.Equal(t, map[string]any{"color": "1"}, s.field(first[0], "spec", "selector"))
			s.silent()
			s.patch(k8s.Service, "one", `{"metadata":{"labels":{"theirs":"x"}}}`)
			settle(t, s.Kit)
			s.Update(parent("one", map[string]any{"revision": 2}))
			settle(t, s.Kit)
			require.Empty(t, s.errors())
			require.Equal(t, map[string]any{"color": "2"}, s.field(first[0], "spec", "selector"))
			require.Equal(t, "2", s.field(first[1], "spec", "template", "metadata", "annotations", "color"))
			require.Equal(t, "x", s.field(first[0], "metadata", "labels", "theirs"))
			s.undisturbed()
			s.silent()
			s.restart()
		})
	}
}

func TestC21b_PrunedStatus(t *testing.T) {
	needsWidgets(t)
	scenario(t, "C21b", "a status of which the schema prunes fields and adds defaults is written once")
	cfg := operator("c21-pruned", childrenBy(config.Replace, k8s.ConfigMap)...)
	cfg.Parent = gadgetType
	s := newStageWith(t, cfg, testkit.KitOptions{FieldValidation: "Warn"})
	answer := func(phase string) {
		s.answer(func(*handler.SyncRequest) *handler.SyncResponse {
			return &handler.SyncResponse{Status: map[string]any{
				"phase": phase, "unknown": []any{1, 2}, "conditions": []any{map[string]any{"type": "Ready", "more": true}},
			}}
		})
		settle(t, s.Kit)
	}
	answer("One")
	require.Equal(t, map[string]any{
		"phase": "One", "mode": "auto", "observedGeneration": int64(1), "conditions": []any{map[string]any{"type": "Ready", "status": "Unknown"}},
	}, s.field(s.it(), "status"))
	require.Equal(t, []string{"update-status"}, verbs(s.Writes(), "Gadget", "one"))
	s.silent()
	before := s.Get(s.it()).ResourceVersion()
	s.Stop()
	s.Restart(s.config, handler.SyncFunc(s.sync))
	settle(t, s.Kit)
	require.Equal(t, before, s.Get(s.it()).ResourceVersion(), "nothing is persisted")
	s.silent()
	answer("Two")
	require.Equal(t, "Two", s.field(s.it(), "status", "phase"))
	s.silent()
}
