package reconcile_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// TestConflicts_RelatedToItself: a parent may refer to itself, or to its own children. What the
// operator writes comes back as a change of a related object then, which doesn't excuse the next
// write.
func TestConflicts_RelatedToItself(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		of     resource.Type
		refs   func(parent *resource.Resource) []handler.Ref
		sync   func(call int, req *handler.SyncRequest) *handler.SyncResponse
		path   string
	}{
		"Itself": {
			reason: "the parent is one of the parents that it refers to", of: sample.ParentType(),
			refs: func(*resource.Resource) []handler.Ref {
				return []handler.Ref{{Type: sample.ParentType(), Namespace: "ns"}}
			},
			sync: func(call int, _ *handler.SyncRequest) *handler.SyncResponse {
				return &handler.SyncResponse{Status: map[string]any{"n": call}}
			},
			path: "status.n",
		},
		"Its child": {
			reason: "the child is a related object, too", of: k8s.ConfigMap,
			refs: func(p *resource.Resource) []handler.Ref {
				return []handler.Ref{{Type: k8s.ConfigMap, Namespace: "ns", Name: p.Name()}}
			},
			sync: func(call int, req *handler.SyncRequest) *handler.SyncResponse {
				return wants(rig.Copied(req.Parent.Name(), fmt.Sprint(call)))
			},
			path: "data.value",
		},
	} {
		for round := range 5 { // whether the parent's event comes before that of the related object is chance
			t.Run(fmt.Sprint(name, " ", round), func(t *testing.T) {
				rig.Bubble(t, func(t *testing.T) {
					calls := &callLog{}
					cfg := rig.Config()
					cfg.Related = []config.Related{{Type: tc.of}}
					h := &restless{calls: calls, refs: tc.refs, sync: tc.sync}
					r := rig.Start(t, rig.Server(), cfg, h)
					r.Create("one", "v1")
					rig.Elapse(10 * time.Second)
					require.LessOrEqual(t, calls.len(), 13, tc.reason)
					require.NotEmpty(t, r.Manager.Engine().Loops(), tc.reason)
					require.Contains(t, r.Manager.Engine().Loops()[0].Path, tc.path, tc.reason)
					before := len(r.Server.Writes())
					rig.Elapse(time.Minute)
					r.Stop()
					require.Less(t, len(r.Server.Writes())-before, 40, tc.reason)
					require.NotZero(t, strings.Count(r.Logs.String(), "conflict loop"))
				})
			})
		}
	}
}

// A restless handler answers otherwise at each call.
type restless struct {
	calls *callLog
	refs  func(parent *resource.Resource) []handler.Ref
	sync  func(call int, req *handler.SyncRequest) *handler.SyncResponse
}

func (h *restless) Sync(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	if n := h.calls.note(); n < 10_000 { // else the bubble's time would stand still
		return h.sync(n, req), nil
	}
	return &handler.SyncResponse{KeepChildren: true}, nil
}

func (*restless) Finalize(context.Context, *handler.SyncRequest) (*handler.FinalizeResponse, error) {
	return &handler.FinalizeResponse{Finalized: true}, nil
}

func (h *restless) Relate(parent *resource.Resource) ([]handler.Ref, error) {
	return h.refs(parent), nil
}
