package reconcile_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource/k8s"
)

// managed returns managedFields by which a manager owns data.value or, of a subresource, the
// status.
func managed(manager, subresource string) []any {
	fields := map[string]any{"f:data": map[string]any{"f:value": map[string]any{}}}
	if subresource != "" {
		fields = map[string]any{"f:status": map[string]any{}}
	}
	return []any{map[string]any{
		"manager": manager, "operation": "Update", "subresource": subresource, "fieldsType": "FieldsV1", "fieldsV1": fields,
		"time": time.Now().UTC().Format(time.RFC3339),
	}}
}

// manages has a server keep managedFields as if each write set all.
func manages(server *fakeapi.Server) {
	server.SetHooks(fakeapi.Hooks{Admit: func(r fakeapi.Request, object map[string]any) error {
		object["metadata"].(map[string]any)["managedFields"] = managed(strings.TrimSuffix(r.UserAgent, "/roperator"), r.Subresource)
		return nil
	}})
}

// copying starts an operator that copies, on a server that manages, and has it make the child of a
// parent.
func copying(t *testing.T) (*fakeapi.Server, *rig.Rig) {
	t.Helper()
	server := rig.Server()
	manages(server)
	r := rig.Start(t, server, rig.Config(), handler.SyncFunc(rig.Copier))
	r.Create("p", "v")
	synctest.Wait()
	return server, r
}

// reads returns how often single ConfigMaps or parents were read.
func reads(server *fakeapi.Server) (n int) {
	for _, r := range server.Requests() {
		if r.Verb == "get" {
			n++
		}
	}
	return n
}

// Who writes a child again and again is named, by the time that this is a loop and not before.
func TestRivals(t *testing.T) {
	for name, tc := range map[string]struct{ manager, says string }{
		"Stranger": {"helm", `; the field manager "helm" does that (Update)`},
		"Namesake": {"op", `; another process of the operator "op" seems to do that`},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, r := copying(t)
				for i := range 5 {
					require.Zero(t, reads(server), "after %d writes", i)
					r.Change(k8s.ConfigMap, "p", func(o map[string]any) {
						o["data"], o["metadata"].(map[string]any)["managedFields"] = map[string]any{"value": "theirs"}, managed(tc.manager, "")
					})
					rig.Elapse(time.Second)
				}
				require.Equal(t, 1, reads(server))
				require.Len(t, said(server, "data.value is written again and again"), 1)
				require.Len(t, said(server, tc.says), 1)
				require.Contains(t, r.Logs.String(), "suspect=")
				r.Stop()
			})
		})
	}
}

// What this process does by itself is no other's doing, though the field manager is the same.
func TestRivals_OfItself(t *testing.T) {
	for name, response := range map[string]func(n int) *handler.SyncResponse{
		"Status": func(n int) *handler.SyncResponse {
			return &handler.SyncResponse{Status: map[string]any{"tick": n}, KeepChildren: true}
		},
		"Child": func(n int) *handler.SyncResponse {
			return &handler.SyncResponse{Children: []any{rig.Copied("p", fmt.Sprint(n))}}
		},
		"Names": func(n int) *handler.SyncResponse {
			return &handler.SyncResponse{Children: []any{rig.Copied(fmt.Sprint("p-", n), "v")}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				manages(server)
				n := 0
				r := rig.Start(t, server, rig.Config(), handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
					n++ // one parent, one call at a time
					return response(n), nil
				}))
				r.Create("p", "v")
				_, err := server.Change(sample.ParentType(), rig.Key("p"), func(o map[string]any) { // a write of the status leaves it as it is
					o["metadata"].(map[string]any)["managedFields"] = managed("op", "status")
				})
				require.NoError(t, err)
				rig.Elapse(10 * time.Minute)
				require.NotEmpty(t, said(server, "again and again"))
				require.Empty(t, said(server, "another process"))
				require.NotContains(t, r.Logs.String(), "suspect=")
				require.NoError(t, server.Delete(sample.ParentType(), rig.Key("p")))
				r.Stop()
			})
		})
	}
}

// Who makes objects that the operator deletes, and deletes those that it makes, is named though
// the pass that completes the loop finds nothing of theirs.
func TestRivals_OverPasses(t *testing.T) {
	for name, together := range map[string]int{"EachInAPass": 0, "TogetherBefore": 4} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, r := copying(t)
				theirs := server.Get(k8s.ConfigMap, rig.Key("p")).Unstructured()
				theirs.SetName("q")
				theirs.SetUID("")
				theirs.SetResourceVersion("")
				theirs.Object["metadata"].(map[string]any)["managedFields"] = managed("op", "")
				for round := 1; round <= 5; round++ {
					if together == 0 || round <= together {
						_, err := server.Create(theirs.DeepCopy().Object)
						require.NoError(t, err)
					}
					if round != together {
						synctest.Wait() // a pass of its own deletes it
					}
					require.NoError(t, server.Delete(k8s.ConfigMap, rig.Key("p")))
					synctest.Wait()
					require.Nil(t, server.Get(k8s.ConfigMap, rig.Key("q")))
					rig.Elapse(time.Second)
				}
				require.NotEmpty(t, said(server, "created or deleted again and again"))
				require.NotEmpty(t, said(server, `; another process of the operator "op" seems to do that`))
				require.Contains(t, r.Logs.String(), "suspect=")
				r.Stop()
			})
		})
	}
}
