package testkit

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/handler"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// readingSites is an operator whose sites name a Secret, and the ConfigMaps of a tier.
func readingSites() (config.Operator, handler.Handler) {
	cfg := config.Operator{
		Name: "sites", Parent: siteType, Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}},
		Related: []config.Related{{Type: k8s.Secret, Fields: []string{"spec.secret"}}, {Type: k8s.ConfigMap}},
	}
	return cfg, handler.Funcs{
		SyncFunc: func(_ context.Context, req *handler.SyncRequest) (*handler.SyncResponse, error) {
			var names []string
			for res := range req.Related.All() {
				names = append(names, res.Type().Kind+" "+res.Name())
			}
			return &handler.SyncResponse{Children: []any{page("index", strings.Join(names, ", "))}}, nil
		},
		RelateFunc: func(parent *resource.Resource) ([]handler.Ref, error) {
			tier, _ := parent.Field("spec", "tier")
			text, _ := tier.(string)
			if text == "" {
				return nil, nil
			}
			return []handler.Ref{{Type: k8s.ConfigMap, Selector: "tier=" + text}}, nil
		},
	}
}

func tiered(name, tier string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tier": tier}}}
}

func TestSync_Related(t *testing.T) {
	t.Parallel()
	cfg, h := readingSites()
	there := Related(secret("hunter2"), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, tiered("a", "gold"), tiered("b", "tin"))
	elsewhere := secret("x")
	elsewhere.Namespace = "elsewhere"
	for name, tc := range map[string]struct {
		reason string
		spec   map[string]any
		given  []any
		want   string
	}{
		"Nothing":   {"it refers to nothing", nil, []any{there}, ""},
		"Field":     {"the Secret that it names", map[string]any{"secret": "key"}, []any{there}, "Secret key"},
		"Selector":  {"what the handler says", map[string]any{"tier": "gold"}, []any{there}, "ConfigMap a"},
		"Both":      {"sorted by type", map[string]any{"secret": "key", "tier": "tin"}, []any{there}, "ConfigMap b, Secret key"},
		"NotThere":  {"it doesn't exist", map[string]any{"secret": "key"}, nil, ""},
		"Elsewhere": {"one of that name in another namespace is another one", map[string]any{"secret": "key"}, []any{Related(elsewhere)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Sync(t, cfg, h, site(tc.spec), tc.given...).WantCreate(page("index", tc.want))
		})
	}
	failing := fake(t, func(tb testing.TB) { Sync(tb, cfg, h, site(nil), Related(pod("nginx"))) })
	require.Contains(t, strings.Join(failing.mu.errors, "\n"), "related object 0: v1/Pod isn't one of the operator's related types")
	Sync(t, cfg, h, site(map[string]any{"secret": "../key"})).WantError(`"../key" isn't the name of a Secret`)
}

func siteOfTier(t *testing.T, tier string) *resource.Resource {
	t.Helper()
	object := site(map[string]any{"tier": tier})
	object["metadata"] = map[string]any{"name": "one", "namespace": "ns", "uid": "site", "resourceVersion": "1"}
	res, err := resource.New(object)
	require.NoError(t, err)
	return res
}

// A recording has what a parent refers to, without the values of Secrets.
func TestRecord_Related(t *testing.T) {
	t.Parallel()
	_, h := readingSites()
	raw, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "key", "namespace": "ns", "uid": "key", "resourceVersion": "1"}, "data": map[string]any{"password": "aHVudGVyMg=="},
	})
	require.NoError(t, err)
	related, err := resource.New(raw)
	require.NoError(t, err)
	req := siteRequest(t, "hello")
	req.Related = handler.NewObjects(related)
	var out bytes.Buffer
	recorded := Record(&out, h)
	_, err = recorded.Sync(t.Context(), req)
	require.NoError(t, err)
	require.Contains(t, out.String(), `"related":[{`)
	require.NotContains(t, out.String(), "aHVudGVyMg==")
	Replay(t, strings.NewReader(out.String()), h)
	require.True(t, handler.Relates(recorded))
	refs, err := handler.Relate(recorded, siteOfTier(t, "gold"))
	require.NoError(t, err)
	require.Equal(t, []handler.Ref{{Type: k8s.ConfigMap, Selector: "tier=gold"}}, refs)
	require.False(t, handler.Relates(Record(&out, handler.SyncFunc(siteHandler))))
}
