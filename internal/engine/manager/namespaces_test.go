package manager_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/engine/manager"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/resource/k8s"
)

// A namespace that is misspelt was no word: the operator started, and nothing ever happened.
func TestStart_NamespacesThatDontExist(t *testing.T) {
	const said = "restricted to namespaces that don't exist"
	many := []string{"ns"}
	for i := range 30 {
		many = append(many, fmt.Sprintf("nope-%02d", i))
	}
	for name, tc := range map[string]struct {
		reason     string
		namespaces []string
		refuse     bool
		says       string // empty: nothing
	}{
		"All":       {"there is nothing to ask for", nil, false, ""},
		"There":     {"nothing is wrong", []string{"ns"}, false, ""},
		"Nope":      {"what is misspelt is named", []string{"ns", "nope"}, false, "namespaces=[nope]"},
		"Many":      {"not all of very many", many, false, "nope-19]\" more=10"},
		"Forbidden": {"who may not get namespaces can't know", []string{"nope"}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server := rig.Server()
				_, err := server.Create(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "ns"}})
				require.NoError(t, err)
				server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
					if r.Type == k8s.Namespace && tc.refuse {
						return apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, r.Key.Name, nil)
					}
					return nil
				}})
				cfg := rig.Config()
				cfg.Namespaces = tc.namespaces
				r := rig.Start(t, server, cfg, handler.SyncFunc(rig.Copier))
				r.Create("p", "v")
				synctest.Wait()
				require.Equal(t, tc.says != "", strings.Contains(r.Logs.String(), said), tc.reason)
				require.Contains(t, r.Logs.String(), tc.says, tc.reason)
				require.Equal(t, tc.refuse, strings.Contains(r.Logs.String(), `level=DEBUG msg="can't find out whether the namespaces exist"`))
				if len(tc.namespaces) == 0 || tc.namespaces[0] == "ns" {
					require.NotNil(t, r.Get(k8s.ConfigMap, "p"))
				}
				r.Stop()

				before := len(server.Requests())
				var out bytes.Buffer
				cfg.DryRun = true
				m, err := rig.NewOne(cfg, handler.SyncFunc(rig.Copier), manager.Options{RESTConfig: server.RESTConfig(), Logger: slog.New(slog.NewTextHandler(&out, nil))})
				require.NoError(t, err)
				_, err = m.Plan(t.Context())
				require.NoError(t, err)
				require.Equal(t, tc.says != "", strings.Contains(out.String(), said), "a plan says so too")
				for _, request := range server.Requests()[before:] {
					require.False(t, request.Type == k8s.Namespace && request.Key.Name == "ns", "a namespace that has a parent isn't asked for")
				}
			})
		})
	}
}
