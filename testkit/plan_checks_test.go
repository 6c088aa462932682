package testkit

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
)

// A plan that isn't what the operator then does fails the test, and one that is doesn't.
func TestCheckPlans(t *testing.T) {
	t.Parallel()
	checking := &Cluster{
		restConfig: cluster.restConfig, mapper: cluster.mapper, kubeconfig: cluster.kubeconfig, manager: cluster.manager,
		checkPlans: func(testing.TB) bool { return true },
	}
	for name, tc := range map[string]struct {
		reason string
		adds   func(isPlan bool) bool // whether the handler wants one more child
		want   string
	}{
		"Same":    {"as it shall be", func(bool) bool { return false }, ""},
		"Says":    {"what the handler says to a plan alone isn't done", func(isPlan bool) bool { return isPlan }, "isn't what was done:\nnot done: create ConfigMap"},
		"Conceal": {"what the handler doesn't say to a plan wasn't planned", func(isPlan bool) bool { return !isPlan }, "isn't what was done:\nnot planned: create ConfigMap"},
	} {
		t.Run(name, func(t *testing.T) {
			sync := func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
				resp, err := children(ctx, req)
				if tc.adds(handler.IsPlan(ctx)) {
					resp.Children = append(resp.Children, configMap("more", nil))
				}
				return resp, err
			}
			compared := 0
			f := fake(t, func(tb testing.TB) {
				kit := New(tb, checking, widgets("check-plans"), handler.SyncFunc(sync))
				for _, value := range []string{"a", "b"} {
					if value == "a" {
						kit.Create(widget("one", map[string]any{"value": value}))
					} else {
						kit.Update(widget("one", map[string]any{"value": value}))
					}
					compared += len(kit.plans.mu.pending)
					if err := kit.Settle(patience); err != nil {
						tb.Error(err)
					}
				}
			})
			require.Equal(t, 2, compared, "both edits are planned")
			if tc.want == "" {
				require.Empty(t, f.failure(), tc.reason)
				return
			}
			require.Contains(t, f.failure(), tc.want, tc.reason)
		})
	}
}
