package conformance

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

func TestMessages_WrongVersion(t *testing.T) {
	scenario(t, "Messages", "a type in a version that isn't served: the versions that are served are named, of a child in a response too")
	replaced := func(apiVersion, kind string) config.Child {
		return config.Child{Type: resource.Type{APIVersion: apiVersion, Kind: kind}, Strategy: config.Replace}
	}
	cfg := operator("wrongversion", replaced("apps/v1beta1", "Deployment"), replaced("v1", "Ingress"), replaced("v1", "Configmap"))
	cfg.Parent.APIVersion = "conformance.roperator.com/v1alpha1"
	err := runner.Run(t.Context(), cfg, handler.SyncFunc(copier), runner.Options{RESTConfig: cluster.RESTConfig()})
	require.ErrorContains(t, err, "conformance.roperator.com/v1alpha1/Parent: the API server doesn't serve this type, but serves conformance.roperator.com/v1/Parent; "+
		"configure that version, or have the CustomResourceDefinition serve version v1alpha1")
	require.ErrorContains(t, err, "apps/v1beta1/Deployment: the API server doesn't serve this type, but serves apps/v1/Deployment; is that meant?")
	require.ErrorContains(t, err, "v1/Ingress: the API server doesn't serve this type, but serves networking.k8s.io/v1/Ingress; is that meant?")
	require.ErrorContains(t, err, "v1/Configmap: the API server doesn't serve this type, but serves v1/ConfigMap; is that meant?")

	kit := testkit.New(t, cluster, operator("wrongchild", config.Child{Type: k8s.Deployment, Strategy: config.Replace}),
		handler.SyncFunc(func(context.Context, *handler.SyncRequest) (*handler.SyncResponse, error) {
			return &handler.SyncResponse{Children: []any{map[string]any{"apiVersion": "apps/v1beta1", "kind": "Deployment", "metadata": map[string]any{"name": "web"}}}}, nil
		}))
	kit.Create(parent("one", nil))
	failing(t, kit, parent("one", nil), "apps/v1beta1/Deployment web: kind: not a configured child type, but apps/v1/Deployment is; return the child as that, or add its type to config.Operator.Children")
}
