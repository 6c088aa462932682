package reconcile_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/plan"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
)

// TestPlan_ErrorsNameTheirParentOnce: each error of a plan starts with the parent, live or edited, and names it once.
func TestPlan_ErrorsNameTheirParentOnce(t *testing.T) {
	refused := func(r fakeapi.Request) error {
		if r.Subresource == "status" {
			return no()
		}
		return nil
	}
	for name, tc := range map[string]struct {
		before func(r fakeapi.Request) error
		fails  error
		says   string
	}{
		"The status is refused": {refused, nil, `Parent ns/p: status: configmaps "one" is forbidden: the webhook says no`},
		"The handler fails":     {nil, errors.New("no route"), `Parent ns/p: handler: Sync: no route`},
	} {
		for source, edited := range map[string][]plan.Edited{"": nil, "file: document 1: ": {editedParent("p", "1")}} {
			t.Run(name+"/"+source, func(t *testing.T) {
				rig.Bubble(t, func(t *testing.T) {
					server := rig.Server()
					rig.CreateParent(t, server, "p", "1")
					server.SetHooks(fakeapi.Hooks{Before: tc.before})
					h := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
						return &handler.SyncResponse{Status: map[string]any{"phase": "Fine"}}, tc.fails
					})
					_, err := changesOf(t, server, rig.Config(), h, rig.PlanOptions{Edited: edited})
					require.EqualError(t, err, source+tc.says)
				})
			})
		}
	}
}
