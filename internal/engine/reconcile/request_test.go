package reconcile_test

import (
	"context"
	"errors"
	"strconv"
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
					require.Regexp(t, `msg=synced.* name=p `, r.Logs.String(), tc.reason)
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

// TestRequestIsTheHandlers_Loop: a handler that wants something else at each call is slowed down as soon if it takes
// what it was shown out of its request.
func TestRequestIsTheHandlers_Loop(t *testing.T) {
	var writes []int
	for _, take := range []bool{false, true} {
		rig.Bubble(t, func(t *testing.T) {
			server, n := rig.Server(), 0
			r := rig.Start(t, server, rig.Config(), handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
				if take {
					req.Children = handler.NewChildren()
				}
				n++
				return &handler.SyncResponse{Children: []any{rig.Copied("p", strconv.Itoa(n))}}, nil
			}))
			r.Create("p", "1")
			rig.Elapse(10 * time.Minute)
			writes = append(writes, len(server.Writes()))
			require.Contains(t, r.Logs.String(), "conflict loop")
			r.Stop()
		})
	}
	require.InDelta(t, writes[0], writes[1], 5, "the order of events makes a difference of a few")
}

// TestRequestIsTheHandlers_Errors: what a handler does with the errors that it is shown isn't remembered of the parent.
func TestRequestIsTheHandlers_Errors(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		theirs := rig.Copied("p", "theirs")
		metaOf(theirs)["namespace"] = "ns"
		_, err := server.Create(theirs)
		require.NoError(t, err)
		var shown []string
		r := rig.Start(t, server, rig.Config(), handler.SyncFunc(func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			for i := range req.LastErrors {
				shown = append(shown, req.LastErrors[i].Reason)
				req.LastErrors[i].Reason = "Mine"
			}
			if value, _ := req.Parent.Field("spec", "value"); value == "fails" {
				return nil, errors.New("a failed handler leaves the errors as they were")
			}
			return rig.Copier(ctx, req)
		}))
		r.Create("p", "1")
		rig.Elapse(time.Minute)
		before := len(shown)
		r.SetSpec("p", "fails")
		rig.Elapse(time.Hour)
		require.Greater(t, len(shown), before+3, "calls that fail, one after the other")
		for _, reason := range shown {
			require.Equal(t, "AlreadyExists", reason)
		}
		r.Stop()
	})
}
