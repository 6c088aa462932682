package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// steps is a handler that wants a Deployment, and a ConfigMap that needs the Deployment.
func steps(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	value, _ := req.Parent.Field("spec", "value")
	text, _ := value.(string)
	first := deployment(req.Parent.Name(), text)
	return &handler.SyncResponse{
		Status:   map[string]any{"children": req.Children.Len()},
		Children: []any{handler.After(rig.Copied(req.Parent.Name(), value), first), first},
	}, nil
}

func deploymentsLater() config.Operator {
	cfg := rig.Config() // ConfigMaps come before Deployments, whatever waits for what
	cfg.Children = append(cfg.Children, config.Child{Type: k8s.Deployment, Strategy: config.Replace})
	return cfg
}

// serverOfDeployments has Deployments that nobody rolls out.
func serverOfDeployments() *fakeapi.Server {
	return fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"), fakeapi.ConfigMaps(), fakeapi.Secrets(), fakeapi.Custom(k8s.Deployment, "deployments"))
}

func deployment(name, value string) map[string]any {
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"replicas": 1, "paused": false, "selector": map[string]any{"matchLabels": map[string]any{"value": value}}},
	}
}

// setReady lets a Deployment say that its newest generation is rolled out, or that its Pod
// isn't available.
func setReady(t *testing.T, server *fakeapi.Server, name string, ready bool) {
	t.Helper()
	available := int64(0)
	if ready {
		available = 1
	}
	_, err := server.Change(k8s.Deployment, rig.Key(name), func(object map[string]any) {
		object["status"] = map[string]any{
			"observedGeneration": object["metadata"].(map[string]any)["generation"],
			"replicas":           int64(1), "updatedReplicas": int64(1), "readyReplicas": available, "availableReplicas": available,
			"conditions": []any{map[string]any{"type": "Available", "status": "True"}},
		}
	})
	require.NoError(t, err)
}

// A gate opens, closes and opens again. It holds up the creation alone, says so once, and costs
// nothing while it is closed.
func TestGate_OpensAndCloses(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := serverOfDeployments()
		r := rig.Start(t, server, deploymentsLater(), handler.SyncFunc(steps))
		r.Create("a", "1")
		rig.Elapse(time.Second)
		require.NotNil(t, r.Get(k8s.Deployment, "a"))
		require.Nil(t, r.Get(k8s.ConfigMap, "a"))
		const text = "not creating ConfigMap a before Deployment a is there and ready"
		require.Equal(t, []string{text}, r.Manager.Engine().Waits(rig.Key("a")))
		require.Len(t, said(server, text), 1)
		require.Empty(t, r.Errors("a"))
		status, _ := r.Get(sample.ParentType(), "a").Field("status")
		require.Equal(t, map[string]any{"children": int64(1)}, status, "it is written, without a generation that isn't carried out")

		before, passes := len(server.Writes()), r.Passes()
		rig.Elapse(time.Hour)
		require.Equal(t, []int{before, passes}, []int{len(server.Writes()), r.Passes()}, "silence")

		setReady(t, server, "a", false)
		rig.Elapse(time.Second)
		require.Nil(t, r.Get(k8s.ConfigMap, "a"))
		require.Len(t, said(server, text), 1, "it is the same wait")
		setReady(t, server, "a", true)
		rig.Elapse(time.Second)
		created := r.Get(k8s.ConfigMap, "a")
		require.NotNil(t, created)
		require.Empty(t, r.Manager.Engine().Waits(rig.Key("a")))
		observed, _ := r.Get(sample.ParentType(), "a").Field("status", "observedGeneration")
		require.EqualValues(t, 1, observed)

		setReady(t, server, "a", false) // the gate closes: nothing happens to what is there
		rig.Elapse(time.Minute)
		r.SetSpec("a", "2")
		rig.Elapse(time.Second)
		value, _ := r.Get(k8s.ConfigMap, "a").Field("data", "value")
		require.Equal(t, "2", value, "it isn't frozen")
		require.Equal(t, created.UID(), r.Get(k8s.ConfigMap, "a").UID(), "nor deleted")

		require.NoError(t, server.Delete(k8s.ConfigMap, rig.Key("a")))
		rig.Elapse(time.Minute)
		require.Nil(t, r.Get(k8s.ConfigMap, "a"), "to create it anew is to create it")
		require.Len(t, said(server, text), 1+1)
		setReady(t, server, "a", true)
		rig.Elapse(time.Second)
		require.NotNil(t, r.Get(k8s.ConfigMap, "a"))
		r.Stop()
	})
}

