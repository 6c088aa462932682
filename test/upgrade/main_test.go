package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/internal/testing/audit"
	"github.com/roperator/roperator/internal/testing/operatorproc"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
	"github.com/roperator/roperator/runner"
	"github.com/roperator/roperator/testkit"
)

const (
	group        = "upgrade.example.com"
	definition   = "shops." + group
	operatorName = "shops"
)

var (
	cluster  *testkit.Cluster
	auditLog string // the file
)

func TestMain(m *testing.M) {
	if build := os.Getenv(operatorproc.Variable); build != "" {
		beOperator(build)
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// run runs the tests on a cluster whose API server logs who writes.
func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "roperator-upgrade-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	flags, log, err := audit.ServerFlags(dir)
	if err != nil {
		return 1, err
	}
	auditLog = log
	if cluster, err = testkit.Start(testkit.ClusterOptions{APIServerFlags: flags}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	return m.Run(), nil
}

// crd returns the definition of Shops with these versions, of which the last is stored.
func crd(versions ...string) []byte {
	text := fmt.Sprintf("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s}\n"+
		"spec:\n  group: %s\n  scope: Namespaced\n  names: {kind: Shop, plural: shops}\n  versions:\n", definition, group)
	for i, version := range versions {
		text += fmt.Sprintf("  - name: %s\n    served: true\n    storage: %t\n    subresources: {status: {}}\n    schema: {openAPIV3Schema: {type: object, properties: {"+
			"spec: {type: object, properties: {size: {type: integer}}}, status: {type: object, properties: {observedGeneration: {type: integer}, size: {type: integer}}}}}}\n", version, i == len(versions)-1)
	}
	return []byte(text)
}

// beOperator is the main function of a build:
//
//   - v1 makes a ConfigMap with the size of each Shop.
//   - v2 has a second version of Shops, and adds a field to the ConfigMaps.
//   - bad fails for every second Shop, and spoils the ConfigMaps of the others.
//   - v3 has the second version alone.
func beOperator(build string) {
	versions := map[string][]string{"v1": {"v1"}, "v2": {"v1", "v2"}, "bad": {"v1", "v2"}, "v3": {"v2"}}[build]
	runner.Main(config.Operator{
		Name: operatorName, Parent: resource.Type{APIVersion: group + "/" + versions[len(versions)-1], Kind: "Shop"},
		Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}},
		CRDs:     [][]byte{crd(versions...)},
	}, handler.SyncFunc(func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
		size, _ := req.Parent.Field("spec", "size")
		data := map[string]any{"size": fmt.Sprint(size)}
		switch build {
		case "v1":
		case "bad":
			if fails(req.Parent.Name()) {
				return nil, errors.New("this build is bad")
			}
			data["format"] = "spoilt"
		default:
			data["format"] = "second"
		}
		child := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": req.Parent.Name()}, "data": data}
		return &handler.SyncResponse{Status: map[string]any{"size": size}, Children: []any{child}}, nil
	}))
}

// fails says whether the bad build fails for a Shop.
func fails(shop string) bool { return (shop[len(shop)-1]-'0')%2 == 1 }
