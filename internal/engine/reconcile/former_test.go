package reconcile_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// withFormer is the configuration of a build that has no Widgets any more.
func withFormer() config.Operator {
	cfg := rig.Config()
	cfg.FormerChildren = []resource.Type{widgetType()}
	return cfg
}

// afterFormerBuild returns a server on which an earlier build has made a Widget for each parent.
func afterFormerBuild(t *testing.T, parents ...string) *fakeapi.Server {
	t.Helper()
	server := serverOfWidgets(true)
	r := rig.Start(t, server, optionalWidgets(false), &maker{})
	for _, name := range parents {
		r.Create(name, "1")
	}
	rig.Elapse(time.Second)
	for _, name := range parents {
		require.NotNil(t, r.Get(widgetType(), name), name)
	}
	r.Stop()
	return server
}

// What an earlier build has made of a type that this one hasn't is deleted once, and never
// watched. What others have made stays.
func TestFormer_IsDeletedOnce(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := afterFormerBuild(t, "a", "b", "departed")
		uid := string(server.Get(sample.ParentType(), rig.Key("a")).UID())
		copied := widget("copied", "1")
		copied["metadata"] = map[string]any{"name": "copied", "namespace": "ns", "labels": map[string]any{
			"roperator.com/parent-uid": uid, "roperator.com/operator": "op",
		}}
		create(t, server, copied)
		other := widget("other", "1")
		other["metadata"] = map[string]any{
			"name": "other", "namespace": "ns",
			"labels":          map[string]any{"roperator.com/parent-uid": uid, "roperator.com/operator": "another"},
			"ownerReferences": []any{map[string]any{"apiVersion": sample.ParentType().APIVersion, "kind": sample.ParentType().Kind, "name": "a", "uid": uid, "controller": true}},
		}
		create(t, server, other)
		_, err := server.Change(sample.ParentType(), rig.Key("departed"), func(o map[string]any) {
			o["metadata"].(map[string]any)["labels"] = map[string]any{"not": "ours"}
		})
		require.NoError(t, err)

		cfg := withFormer()
		cfg.ParentSelector = "!not"
		before := len(server.Requests())
		r := rig.Start(t, server, cfg, handler.SyncFunc(rig.Copier))
		rig.Elapse(time.Second)
		require.Nil(t, r.Get(widgetType(), "a"))
		require.Nil(t, r.Get(widgetType(), "b"))
		for _, name := range []string{"copied", "other", "departed"} {
			require.NotNil(t, r.Get(widgetType(), name), name)
		}
		require.Len(t, said(server, "deleted Widget a: an earlier version of the operator had made them"), 1)
		require.Empty(t, r.Errors("a"))
		var asked []string
		for _, request := range server.Requests()[before:] {
			if request.Type == widgetType() {
				asked = append(asked, request.String())
			}
		}
		require.ElementsMatch(t, []string{"list Widget ", "get Widget ns/a", "get Widget ns/b", "delete Widget ns/a", "delete Widget ns/b"}, asked)
		before = len(server.Requests())
		r.SetSpec("a", "2")
		rig.Elapse(time.Hour)
		for _, request := range server.Requests()[before:] {
			require.NotEqual(t, widgetType(), request.Type, request.String())
		}
		r.Stop()
	})
}

// They go by the first pass that succeeds: not while the parent is paused, the handler fails, or
// it wants its children left alone.
func TestFormer_GoesWithASuccess(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := afterFormerBuild(t, "p")
		var mode atomic.Value
		mode.Store("fail")
		r := rig.Start(t, server, withFormer(), handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			switch mode.Load() {
			case "fail":
				return nil, errors.New("not yet")
			case "keep":
				return &handler.SyncResponse{KeepChildren: true}, nil
			}
			return rig.Copier(ctx, req)
		}))
		rig.Elapse(time.Minute)
		require.NotNil(t, r.Get(widgetType(), "p"), "the handler fails")
		mode.Store("keep")
		rig.Elapse(10 * time.Minute)
		require.NotNil(t, r.Get(widgetType(), "p"), "children are left alone")
		mode.Store("")
		r.Change(sample.ParentType(), "p", func(o map[string]any) {
			o["metadata"].(map[string]any)["annotations"] = map[string]any{"roperator.com/paused": "true"}
		})
		rig.Elapse(time.Minute)
		require.NotNil(t, r.Get(widgetType(), "p"), "the parent is paused")
		r.Change(sample.ParentType(), "p", func(o map[string]any) { delete(o["metadata"].(map[string]any), "annotations") })
		rig.Elapse(time.Second)
		require.Nil(t, r.Get(widgetType(), "p"))
		r.Stop()
	})
}

// A delete that is refused is an error of the pass, and tried again. An object that isn't the
// parent's any more, or is another one of the same name, stays.
func TestFormer_Faults(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := afterFormerBuild(t, "a", "b", "c")
		var refused atomic.Int32
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			switch {
			case r.Type != widgetType():
			case r.Verb == "list" && refused.Load() == 0:
				refused.Add(1)
				return apierrors.NewInternalError(errors.New("not now"))
			case r.Verb == "delete" && r.Key.Name == "a" && refused.Add(1) < 4:
				return apierrors.NewForbidden(schema.GroupResource{Group: "widgets.example.com", Resource: "widgets"}, "a", errors.New("no"))
			case r.Verb == "get" && r.Key.Name == "b":
				_, err := server.Change(widgetType(), rig.Key("b"), func(o map[string]any) { delete(o["metadata"].(map[string]any), "ownerReferences") })
				return err
			case r.Verb == "get" && r.Key.Name == "c":
				if err := server.Delete(widgetType(), rig.Key("c")); err != nil {
					return err
				}
				object := widget("c", "new")
				object["metadata"] = map[string]any{"name": "c", "namespace": "ns"}
				_, err := server.Create(object)
				return err
			}
			return nil
		}})
		r := rig.Start(t, server, withFormer(), handler.SyncFunc(rig.Copier))
		rig.Elapse(time.Minute)
		require.ErrorContains(t, r.Errors("a")[0], `Widget ns/a: delete: `)
		require.ErrorContains(t, r.Errors("a")[0], `add the rule {apiGroups: ["widgets.example.com"], resources: ["widgets"], verbs: ["delete"]}`)
		require.Nil(t, r.Get(widgetType(), "a"))
		require.NotNil(t, r.Get(widgetType(), "b"), "it was orphaned")
		require.NotNil(t, r.Get(widgetType(), "c"), "it is another one")
		require.Contains(t, r.Logs.String(), "can't look for children yet, retrying")
		r.Stop()
	})
}