// A need that is to be written isn't ready, whatever its status says of the state before.
func TestGate_NeedIsWrittenFirst(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := serverOfDeployments()
		h := handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			resp, err := steps(ctx, req)
			if value, _ := req.Parent.Field("spec", "value"); value == "1" {
				resp.Children = resp.Children[1:]
			}
			return resp, err
		})
		r := rig.Start(t, server, deploymentsLater(), h)
		r.Create("a", "1")
		rig.Elapse(time.Second)
		setReady(t, server, "a", true)
		rig.Elapse(time.Second)
		r.SetSpec("a", "2") // the Deployment gets a new generation, of which nobody has said anything
		rig.Elapse(time.Minute)
		require.Nil(t, r.Get(k8s.ConfigMap, "a"))
		setReady(t, server, "a", true)
		rig.Elapse(time.Second)
		require.NotNil(t, r.Get(k8s.ConfigMap, "a"))
		r.Stop()
	})
}

// rejectUpdates has a policy reject each update of a Deployment, if it is on.
func rejectUpdates(server *fakeapi.Server, name string, on bool) {
	server.SetHooks(fakeapi.Hooks{Before: func(req fakeapi.Request) error {
		if on && req.Verb == "update" && req.Type == k8s.Deployment && req.Key.Name == name {
			return apierrors.NewBadRequest("no updates here")
		}
		return nil
	}})
}

// pauseByHand changes a Deployment as a user does, of whom managedFields tell.
func pauseByHand(r *rig.Rig, name string) {
	r.Change(k8s.Deployment, name, func(object map[string]any) {
		object["spec"].(map[string]any)["paused"] = true
		entry := func(manager, field string) any {
			return map[string]any{
				"manager": manager, "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
				"fieldsV1": map[string]any{"f:spec": map[string]any{field: map[string]any{}}},
			}
		}
		object["metadata"].(map[string]any)["managedFields"] = []any{entry("op", "f:replicas"), entry("kubectl-edit", "f:paused")}
	})
}

// What a gate waits for is corrected first. If the correction is rejected, the gate goes by the child as it is (S189).
func TestGate_NeedIsVerifiedFirst(t *testing.T) {
	for _, refused := range []bool{false, true} {
		t.Run(fmt.Sprint("refused=", refused), func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := serverOfDeployments()
				r := rig.Start(t, server, deploymentsLater(), handler.SyncFunc(steps))
				r.Create("a", "1")
				rig.Elapse(time.Second)
				setReady(t, server, "a", true)
				rig.Elapse(time.Second)
				require.NotNil(t, r.Get(k8s.ConfigMap, "a"))
				r.Stop()

				pauseByHand(r, "a")
				setReady(t, server, "a", true)
				rejectUpdates(server, "a", refused)
				require.NoError(t, server.Delete(k8s.ConfigMap, rig.Key("a")))
				r = rig.Start(t, server, deploymentsLater(), handler.SyncFunc(steps))
				rig.Elapse(time.Minute)
				if !refused {
					require.Nil(t, r.Get(k8s.ConfigMap, "a"), "the Deployment is written first")
					setReady(t, server, "a", true)
					rig.Elapse(time.Second)
				}
				require.NotNil(t, r.Get(k8s.ConfigMap, "a"), "drift that stays holds up nothing")
				r.Stop()
			})
		})
	}
}

// What Recreate has deleted comes back at once, though its gate is closed.
func TestGate_Recreate(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := serverOfDeployments()
		cfg := deploymentsLater()
		cfg.Children[0].Strategy = config.Recreate
		r := rig.Start(t, server, cfg, handler.SyncFunc(steps))
		r.Create("a", "1")
		rig.Elapse(time.Second)
		setReady(t, server, "a", true)
		rig.Elapse(time.Second)
		was := r.Get(k8s.ConfigMap, "a")
		require.NotNil(t, was)
		setReady(t, server, "a", false)
		rig.Elapse(time.Second)
		r.SetSpec("a", "2")
		rig.Elapse(time.Second)
		is := r.Get(k8s.ConfigMap, "a")
		require.NotNil(t, is)
		require.NotEqual(t, was.UID(), is.UID())
		r.Stop()
	})
}

