package reconcile_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/resource/k8s"
)

// Two parents exchange the names of their children. Each one's old child has the name that the other one wants, and
// goes only after the new one is there, unless its type is DeleteFirst, or one parent takes another name in between.
func TestExchangedNames(t *testing.T) {
	named := handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		name, _ := req.Parent.Field("spec", "value")
		return &handler.SyncResponse{Children: []any{rig.Copied(name.(string), req.Parent.Name())}}, nil
	})
	for name, tc := range map[string]struct {
		deleteFirst, between bool
		want                 string // whose x is in the end
	}{
		"Each waits for the other": {want: "one"}, "DeleteFirst": {deleteFirst: true, want: "two"}, "Another name in between": {between: true, want: "two"},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, cfg := rig.Server(), rig.Config()
				cfg.Children[0].DeleteFirst = tc.deleteFirst
				r := rig.Start(t, server, cfg, named)
				r.Create("one", "x")
				r.Create("two", "y")
				rig.Elapse(time.Minute)
				if tc.between {
					r.SetSpec("one", "z")
					rig.Elapse(time.Minute)
				}
				r.SetSpec("two", "x")
				r.SetSpec("one", "y")
				rig.Elapse(time.Hour)
				value, _ := server.Get(k8s.ConfigMap, rig.Key("x")).Field("data", "value")
				require.Equal(t, tc.want, value)
				r.Stop()
			})
		})
	}
}
