package reconcile_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
)

// unserved is the answer of an API server that doesn't serve a version at the moment.
func unserved() error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "404 page not found", 0, true)
}

// For a while every request for a parent is answered with a 404, though the parent is
// there and the watch goes on. Nothing but a read or a watch that tells of the parent's
// end is one: the finalizer is taken off once that can be done.
func TestNotFound_WhileTheFinalizerIsTakenOff(t *testing.T) {
	unnamed := unserved()
	for name, tc := range map[string]struct {
		reason string
		answer map[string]error // by verb
		leave  func(*testing.T, *rig.Rig)
	}{
		"Unserved": {
			"the API server doesn't serve the version", map[string]error{"get": unnamed, "patch": unnamed},
			func(t *testing.T, r *rig.Rig) {
				require.NoError(t, r.Server.Delete(sample.ParentType(), rig.Key("one")))
			},
		},
		"Proxy": {
			"the read fails", map[string]error{"get": apierrors.NewServiceUnavailable("away"), "patch": unnamed},
			func(t *testing.T, r *rig.Rig) {
				require.NoError(t, r.Server.Delete(sample.ParentType(), rig.Key("one")))
			},
		},
		"Named": {
			"the answers name the parent, and the watch knows better",
			map[string]error{"get": apierrors.NewNotFound(schema.GroupResource{}, "one"), "patch": apierrors.NewNotFound(schema.GroupResource{}, "one")},
			func(t *testing.T, r *rig.Rig) {
				require.NoError(t, r.Server.Delete(sample.ParentType(), rig.Key("one")))
			},
		},
		"Departed": {
			"it has left the selector while the version wasn't served", map[string]error{"get": unnamed, "patch": unnamed},
			func(_ *testing.T, r *rig.Rig) { r.Change(sample.ParentType(), "one", label("no")) },
		},
		"DepartedPatch": {
			"a read tells that it is there", map[string]error{"patch": unnamed},
			func(_ *testing.T, r *rig.Rig) { r.Change(sample.ParentType(), "one", label("no")) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				r := rig.Start(t, rig.Server(), selecting(), handler.Funcs{
					SyncFunc: rig.Copier,
					FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
						return &handler.FinalizeResponse{Finalized: true}, nil
					},
				})
				createSelected(t, r, "one", "v1")
				rig.Elapse(time.Second)
				require.NotEmpty(t, r.Get(sample.ParentType(), "one").Finalizers())
				from := len(r.Server.Requests())
				r.Server.SetHooks(fakeapi.Hooks{Before: func(q fakeapi.Request) error {
					if q.Type == sample.ParentType() {
						return tc.answer[q.Verb]
					}
					return nil
				}})
				tc.leave(t, r)
				rig.Elapse(time.Hour)
				require.NotEmpty(t, r.Get(sample.ParentType(), "one").Finalizers())
				require.Less(t, len(r.Server.Requests())-from, 80, "tried less and less often")
				r.Server.SetHooks(fakeapi.Hooks{})
				rig.Elapse(20 * time.Minute)
				if live := r.Get(sample.ParentType(), "one"); live != nil {
					require.Empty(t, live.Finalizers(), tc.reason)
					require.False(t, live.IsDeleting(), tc.reason)
				}
				r.Stop()
			})
		})
	}
}

// A parent that carries nothing but a finalizer of an earlier build is finalized as any
// other, and kept until that is done.
func TestFinalize_ForAFormerFinalizer(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		rig.CreateParent(t, server, "one", "v1", "example.com/former")
		require.NoError(t, server.Delete(sample.ParentType(), rig.Key("one")))
		cfg := rig.Config()
		cfg.FormerFinalizers = []string{"example.com/former"}
		var calls atomic.Int32
		r := rig.Start(t, server, cfg, handler.Funcs{
			SyncFunc: rig.Copier,
			FinalizeFunc: func(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
				return &handler.FinalizeResponse{Finalized: calls.Add(1) > 1, Retry: time.Second}, nil
			},
		})
		require.EqualValues(t, 1, calls.Load())
		require.NotNil(t, r.Get(sample.ParentType(), "one"), "it isn't finalized yet")
		rig.Elapse(time.Minute)
		require.EqualValues(t, 2, calls.Load())
		require.Nil(t, r.Get(sample.ParentType(), "one"))
		r.Stop()
	})
}