// A plan and a dry run show the deletes, and delete nothing.
func TestFormer_Plan(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := afterFormerBuild(t, "p")
		changes, err := rig.Plan(server, withFormer(), handler.SyncFunc(rig.Copier))
		require.NoError(t, err)
		var deletes []string
		for _, c := range changes {
			if c.Verb == "delete" {
				deletes = append(deletes, c.Type.Kind+" "+c.Object.String())
			}
		}
		require.Equal(t, []string{"Widget ns/p"}, deletes)
		cfg := withFormer()
		cfg.DryRun = true
		r := rig.Start(t, server, cfg, handler.SyncFunc(rig.Copier))
		rig.Elapse(time.Second)
		require.Contains(t, r.Logs.String(), `would=delete child="Widget ns/p"`)
		require.NotNil(t, r.Get(widgetType(), "p"))
		r.Stop()
	})
}

// A former type that isn't served has no objects. One whose list is forbidden is told at the
// start, with the rule.
func TestFormer_UnservedOrForbidden(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := afterFormerBuild(t, "p")
		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Type == widgetType() {
				return apierrors.NewForbidden(schema.GroupResource{Group: "widgets.example.com", Resource: "widgets"}, "", errors.New("no"))
			}
			return nil
		}})
		err := rig.RunOne(t.Context(), withFormer(), handler.SyncFunc(rig.Copier), manager.Options{RESTConfig: server.RESTConfig(), Logger: sample.DiscardLog()})
		require.ErrorContains(t, err, `add the rule {apiGroups: ["widgets.example.com"], resources: ["widgets"], verbs: ["get", "list", "delete"]}`)

		server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
			if r.Type == widgetType() { // it goes between the discovery and the list
				server.Withdraw(widgetType())
				return apierrors.NewGenericServerResponse(404, r.Verb, schema.GroupResource{}, "", "404 page not found", 0, true)
			}
			return nil
		}})
		_, err = server.Change(sample.ParentType(), rig.Key("p"), func(o map[string]any) { o["spec"] = map[string]any{"value": "2"} })
		require.NoError(t, err)
		for range 2 { // the second time it isn't there from the beginning
			r := rig.Start(t, server, withFormer(), handler.SyncFunc(rig.Copier))
			rig.Elapse(time.Second)
			value, _ := r.Get(k8s.ConfigMap, "p").Field("data", "value")
			require.Equal(t, "2", value)
			require.NotContains(t, r.Logs.String(), "level=ERROR")
			r.Stop()
		}
		r := rig.Start(t, server, withFormer(), handler.SyncFunc(rig.Copier))
		require.NotContains(t, r.Logs.String(), "level=ERROR")
		r.Stop()
	})
}

// They go as well if the parent isn't selected at first, and comes back after something of it has changed meanwhile.
func TestFormer_ParentComesBack(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := afterFormerBuild(t, "p")
		cfg := withFormer()
		cfg.ParentSelector = "!not"
		_, err := server.Change(sample.ParentType(), rig.Key("p"), func(o map[string]any) { metaOf(o)["labels"] = map[string]any{"not": "ours"} })
		require.NoError(t, err)
		r := rig.Start(t, server, cfg, handler.SyncFunc(rig.Copier))
		rig.Elapse(time.Minute)
		r.Change(k8s.ConfigMap, "p", func(o map[string]any) { metaOf(o)["annotations"] = map[string]any{"touched": "by somebody"} })
		rig.Elapse(time.Minute)
		require.NotNil(t, r.Get(widgetType(), "p"), "its parent isn't the operator's")
		r.Change(sample.ParentType(), "p", func(o map[string]any) { delete(metaOf(o), "labels") })
		rig.Elapse(time.Minute)
		require.Nil(t, r.Get(widgetType(), "p"))
		r.Stop()
	})
}

// Of what is no child any more nobody says that it was deleted.
func TestFormer_OrphanedMeanwhile(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := afterFormerBuild(t, "a")
		r := rig.Start(t, server, withFormer(), handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			if value, _ := req.Parent.Field("spec", "value"); value == "1" {
				return nil, errors.New("not yet")
			}
			return rig.Copier(ctx, req)
		}))
		rig.Elapse(time.Second)
		r.Change(widgetType(), "a", func(o map[string]any) { delete(metaOf(o), "ownerReferences"); delete(metaOf(o), "labels") })
		r.SetSpec("a", "2")
		rig.Elapse(time.Minute)
		require.NotNil(t, r.Get(widgetType(), "a"))
		require.Empty(t, said(server, "deleted Widget a: an earlier version of the operator had made them"))
		require.NotContains(t, r.Logs.String(), "delete Widget ns/a")
		r.Stop()
	})
}
