package reconcile_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/resource/k8s"
)

// A new build says what the API server has made by itself so far: nobody but the
// engine sees a difference. No plan has a line about that, and no Event tells of it.
func TestSaysMore(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server := rig.Server()
		server.SetHooks(fakeapi.Hooks{Admit: func(r fakeapi.Request, object map[string]any) error {
			if data, ok := object["data"].(map[string]any); ok && r.Type == k8s.ConfigMap && data["default"] == nil {
				data["default"] = "d"
			}
			return nil
		}})
		rig.CreateParent(t, server, "one", "1")
		r := rig.Start(t, server, rig.Config(), handler.SyncFunc(rig.Copier))
		r.Stop()
		more := handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			child := rig.Copied("one", "1")
			child["data"].(map[string]any)["default"] = "d"
			return &handler.SyncResponse{Children: []any{child}}, nil
		})
		lines, err := planOf(t, server, rig.Config(), more)
		require.NoError(t, err)
		require.Empty(t, lines)
		events, before := len(server.List(k8s.Event)), len(server.Writes())
		r = rig.Start(t, server, rig.Config(), more)
		rig.Elapse(time.Minute)
		require.Contains(t, server.Writes()[before:], "update ConfigMap ns/one")
		require.Len(t, server.List(k8s.Event), events)
		r.Stop()
	})
}
