package conformance

import (
	"context"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/testkit"
)

func TestC82b_TypeGetsNamespaces(t *testing.T) {
	scenario(t, "C82b", "a related type that had no namespaces, and is installed anew with some, shows a parent what is in its own namespace, and never what is in others")
	const group = "c82-scope.roperator.com"
	crd := func(scope string) *unstructured.Unstructured {
		out := thingCRD(t, group, `{type: object, x-kubernetes-preserve-unknown-fields: true}`)
		require.NoError(t, unstructured.SetNestedField(out.Object, scope, "spec", "scope"))
		return out
	}
	installCRD(t, group, crd("Cluster"))
	var mu sync.Mutex
	seen := map[string]bool{}
	saw := func() map[string]bool {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(seen)
	}
	kit := testkit.New(t, cluster, relating("c82-scope", config.Related{Type: thingOf(group)}), handler.Funcs{
		RelateFunc: func(*resource.Resource) ([]handler.Ref, error) { return []handler.Ref{{Type: thingOf(group)}}, nil },
		SyncFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			mu.Lock()
			defer mu.Unlock()
			for res := range req.Related.All() {
				seen[strings.TrimPrefix(res.Key().String(), "/")] = true
			}
			return &handler.SyncResponse{}, nil
		},
	})
	_, things := clients(t, "somebody")
	create := func(namespace, name string) {
		client := things.Resource(plural(thingOf(group)))
		thing := &unstructured.Unstructured{Object: manifest(t, `{apiVersion: `+group+`/v1, kind: Thing, metadata: {name: `+name+`}}`)}
		var err error
		if namespace == "" {
			_, err = client.Create(t.Context(), thing, metav1.CreateOptions{})
		} else {
			_, err = client.Namespace(namespace).Create(t.Context(), thing, metav1.CreateOptions{})
		}
		require.NoError(t, err)
	}
	create("", "before")
	kit.Create(parent("one", nil))
	eventually(t, "what has no namespace is shown", func() bool { return saw()["before"] })
	deleteThings(t, group)
	createCRD(t, group, crd("Namespaced"))
	create("default", "theirs")
	create(kit.Namespace, "own")
	eventually(t, "what is in its own namespace is shown", func() bool { return saw()[kit.Namespace+"/own"] })
	settle(t, kit)
	require.Equal(t, map[string]bool{"before": true, kit.Namespace + "/own": true}, saw())
}
