package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/rig"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

func teamType() resource.Type { return resource.Type{APIVersion: "example.com/v1", Kind: "Team"} }

// teamServer has the cluster-scoped parent "one", whose operator may create namespaces and ConfigMaps.
func teamServer(t *testing.T) (*fakeapi.Server, config.Operator) {
	t.Helper()
	kind := fakeapi.Custom(teamType(), "teams")
	kind.ClusterScoped = true
	server := fakeapi.New(kind, fakeapi.ConfigMaps(), fakeapi.Namespaces())
	_, err := server.Create(map[string]any{"apiVersion": teamType().APIVersion, "kind": teamType().Kind, "metadata": map[string]any{"name": "one"}})
	require.NoError(t, err)
	return server, config.Operator{Name: "op", Parent: teamType(), Children: []config.Child{
		{Type: k8s.Namespace, Strategy: config.Replace}, {Type: k8s.ConfigMap, Strategy: config.Replace},
	}}
}

// teamIn wants a namespace, whose gate is open or not, and the ConfigMap c in it.
func teamIn(namespace string, open bool) handler.SyncFunc {
	return func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
		cm := rig.Copied("c", "v")
		cm["metadata"] = map[string]any{"name": "c", "namespace": namespace}
		wanted := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}}
		return &handler.SyncResponse{Children: []any{handler.When(wanted, open), cm}}, nil
	}
}

// TestForeignNamespace: nothing is written into a namespace that is a desired child and isn't ours, whether it was tried to
// create it or not.
func TestForeignNamespace(t *testing.T) {
	for name, open := range map[string]bool{"Behind a gate": false, "Tried": true} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				server, cfg := teamServer(t)
				_, err := server.Create(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "foreign"}})
				require.NoError(t, err)
				r := rig.Start(t, server, cfg, teamIn("foreign", open))
				rig.Elapse(time.Hour)
				r.Stop()
				require.Empty(t, server.List(k8s.ConfigMap))
			})
		})
	}
}

// TestReady_NamespaceTerminates: a parent isn't ready while a child can't be created.
func TestReady_NamespaceTerminates(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		server, cfg := teamServer(t)
		cfg.Children, cfg.ReadyCondition = cfg.Children[1:], true
		server.SetHooks(fakeapi.Hooks{Admit: func(r fakeapi.Request, _ map[string]any) error {
			if r.Type != k8s.ConfigMap || r.Verb != "create" {
				return nil
			}
			err := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, r.Key.Name, errors.New("unable to create new content in namespace other because it is being terminated"))
			err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause, Field: "metadata.namespace"})
			return err
		}})
		r := rig.Start(t, server, cfg, handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			cm := rig.Copied("c", "v")
			cm["metadata"] = map[string]any{"name": "c", "namespace": "other"}
			return &handler.SyncResponse{Children: []any{cm}}, nil
		}))
		rig.Elapse(time.Hour)
		r.Stop()
		require.Empty(t, server.List(k8s.ConfigMap))
		conditions, _ := server.Get(teamType(), types.NamespacedName{Name: "one"}).Field("status", "conditions")
		require.Contains(t, fmt.Sprint(conditions), "not creating ConfigMap other/c before the namespace other, which is being deleted, is gone")
		require.NotContains(t, fmt.Sprint(conditions), "status:True type:Ready")
	})
}
