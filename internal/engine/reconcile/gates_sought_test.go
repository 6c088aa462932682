package reconcile_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/resource/k8s"
)

// gatedBySpec wants the ConfigMap c, whose gate is open if spec.value says so, and nothing if it
// says "gone".
func gatedBySpec(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	value, _ := req.Parent.Field("spec", "value")
	if value == "gone" {
		return &handler.SyncResponse{}, nil
	}
	return &handler.SyncResponse{Children: []any{handler.When(rig.Copied("c", "v"), value == "open")}}, nil
}

func stripLabels(object map[string]any) {
	delete(object["metadata"].(map[string]any), "labels")
}

// TestSought: a child that exists is treated as ever, whatever its gate. One that has lost its labels is
// delivered by no watch, and isn't tried to be created while its gate is closed.
func TestSought(t *testing.T) {
	h := handler.SyncFunc(gatedBySpec)
	for name, tc := range map[string]struct {
		reason string
		strip  func(t *testing.T, r *rig.Rig) *rig.Rig
	}{
		"While it runs": {"The operator knows that there was a child.", func(_ *testing.T, r *rig.Rig) *rig.Rig {
			r.Change(k8s.ConfigMap, "c", stripLabels)
			return r
		}},
		"While it doesn't": {"A new process doesn't know whether there was one.", func(t *testing.T, r *rig.Rig) *rig.Rig {
			r.Stop()
			r.Change(k8s.ConfigMap, "c", stripLabels)
			changes, err := rig.Plan(r.Server, rig.Config(), h)
			require.NoError(t, err)
			require.Len(t, changes, 1, "a plan says so beforehand")
			require.Equal(t, "update", changes[0].Verb)
			require.Empty(t, changes[0].Waits)
			return rig.Start(t, r.Server, rig.Config(), h)
		}},
		"Again": {"It may happen more than once.", func(_ *testing.T, r *rig.Rig) *rig.Rig {
			r.Change(k8s.ConfigMap, "c", stripLabels)
			rig.Elapse(10 * time.Minute)
			r.Change(k8s.ConfigMap, "c", stripLabels)
			return r
		}},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				r := rig.Start(t, rig.Server(), rig.Config(), h)
				r.Create("one", "open")
				rig.Elapse(time.Minute)
				r.SetSpec("one", "closed")
				rig.Elapse(time.Minute)
				r = tc.strip(t, r)
				rig.Elapse(10 * time.Minute)
				labels := r.Get(k8s.ConfigMap, "c").Labels()
				r.SetSpec("one", "gone")
				rig.Elapse(10 * time.Minute)
				left := r.Get(k8s.ConfigMap, "c")
				r.Stop()
				require.NotEmpty(t, labels, tc.reason)
				require.Nil(t, left, "it is deleted once it isn't wanted any more")
			})
		})
	}
}

// TestSought_Absent: a child that isn't there isn't created while its gate is closed, and is sought once. What has its
// name and is no child is left alone.
func TestSought_Absent(t *testing.T) {
	for name, become := range map[string]func(t *testing.T, r *rig.Rig){
		"Gone": func(*testing.T, *rig.Rig) {},
		"Somebody else's": func(t *testing.T, r *rig.Rig) {
			theirs := rig.Copied("c", "theirs")
			theirs["metadata"] = map[string]any{"namespace": rig.Key("c").Namespace, "name": "c"}
			_, err := r.Server.Create(theirs)
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				cfg := rig.Config()
				cfg.Children[0].Adopt = true // what is free is adopted once it would be created
				r := rig.Start(t, rig.Server(), cfg, handler.SyncFunc(gatedBySpec))
				r.Create("new", "closed")
				rig.Elapse(time.Minute)
				reads := func() int {
					return len(slices.DeleteFunc(r.Server.Requests(), func(q fakeapi.Request) bool { return q.Verb != "get" || q.Type != k8s.ConfigMap }))
				}
				require.Zero(t, reads(), "a new parent has no children")
				r.SetSpec("new", "open")
				rig.Elapse(time.Minute)
				r.SetSpec("new", "closed")
				rig.Elapse(time.Minute)
				require.NoError(t, r.Server.Delete(k8s.ConfigMap, rig.Key("c")))
				become(t, r)
				for _, value := range []string{"closed 1", "closed 2"} {
					rig.Elapse(10 * time.Minute)
					r.SetSpec("new", value)
				}
				rig.Elapse(10 * time.Minute)
				sought, is := reads(), r.Get(k8s.ConfigMap, "c")
				r.Stop()
				require.Equal(t, 1, sought)
				if name == "Gone" {
					require.Nil(t, is)
				} else {
					require.Empty(t, is.Labels())
				}
			})
		})
	}
}

// TestPlan_GatedNamespace: what is to be in a namespace that isn't created yet waits for it.
func TestPlan_GatedNamespace(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, cfg := teamServer(t)
		changes, err := rig.Plan(server, cfg, teamIn("new", false))
		require.NoError(t, err)
		waits := map[string]string{}
		for _, c := range changes {
			if c.Type != cfg.Parent {
				require.Equal(t, string(plan.VerbCreate), c.Verb)
				waits[c.Object.Name] = c.Waits
			}
		}
		require.Equal(t, map[string]string{"new": "waits for a condition of the handler", "c": "waits for Namespace new"}, waits)
	})
}
