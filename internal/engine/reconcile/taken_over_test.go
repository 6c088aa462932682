package reconcile_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/resource/k8s"
)

// TestPlan_TakenOver: a plan shows the handler what it would take over, as the pass after the taking does, and says what
// comes of that.
func TestPlan_TakenOver(t *testing.T) {
	object := func(name, value string) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "ns"}, "data": map[string]any{"value": value}}
	}
	there := func(req *handler.SyncRequest) bool { return req.Children.Len() > 0 }
	for name, tc := range map[string]struct {
		reason string
		sync   func(req *handler.SyncRequest) []any
		verb   string
		data   bool // the data change
	}{
		"Kept": {"a drawn value that is there stays", func(req *handler.SyncRequest) []any {
			for child := range req.Children.All() {
				return []any{handler.Keep(child)}
			}
			return []any{rig.Copied("one", "drawn")}
		}, "update", false},
		"Said": {"what the handler says in any case is written", func(*handler.SyncRequest) []any { return []any{rig.Copied("one", "said")} }, "update", true},
		"Same": {"nothing but what makes it a child", func(*handler.SyncRequest) []any { return []any{rig.Copied("one", "old")} }, "update", false},
		"Later": {"the handler looks at what is there", func(req *handler.SyncRequest) []any {
			if there(req) {
				return []any{rig.Copied("one", "second")}
			}
			return []any{rig.Copied("one", "old")}
		}, "update", true},
		"Unwanted": {"it isn't wanted once it is there", func(req *handler.SyncRequest) []any {
			if there(req) {
				return nil
			}
			return []any{rig.Copied("one", "old")}
		}, "delete", false},
	} {
		for how, edited := range map[string][]plan.Edited{"": nil, " edited": {editedParent("p", "1")}} {
			t.Run(name+how, func(t *testing.T) {
				rig.Bubble(t, func(t *testing.T) {
					server := rig.Server()
					create(t, server, object("one", "old"))
					if edited == nil {
						rig.CreateParent(t, server, "p", "1")
					}
					calls := 0
					h := handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
						calls++
						return &handler.SyncResponse{Children: tc.sync(req)}, nil
					})
					changes, err := rig.PlanWith(server, adopting(), h, rig.PlanOptions{Edited: edited})
					require.NoError(t, err)
					require.Equal(t, 2, calls, "once more with the object")
					require.Len(t, changes, 1, tc.reason)
					require.Equal(t, tc.verb, changes[0].Verb, tc.reason)
					data, labels := false, false
					for _, f := range changes[0].Fields {
						data, labels = data || f.Path == "data.value", labels || f.Path == "metadata.labels"
					}
					require.Equal(t, tc.data, data, "%s: %v", tc.reason, changes[0].Fields)
					require.Equal(t, tc.verb == "update", labels, "%v", changes[0].Fields)
					require.Empty(t, server.Writes())

					if edited == nil {
						r := rig.Start(t, server, adopting(), h)
						rig.Elapse(time.Minute)
						live := server.Get(k8s.ConfigMap, rig.Key("one"))
						r.Stop()
						if tc.verb == "delete" {
							return
						}
						value, _ := live.Field("data", "value")
						require.Equal(t, tc.data, value != "old", "as it was foreseen")
					}
				})
			})
		}
	}
}
