package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

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

// secrets is the configuration of an operator that may adopt Secrets.
func secrets() config.Operator {
	cfg := adopting()
	cfg.Children[0].Type = k8s.Secret
	return cfg
}

// The values of a Secret are in no plan.
func TestUnlabelled_PlanOfASecret(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		p := rig.CreateParent(t, server, "one", "1")
		secret := unlabelled("one", p)
		secret["kind"], secret["data"] = "Secret", map[string]any{"value": "aHVudGVyMg=="}
		create(t, server, secret)
		lines, err := planOf(t, server, secrets(), handler.SyncFunc(
			func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
				want := rig.Copied("one", "b3RoZXI=")
				want["kind"] = "Secret"
				return &handler.SyncResponse{Children: []any{want}}, nil
			}))
		require.NoError(t, err)
		require.NotContains(t, fmt.Sprint(lines), "aHVudGVyMg==")
	})
}

// Nor is what the API server, or an authorizer, says of a read, in an error.
func TestUnlabelled_ReadOfASecretThatFails(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		secret := unlabelled("one", rig.CreateParent(t, server, "one", "1"))
		secret["kind"] = "Secret"
		create(t, server, secret)
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Verb == "get" && r.Type == k8s.Secret {
				return apierrors.NewInternalError(errors.New("hunter2"))
			}
			return nil
		}})
		r := rig.Start(t, server, secrets(), handler.SyncFunc(rig.Copier))
		rig.Elapse(time.Minute)
		require.ErrorContains(t, r.Errors("one")[0], "Secret ns/one: read: 500 Internal Server Error")
		require.NotContains(t, r.Logs.String(), "hunter2")
		r.Stop()
	})
}

// Another program replaces a child by an unlabelled object of the same name, before the
// watch tells that the child is gone. The handler is shown the one that is there.
func TestUnlabelled_InPlaceOfAChild(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, s := rig.Server(), &shower{}
		p := rig.CreateParent(t, server, "one", "1")
		child := unlabelled("one", p)
		metaOf(child)["labels"] = map[string]any{"roperator.com/operator": "op", sample.TrackingLabel: string(p.UID())}
		create(t, server, child)
		happened := false
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Verb == "list" && r.Type == k8s.ConfigMap && !happened {
				happened = true
				server.Hold(k8s.ConfigMap)
				require.NoError(t, server.Delete(k8s.ConfigMap, rig.Key("one")))
				now := unlabelled("one", p)
				now["data"] = map[string]any{"value": "new"}
				create(t, server, now)
			}
			return nil
		}})
		r := rig.Start(t, server, adopting(), handler.SyncFunc(s.sync))
		rig.Elapse(time.Minute)
		require.True(t, happened)
		require.Equal(t, "one=new", s.shown()[0])
		require.Equal(t, "patch ConfigMap ns/one", server.Writes()[0])
		server.Release()
		rig.Elapse(time.Minute)
		value, _ := r.Get(k8s.ConfigMap, "one").Field("data", "value")
		require.Equal(t, "1", value)
		require.Empty(t, r.Errors("one"))
		for _, request := range server.Requests() {
			if request.Verb == "patch" {
				require.Contains(t, string(request.Body), string(r.Get(k8s.ConfigMap, "one").UID()), "its predecessor isn't adopted")
			}
		}
		r.Stop()
	})
}
