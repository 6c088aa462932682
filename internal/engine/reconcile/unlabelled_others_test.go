package reconcile_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// A parent leaves the selector before its unlabelled objects are adopted, and comes
// back.
func TestUnlabelled_ParentLeavesAndComesBack(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, s := rig.Server(), &shower{}
		s.answer(nil, true)
		p := parentWith(t, server, "one", "yes")
		create(t, server, unlabelled("old", p))
		cfg := adopting()
		cfg.ParentSelector = "mine=yes"
		r := rig.Start(t, server, cfg, handler.SyncFunc(s.sync))
		before := len(s.shown())
		r.Change(sample.ParentType(), "one", label("no"))
		rig.Elapse(time.Minute)
		s.answer(nil, false)
		r.Change(sample.ParentType(), "one", label("yes"))
		require.Equal(t, "old=theirs", s.shown()[before])
		require.Nil(t, r.Get(k8s.ConfigMap, "old"))
		require.Zero(t, r.Manager.Engine().Sizes()["unlabelled"])
		r.Stop()
	})
}

// A webhook takes the operator's labels off whatever is adopted.
func TestUnlabelled_NeverBecomesAChild(t *testing.T) {
	for _, desired := range []string{"one", "other"} {
		t.Run(desired, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				p := rig.CreateParent(t, server, desired, "1")
				create(t, server, unlabelled("one", p))
				server.SetHooks(fakeapi.Hooks{Admit: func(r fakeapi.Request, object map[string]any) error {
					if r.Type == k8s.ConfigMap && r.Verb == "patch" {
						delete(metaOf(object), "labels")
					}
					return nil
				}})
				r := rig.Start(t, server, adopting(), handler.SyncFunc(rig.Copier))
				rig.Elapse(time.Hour)
				require.Less(t, len(server.Requests()), 300, "it doesn't try in a loop")
				require.Contains(t, r.Logs.String(), "metadata.labels")
				r.Stop()
			})
		})
	}
}

// The values of a Secret are in no plan.
func TestUnlabelled_PlanOfASecret(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		p := rig.CreateParent(t, server, "one", "1")
		secret := unlabelled("one", p)
		secret["kind"], secret["data"] = "Secret", map[string]any{"value": "aHVudGVyMg=="}
		create(t, server, secret)
		cfg := config.Operator{Name: "op", Parent: sample.ParentType(), Children: []config.Child{{Type: k8s.Secret, Strategy: config.Replace, Adopt: true}}}
		lines, err := planOf(t, server, cfg, handler.SyncFunc(
			func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
				want := rig.Copied("one", "b3RoZXI=")
				want["kind"] = "Secret"
				return &handler.SyncResponse{Children: []any{want}}, nil
			}))
		require.NoError(t, err)
		require.NotContains(t, fmt.Sprint(lines), "aHVudGVyMg==")
	})
}
