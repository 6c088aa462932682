package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// TestConflicts_FailsOnceEachTime: somebody makes a change every other second, and the handler
// fails at its first call after each, as one does that calls something outside. What it does at
// the next call follows from that change, and is no loop.
func TestConflicts_FailsOnceEachTime(t *testing.T) {
	set := func(field string) func(object map[string]any, text string) {
		return func(object map[string]any, text string) { object[field] = map[string]any{"value": text} }
	}
	annotate := func(object map[string]any, text string) {
		object["metadata"].(map[string]any)["annotations"].(map[string]any)["said"] = text
	}
	for name, tc := range map[string]struct {
		of      resource.Type
		object  string
		change  func(object map[string]any, text string)
		status  any // beside the error
		related bool
	}{
		"The parent":                     {of: sample.ParentType(), object: "one", change: set("spec")},
		"The parent, and a status":       {of: sample.ParentType(), object: "one", change: set("spec"), status: map[string]any{"said": "it fails"}},
		"The parent, with related types": {of: sample.ParentType(), object: "one", change: set("spec"), related: true},
		"A child":                        {of: k8s.ConfigMap, object: "one", change: annotate},
		"A child, and a status":          {of: k8s.ConfigMap, object: "one", change: annotate, status: map[string]any{"said": "it fails"}},
		"A related object":               {of: k8s.ConfigMap, object: "settings", change: set("data"), related: true},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				cfg, server := rig.Config(), rig.Server()
				h := handler.Funcs{}
				if tc.related {
					cfg.Related = []config.Related{{Type: k8s.ConfigMap}}
					h.RelateFunc = func(*resource.Resource) ([]handler.Ref, error) { return all(k8s.ConfigMap, "settings"), nil }
				}
				seen := map[string]bool{}
				h.SyncFunc = func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
					said := saidBy(req)
					if !seen[said] {
						seen[said] = true
						return &handler.SyncResponse{Status: tc.status}, errors.New("not yet")
					}
					resp := wants(rig.Copied("one", "v"))
					resp.Status = map[string]any{"said": said}
					return resp, nil
				}
				_, err := server.Create(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "settings", "namespace": "ns"}})
				require.NoError(t, err)
				r := rig.Start(t, server, cfg, h)
				r.Create("one", "v")
				rig.Elapse(5 * time.Second)
				for i := range 20 {
					r.Change(tc.of, tc.object, func(object map[string]any) { tc.change(object, fmt.Sprint("v", i)) })
					rig.Elapse(2 * time.Second)
				}
				said, _ := r.Get(sample.ParentType(), "one").Field("status", "said")
				require.Contains(t, said, "v19")
				require.Empty(t, r.Manager.Engine().Loops())
				r.Stop()
			})
		})
	}
}

// saidBy returns what is said by the parent's spec, by the child's annotation and by the related
// objects.
func saidBy(req *handler.SyncRequest) string {
	value, _ := req.Parent.Field("spec", "value")
	said := fmt.Sprint(value)
	for res := range req.Children.All() {
		text, _ := res.Annotation("said")
		said += text
	}
	for res := range req.Related.All() {
		value, _ := res.Field("data", "value")
		said += fmt.Sprint(value)
	}
	return said
}
