package conformance

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/testkit"
)

var (
	parentType        = resource.Type{APIVersion: "conformance.roperator.com/v1", Kind: "Parent"}
	clusterParentType = resource.Type{APIVersion: "conformance.roperator.com/v1", Kind: "ClusterParent"}
)

// patience only bounds a hang: it is for what takes an idle machine a small
// fraction of it, and is never what tells right from wrong.
const patience = 5 * time.Minute

// scenario begins every test of the suite. The title says what must hold.
func scenario(t *testing.T, id, title string) {
	t.Helper()
	require.True(t, strings.HasPrefix(t.Name(), "Test"+id+"_"), "%s: a scenario's test is named Test%s_…", t.Name(), id)
	t.Attr("scenario", id+" "+title)
	t.Parallel()
}

// needsControllerManager skips a scenario where garbage isn't collected and
// Deployments make no Pods. In CI the suite wouldn't have begun.
func needsControllerManager(t *testing.T) {
	t.Helper()
	if !cluster.HasControllerManager() {
		t.Skip("needs kube-controller-manager, whose binary isn't beside kube-apiserver")
	}
}

// operator returns a configuration with Parent as parent. The name must be the
// test's own, as it identifies its requests.
func operator(name string, children ...config.Child) config.Operator {
	return config.Operator{Name: name, Parent: parentType, Children: children, MaxErrorBackoff: time.Second}
}

// idle runs an operator that wants nothing.
func idle(t *testing.T, name string) *testkit.Kit {
	t.Helper()
	return testkit.New(t, cluster, operator(name, config.Child{Type: k8s.ConfigMap, Strategy: config.Replace}), handler.SyncFunc(nil))
}

// parent returns a Parent with this spec.
func parent(name string, spec map[string]any) map[string]any {
	if spec == nil {
		spec = map[string]any{}
	}
	return map[string]any{
		"apiVersion": parentType.APIVersion, "kind": parentType.Kind,
		"metadata": map[string]any{"name": name}, "spec": spec,
	}
}

// configMap returns a ConfigMap with one entry, or none if key is empty.
func configMap(name, key, value string) map[string]any {
	cm := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}}
	if key != "" {
		cm["data"] = map[string]any{key: value}
	}
	return cm
}

// copier is a Sync that wants one ConfigMap, named as its parent, with the
// entries of the parent's spec.data, and reports what it sees of it.
func copier(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
	child := configMap(req.Parent.Name(), "", "")
	if data, ok := req.Parent.Field("spec", "data"); ok {
		child["data"] = data
	}
	return &handler.SyncResponse{
		Status:   map[string]any{"children": req.Children.Len()},
		Children: []any{child},
	}, nil
}

// withData is the spec for copier.
func withData(key, value string) map[string]any {
	return map[string]any{"data": map[string]any{key: value}}
}

// settle fails the test if the operator doesn't come to rest.
func settle(t *testing.T, kit *testkit.Kit) {
	t.Helper()
	require.NoError(t, kit.Settle(patience))
}

// eventually waits for something that isn't about one object.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, patience, 20*time.Millisecond, what)
}

// insist makes an attempt until it ends otherwise than for want of an answer in
// time: an operator gives an API server some seconds when it starts.
func insist(attempt func() error) error {
	err := attempt()
	for errors.Is(err, context.DeadlineExceeded) {
		err = attempt()
	}
	return err
}

// verbs returns what was done to one object, in order.
func verbs(writes []testkit.Write, kind, name string) []string {
	var found []string
	for _, w := range writes {
		if w.Type.Kind == kind && w.Key.Name == name {
			found = append(found, w.Verb)
		}
	}
	return found
}
