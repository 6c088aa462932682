package apply_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// A child that is gone when it is to be deleted is what was wanted.
func TestDelete_OfWhatIsGone(t *testing.T) {
	f := newFixture(t, "ns", false, config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	live := f.given(configMap(nil), nil)
	p := f.plan([]*resource.Resource{live})
	require.NoError(t, f.server.Delete(k8s.ConfigMap, live.Key()))
	report := f.run(t.Context(), p)
	require.Equal(t, []string{"delete ConfigMap ns/c"}, f.server.Writes())
	require.Len(t, report.Results, 1)
	require.NoError(t, report.Results[0].Err)
	require.False(t, report.Results[0].Wrote)
}

// An object whose controller is the parent is another operator's child if it carries
// that operator's labels or mark. It isn't claimed, whatever the configuration allows.
func TestClaim_AnotherOperatorsChild(t *testing.T) {
	for name, adopt := range map[string]bool{"Adopt": true, "No Adopt": false} {
		for by, change := range map[string]func(f *fixture, meta map[string]any){
			"Label": func(f *fixture, meta map[string]any) {
				meta["labels"] = map[string]any{f.settings.Config.TrackingLabel: string(f.parent.UID()), f.settings.Config.OwnershipLabel: "other"}
			},
			"Other domain": func(f *fixture, meta map[string]any) {
				meta["labels"] = map[string]any{"other.com/parent-uid": string(f.parent.UID()), "other.com/operator": "other"}
			},
		} {
			t.Run(name+"/"+by, func(t *testing.T) {
				f := newFixture(t, "ns", false, config.Child{Type: k8s.ConfigMap, Strategy: config.Replace, Adopt: adopt})
				meta := map[string]any{"name": "c", "namespace": "ns", "ownerReferences": []any{map[string]any{
					"apiVersion": f.parent.Type().APIVersion, "kind": f.parent.Type().Kind, "name": "p", "uid": string(f.parent.UID()), "controller": true,
				}}, "managedFields": []any{map[string]any{"manager": "op", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{}}}}
				change(f, meta)
				_, err := f.server.Create(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
				require.NoError(t, err)
				report := f.run(t.Context(), f.plan(nil, configMap(map[string]any{"k": "v"})))
				require.Len(t, report.Results, 1)
				require.ErrorContains(t, report.Results[0].Err, "already exists and is not managed by")
				for _, r := range f.server.Requests() {
					require.True(t, !r.Writes() || r.Verb == "create", "%s", r)
				}
				require.Empty(t, f.server.Get(k8s.ConfigMap, key("c")).Annotations())
			})
		}
	}
}

// A proxy that answers every request about a child with a page isn't the API server's
// word that the child is gone. The repeated write fails; it doesn't wait for news.
func TestJudge_AProxysNotFound(t *testing.T) {
	f := newFixture(t, "ns", false, config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	live := f.given(configMap(map[string]any{"k": "1"}), nil)
	p := f.plan([]*resource.Resource{live}, configMap(map[string]any{"k": "2"}))
	p.Writes[0].Repeated = true
	gone := apierrors.NewGenericServerResponse(http.StatusNotFound, "any", schema.GroupResource{}, "", "no such page", 0, true)
	f.server.SetHooks(fakeapi.Hooks{Before: func(fakeapi.Request) error { return gone }})
	r := f.run(t.Context(), p).Results[0]
	require.ErrorContains(t, r.Err, "ConfigMap ns/c")
	require.False(t, r.Await)
}
