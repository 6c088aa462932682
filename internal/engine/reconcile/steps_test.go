package reconcile_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/resource/k8s"
)

// Steps that follow one another by the operator's own writes alone, since what is written is
// ready at once, are no conflict loop.
func TestSteps_NoLoop(t *testing.T) {
	const n = 40
	for _, what := range []string{"chain", "roll", "recreate"} {
		for status, of := range map[string]func(of handler.Children, value any) any{
			"nil":      func(handler.Children, any) any { return nil },
			"fixed":    func(_ handler.Children, value any) any { return map[string]any{"value": value} },
			"children": func(of handler.Children, _ any) any { return map[string]any{"children": of.Len()} },
			"updated":  func(of handler.Children, value any) any { return map[string]any{"updated": valued(of, value)} },
		} {
			for _, conditions := range []bool{false, true} {
				t.Run(fmt.Sprint(what, " status=", status, " conditions=", conditions), func(t *testing.T) {
					rig.Bubble(t, func(t *testing.T) {
						cfg := rig.Config()
						cfg.ReadyCondition = conditions
						if what != "chain" {
							cfg.Children[0].Roll = &config.Roll{}
						}
						if what == "recreate" {
							cfg.Children[0].Strategy = config.Recreate
						}
						r := rig.Start(t, rig.Server(), cfg, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
							value, _ := req.Parent.Field("spec", "value")
							resp := &handler.SyncResponse{Status: of(req.Children, value)}
							for i := range n {
								var c any = rig.Copied(fmt.Sprintf("c-%03d", i), value)
								if what == "chain" && i > 0 {
									c = handler.After(c, rig.Copied(fmt.Sprintf("c-%03d", i-1), value))
								}
								resp.Children = append(resp.Children, c)
							}
							return resp, nil
						}))
						defer r.Stop()
						r.Create("a", "1")
						rig.Elapse(20 * time.Second)
						if what != "chain" {
							r.SetSpec("a", "2")
							rig.Elapse(20 * time.Second)
						}
						all := r.Server.List(k8s.ConfigMap)
						require.Len(t, all, n)
						for _, c := range all {
							value, _ := c.Field("data", "value")
							require.Equal(t, map[bool]string{true: "1", false: "2"}[what == "chain"], value, c.Name())
						}
						require.Zero(t, told(r, "conflict loop, slowing"))
					})
				})
			}
		}
	}
}

// valued returns how many of the children have the value.
func valued(of handler.Children, value any) (n int) {
	for c := range of.All() {
		if v, _ := c.Field("data", "value"); v == value {
			n++
		}
	}
	return n
}

// What only looks like steps is a conflict loop: what the handler wants has no end.
func TestSteps_Endless(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		children func(there int, calls int) []any
		status   func(calls int) any
		field    string // that is named
	}{
		"Growing": {"each pass creates a child that waited for that of the pass before", func(there, _ int) (out []any) {
			for i := range there + 2 {
				var c any = rig.Copied(fmt.Sprintf("c-%03d", i), "1")
				if i > 0 {
					c = handler.After(c, rig.Copied(fmt.Sprintf("c-%03d", i-1), "1"))
				}
				out = append(out, c)
			}
			return out
		}, func(int) any { return nil }, "metadata.name"},
		"Status": {"it changes at each call, though no child is written any more", func(int, int) []any {
			a := rig.Copied("a", "1")
			return []any{a, handler.After(rig.Copied("b", "1"), a)}
		}, func(calls int) any { return map[string]any{"calls": calls} }, "status.calls"},
		"Rolling": {"each call wants another state of all children", func(_, calls int) (out []any) {
			for i := range 10 {
				out = append(out, rig.Copied(fmt.Sprintf("c-%03d", i), fmt.Sprint(calls)))
			}
			return out
		}, func(int) any { return nil }, "data.value"},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				cfg := rig.Config()
				if name == "Rolling" {
					cfg.Children[0].Roll = &config.Roll{}
				}
				calls := 0
				r := rig.Start(t, rig.Server(), cfg, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
					calls++
					return &handler.SyncResponse{Status: tc.status(calls), Children: tc.children(req.Children.Len(), calls)}, nil
				}))
				defer r.Stop()
				r.Create("a", "1")
				rig.Elapse(time.Minute)
				require.NotZero(t, told(r, "field="+tc.field), tc.reason)
			})
		})
	}
}
