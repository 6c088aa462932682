package reconcile_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
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
)

// A schemasWay is the way to the OpenAPI documents of an API server.
type schemasWay struct {
	closed atomic.Bool
	next   http.RoundTripper
}

func (w *schemasWay) RoundTrip(req *http.Request) (*http.Response, error) {
	if w.closed.Load() && strings.HasPrefix(req.URL.Path, "/openapi") {
		return nil, errors.New("closed")
	}
	return w.next.RoundTrip(req)
}

func appType() resource.Type { return resource.Type{APIVersion: "example.com/v1", Kind: "App"} }

// apps returns an API server of Apps, and an operator that wants one.
func apps(kind fakeapi.Kind) (*fakeapi.Server, config.Operator, handler.Handler) {
	cfg := rig.Config()
	cfg.Children = []config.Child{{Type: appType(), Strategy: config.Replace}}
	return fakeapi.New(fakeapi.Custom(sample.ParentType(), "parents"), kind), cfg, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		return wants(map[string]any{
			"apiVersion": appType().APIVersion, "kind": "App", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"value": specValue(req)},
		}), nil
	})
}

func behind(server *fakeapi.Server, way *schemasWay) manager.Options {
	cfg := server.RESTConfig()
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		way.next = next
		return way
	})
	return manager.Options{RESTConfig: cfg}
}

// TestPendingSchema_Plan: a plan shows what becomes of a child once the schema of its type is read. (S154)
func TestPendingSchema_Plan(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, cfg, h := apps(fakeapi.Custom(appType(), "apps"))
		r := rig.Start(t, server, cfg, h)
		r.Create("one", "v1")
		rig.Elapse(time.Minute)
		r.Stop()
		_, err := server.Change(sample.ParentType(), rig.Key("one"), func(o map[string]any) { o["spec"] = map[string]any{"value": "v2"} })
		require.NoError(t, err)
		way := &schemasWay{}
		way.closed.Store(true)
		cfg.DryRun = true
		m, err := rig.NewOne(cfg, h, behind(server, way))
		require.NoError(t, err)
		changes, err := m.Plan(t.Context())
		require.NoError(t, err)
		require.Len(t, changes, 1)
		require.Equal(t, "update", changes[0].Verb)
		require.Equal(t, "waits for the schema of example.com/v1/App", changes[0].Waits)
		require.True(t, changes[0].Unsure)
		require.Equal(t, "spec.value", changes[0].Fields[0].Path)
	})
}

// TestPendingSchema_Restart: what a webhook has made of a child at its creation is known by managedFields, also if the schema is
// read long after the start, and no create can be tried. (S154)
func TestPendingSchema_Restart(t *testing.T) {
	for name, late := range map[string]bool{"At once": false, "Late": true} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				kind := fakeapi.Custom(appType(), "apps")
				kind.Applies = true
				server, cfg, h := apps(kind)
				var full atomic.Bool
				var tried atomic.Int64
				server.SetHooks(fakeapi.Hooks{
					Before: func(req fakeapi.Request) error {
						if !req.DryRun {
							return nil
						}
						tried.Add(1)
						if req.Verb == "create" && full.Load() {
							return apierrors.NewForbidden(schema.GroupResource{Resource: "apps"}, req.Key.Name, errors.New("exceeded quota: q, requested: count/apps=1, used: count/apps=1, limited: count/apps=1"))
						}
						return nil
					},
					Admit: func(req fakeapi.Request, o map[string]any) error {
						if req.Verb == "create" && req.Type == appType() {
							o["spec"] = map[string]any{"value": "of the webhook"}
						}
						return nil
					},
				})
				r := rig.Start(t, server, cfg, h)
				r.Create("one", "v1")
				rig.Elapse(time.Minute)
				r.Stop()
				full.Store(true)
				tried.Store(0)
				before := server.Get(appType(), rig.Key("a")).ResourceVersion()
				way := &schemasWay{}
				way.closed.Store(late)
				r = rig.StartWith(t, server, cfg, h, behind(server, way))
				rig.Elapse(30 * time.Second)
				way.closed.Store(false)
				rig.Elapse(3 * time.Minute)
				require.Equal(t, before, server.Get(appType(), rig.Key("a")).ResourceVersion())
				require.Zero(t, tried.Load())
				r.Stop()
			})
		})
	}
}
