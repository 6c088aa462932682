package cli

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
)

func TestPlanCommand(t *testing.T) {
	failing := func(ctx context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		if req.Parent.Name() == "p" {
			return nil, errors.New("no idea\nat all")
		}
		return rig.Copier(ctx, req)
	}
	for name, tc := range map[string]struct {
		reason         string
		parents        []string
		sync           handler.SyncFunc
		output         string
		code           int
		stdout, stderr string
	}{
		"Nothing":     {"exit code 0", nil, rig.Copier, "", 0, "Nothing to do.\n", ""},
		"NothingJSON": {"an array at any rate", nil, rig.Copier, "json", 0, "[]\n", ""},
		"Changes":     {"exit code 1", []string{"p"}, rig.Copier, "", 1, "1 change for 1 parent: 1 to create.\n", ""},
		"ChangesJSON": {"the same for programs", []string{"p"}, rig.Copier, "json", 1, `"verb": "create"`, ""},
		"Error":       {"exit code 2", []string{"p"}, failing, "", 2, "", "plan: Parent ns/p: handler: Sync: no idea\nplan: at all\n"},
		"Both":        {"the others are planned nevertheless", []string{"p", "q"}, failing, "", 2, "ConfigMap ns/q: create (for Parent ns/q)", "no idea"},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				for _, name := range tc.parents {
					rig.CreateParent(t, server, name, "1")
				}
				var stdout, stderr strings.Builder
				changes, err := rig.Plan(server, rig.Config(), tc.sync)
				c := &command{stdout: &stdout, stderr: &stderr}
				code := c.printPlanned([]planned{{operator: Operator{Config: rig.Config()}, changes: changes, err: err}}, &planWish{output: tc.output, maxChanges: -1})
				require.Equal(t, tc.code, code, tc.reason)
				require.Contains(t, stdout.String(), tc.stdout, tc.reason)
				require.Contains(t, stderr.String(), tc.stderr, tc.reason)
				if tc.code == planError && len(tc.parents) == 1 {
					require.Empty(t, stdout.String())
				}
			})
		})
	}
	t.Run("Unreachable", func(t *testing.T) {
		rig.Bubble(t, func(t *testing.T) {
			server := rig.Server()
			server.SetHooks(fakeapi.Hooks{Before: func(fakeapi.Request) error { return errors.New("connection refused") }})
			var stdout, stderr strings.Builder
			changes, err := rig.Plan(server, rig.Config(), handler.SyncFunc(rig.Copier))
			c := &command{stdout: &stdout, stderr: &stderr}
			require.Equal(t, planError, c.printPlanned([]planned{{operator: Operator{Config: rig.Config()}, changes: changes, err: err}}, &planWish{maxChanges: -1}))
			require.Empty(t, stdout.String())
			require.Contains(t, stderr.String(), "connection refused")
		})
	})
}
