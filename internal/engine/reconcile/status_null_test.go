package reconcile_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
)

// nothing is a status that is null in JSON.
type nothing struct{}

func (nothing) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// TestStatus_Null: a status that is nil, or null in JSON, leaves the parent's status alone.
func TestStatus_Null(t *testing.T) {
	var pointer *struct{}
	for name, status := range map[string]any{
		"Nil": nil, "Pointer": pointer, "Map": map[string]any(nil), "Raw": json.RawMessage("null"), "Marshaler": nothing{}, "PointerInPointer": &pointer,
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				r := rig.Start(t, server, rig.Config(), handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
					value, _ := req.Parent.Field("spec", "value")
					if value == "says" {
						return &handler.SyncResponse{Status: map[string]any{"phase": "Said"}}, nil
					}
					return &handler.SyncResponse{Status: status}, nil
				}))
				r.Create("p", "says")
				rig.Elapse(time.Minute)
				r.SetSpec("p", "nothing")
				rig.Elapse(time.Minute)
				require.Empty(t, r.Errors("p"))
				phase, _ := r.Get(sample.ParentType(), "p").Field("status", "phase")
				require.Equal(t, "Said", phase)
				r.Stop()
			})
		})
	}
}