// A creation that was refused isn't repeated while its gate is closed again.
func TestGate_ClosesOnARefusedCreation(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := serverOfDeployments()
		server.SetHooks(fakeapi.Hooks{Before: func(q fakeapi.Request) error {
			if q.Verb == "create" && q.Type == k8s.ConfigMap {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, q.Key.Name, errors.New("a webhook says no"))
			}
			return nil
		}})
		r := rig.Start(t, server, deploymentsLater(), handler.SyncFunc(steps))
		r.Create("a", "1")
		rig.Elapse(time.Second)
		setReady(t, server, "a", true)
		rig.Elapse(time.Second)
		require.NotEmpty(t, r.Errors("a"))
		setReady(t, server, "a", false)
		server.SetHooks(fakeapi.Hooks{})
		rig.Elapse(time.Second)
		r.SetSpec("a", "2")
		rig.Elapse(time.Hour)
		require.Nil(t, r.Get(k8s.ConfigMap, "a"))
		setReady(t, server, "a", true)
		rig.Elapse(time.Second)
		require.NotNil(t, r.Get(k8s.ConfigMap, "a"))
		r.Stop()
	})
}

// A related object may be what a child waits for, by name, before it exists.
func TestGate_Related(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := serverOfDeployments()
		cfg := rig.Config()
		cfg.Related = []config.Related{{Type: k8s.Secret}}
		h := handler.Funcs{
			RelateFunc: func(*resource.Resource) ([]handler.Ref, error) {
				return []handler.Ref{{Type: k8s.Secret, Name: "token"}}, nil
			},
			SyncFunc: func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
				resp, err := rig.Copier(ctx, req)
				resp.Children[0] = handler.After(resp.Children[0], handler.Ref{Type: k8s.Secret, Name: "token"})
				return resp, err
			},
		}
		r := rig.Start(t, server, cfg, h)
		r.Create("a", "1")
		rig.Elapse(time.Minute)
		require.Nil(t, r.Get(k8s.ConfigMap, "a"))
		require.Equal(t, []string{"not creating ConfigMap a before Secret token is there and ready"}, r.Manager.Engine().Waits(rig.Key("a")))
		_, err := server.Create(map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"namespace": "ns", "name": "token"}})
		require.NoError(t, err)
		rig.Elapse(time.Second)
		require.NotNil(t, r.Get(k8s.ConfigMap, "a"))
		r.Stop()
	})
}

// Children that wait for the same are told of in one text, however many they are.
func TestGate_ManyChildren(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := serverOfDeployments()
		r := rig.Start(t, server, deploymentsLater(), handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			first := deployment("first", "1")
			children := []any{first, handler.When(rig.Copied("closed", "x"), false)}
			for i := range 100 {
				children = append(children, handler.After(rig.Copied("late-"+strings.Repeat("x", i+1), "x"), first))
			}
			return &handler.SyncResponse{Children: children}, nil
		}))
		r.Create("a", "1")
		rig.Elapse(time.Minute)
		waits := r.Manager.Engine().Waits(rig.Key("a"))
		require.Len(t, waits, 2)
		require.Equal(t, "not creating ConfigMap closed before the handler's own condition for it is met", waits[0])
		require.Contains(t, waits[1], "more before Deployment first is there and ready")
		require.Len(t, said(server, "not creating"), 2)
		setReady(t, server, "first", true)
		rig.Elapse(time.Second)
		require.Len(t, server.List(k8s.ConfigMap), 100)
		r.Stop()
	})
}

// A plan lists a child that waits, and says for what.
func TestGate_Plan(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := serverOfDeployments()
		rig.CreateParent(t, server, "a", "1")
		changes, err := rig.Plan(server, deploymentsLater(), handler.SyncFunc(steps))
		require.NoError(t, err)
		require.Len(t, changes, 2)
		require.Equal(t, []string{"Deployment", "create", ""}, []string{changes[0].Type.Kind, changes[0].Verb, changes[0].Waits})
		require.Equal(t, []string{"ConfigMap", "create", "waits for Deployment ns/a"}, []string{changes[1].Type.Kind, changes[1].Verb, changes[1].Waits})
		require.NotNil(t, changes[1].Fields[0].Desired)
		text, err := changes[1].MarshalJSON()
		require.NoError(t, err)
		require.Contains(t, string(text), `"waits":"waits for Deployment ns/a"`)
	})
}

// An invalid gate writes nothing.
func TestGate_Invalid(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := serverOfDeployments()
		r := rig.Start(t, server, deploymentsLater(), handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			one, two := rig.Copied("one", "x"), rig.Copied("two", "x")
			return &handler.SyncResponse{Children: []any{handler.After(one, two), handler.After(two, one), deployment("w", "x")}}, nil
		}))
		r.Create("a", "1")
		rig.Elapse(time.Minute)
		require.ErrorContains(t, r.Errors("a")[0], "invalid response: handler.After: children need each other: ConfigMap ns/one needs ConfigMap ns/two needs ConfigMap ns/one")
		require.Empty(t, server.List(k8s.ConfigMap))
		require.Empty(t, server.List(k8s.Deployment))
		r.Stop()
	})
}
