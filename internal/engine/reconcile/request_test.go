package reconcile_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// TestRequestIsTheHandlers: a handler, or one around it, may set what it likes in its request. The engine
// goes on by what it has found itself.
func TestRequestIsTheHandlers(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		set    func(req *handler.SyncRequest, other *resource.Resource)
	}{
		"Emptied":     {"without a parent", func(req *handler.SyncRequest, _ *resource.Resource) { *req = handler.SyncRequest{} }},
		"OtherParent": {"the pass stays that of its parent", func(req *handler.SyncRequest, other *resource.Resource) { req.Parent = other }},
		"NoChildren":  {"what was shown is compared with what is there", func(req *handler.SyncRequest, _ *resource.Resource) { req.Children = handler.NewChildren() }},
		"NoRelated":   {"a gate opens by what is there", func(req *handler.SyncRequest, _ *resource.Resource) { req.Related = handler.Objects{} }},
	} {
		for _, method := range []string{"Sync", "Finalize"} {
			t.Run(name+"/"+method, func(t *testing.T) {
				rig.Bubble(t, func(t *testing.T) {
					server, cfg := rig.Server(), rig.Config()
					cfg.Related = []config.Related{{Type: k8s.Secret, Fields: []string{"spec.value"}}}
					_, err := server.Create(map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s", "namespace": "ns"}})
					require.NoError(t, err)
					other := rig.CreateParent(t, server, "other", "s")
					children := func(req *handler.SyncRequest) []any {
						return []any{handler.After(rig.Copied(req.Parent.Name(), "1"), handler.Ref{Type: k8s.Secret, Name: "s"})}
					}
					set := func(req *handler.SyncRequest, in string) {
						if method == in && req.Parent.Name() != "other" {
							tc.set(req, other)
						}
					}
					r := rig.Start(t, server, cfg, handler.Funcs{
						SyncFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
							defer set(req, "Sync")
							return &handler.SyncResponse{Children: children(req)}, nil
						},
						FinalizeFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.FinalizeResponse, error) {
							defer set(req, "Finalize")
							return &handler.FinalizeResponse{Finalized: true, Children: children(req)}, nil
						},
					})
					r.Create("p", "s")
					rig.Elapse(time.Minute)
					require.NotNil(t, r.Get(k8s.ConfigMap, "p"), tc.reason)
					require.NotNil(t, r.Get(k8s.ConfigMap, "other"), tc.reason)
					passes := r.Passes()
					rig.Elapse(time.Hour)
					require.Equal(t, passes, r.Passes(), tc.reason)
					require.NoError(t, server.Delete(rig.Config().Parent, rig.Key("p")))
					rig.Elapse(time.Minute)
					require.Nil(t, server.Get(rig.Config().Parent, rig.Key("p")), tc.reason)
					require.NotNil(t, server.Get(rig.Config().Parent, rig.Key("other")), tc.reason)
					require.NotContains(t, r.Logs.String(), "panic", tc.reason)
					r.Stop()
				})
			})
		}
	}
}
