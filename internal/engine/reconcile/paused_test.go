package reconcile_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
)

// That a parent is paused is said once: not with each change that it ignores, and not again by
// the next process. It is said again if somebody pauses the parent again.
func TestPaused_SaidOnce(t *testing.T) {
	for name, conditions := range map[string]bool{"Event": false, "Conditions": true} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, cfg := rig.Server(), rig.Config()
				cfg.ReadyCondition = conditions
				const event = "paused by the annotation roperator.com/paused; remove it to go on"
				pause := func(value string) func(map[string]any) {
					return func(o map[string]any) {
						o["metadata"].(map[string]any)["annotations"] = map[string]any{"roperator.com/paused": value}
					}
				}
				r := rig.Start(t, server, cfg, handler.SyncFunc(rig.Copier))
				r.Create("p", "v")
				r.Change(sample.ParentType(), "p", pause("true"))
				rig.Elapse(time.Minute)
				for range 3 {
					r.SetSpec("p", time.Now().String())
					rig.Elapse(10 * time.Minute)
				}
				require.Len(t, said(server, event), 1)
				require.Equal(t, 1, told(r, "the parent is paused"))
				r.Stop()

				for range 2 {
					r = rig.Start(t, server, cfg, handler.SyncFunc(rig.Copier))
					rig.Elapse(time.Minute)
					require.Len(t, said(server, event), 1)
					r.Stop()
				}

				r = rig.Start(t, server, cfg, handler.SyncFunc(rig.Copier))
				r.Change(sample.ParentType(), "p", pause("false"))
				rig.Elapse(10 * time.Minute) // else it is counted in the Event before
				r.Change(sample.ParentType(), "p", pause("true"))
				synctest.Wait()
				require.Len(t, said(server, event), 2)
				r.Stop()
			})
		})
	}
}
