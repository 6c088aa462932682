package client

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/apierror"
	"github.com/roperator/roperator/internal/engine/catalog"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// held is a lease that is held or not.
type held bool

func (h held) Held() bool { return bool(h) }

// A write without the lease never leaves the process. Reads do.
func TestLink_WritesNeedTheLease(t *testing.T) {
	for name, tc := range map[string]struct {
		lease LeaseHolder
		sent  bool
	}{
		"Held": {held(true), true}, "Not held": {held(false), false}, "No election": {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			server := fakeapi.New(fakeapi.ConfigMaps())
			link, err := Connect(server.RESTConfig(), sample.DiscardLog())
			require.NoError(t, err)
			if tc.lease != nil {
				link = link.Under(tc.lease)
			}
			require.Equal(t, tc.sent, link.Leading())
			c, err := New(link, link.As("op", nil), "op", nil, sample.DiscardLog())
			require.NoError(t, err)
			parent := sample.ParentType()
			kinds, err := catalog.Offline(config.Operator{
				Name: "op", Parent: parent, Mappings: []resource.Mapping{{Type: parent, Plural: "parents"}},
				Children: []config.Child{{Type: k8s.ConfigMap, Strategy: config.Replace}},
			})
			require.NoError(t, err)
			kind, key, object := kinds.Of(k8s.ConfigMap), types.NamespacedName{Namespace: "ns", Name: "c"}, map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c", "namespace": "ns"},
			}
			writes := map[string]func() error{
				http.MethodPost: func() error {
					_, err := c.Create(t.Context(), kind, types.NamespacedName{Namespace: "ns", Name: "one"}, object)
					return err
				},
				http.MethodPut: func() error { _, err := c.Update(t.Context(), kind, key, "", object, false); return err },
				http.MethodPatch: func() error {
					_, err := c.Patch(t.Context(), kind, key, types.MergePatchType, []byte(`{}`))
					return err
				},
				http.MethodDelete: func() error { _, err := c.Delete(t.Context(), kind, key, "u", ""); return err },
			}
			for method, write := range writes {
				before := len(server.Requests())
				err := write()
				if tc.sent {
					require.NotErrorIs(t, err, apierror.ErrNoLease, method)
					require.Len(t, server.Requests(), before+1, method)
				} else {
					require.ErrorIs(t, err, apierror.ErrNoLease, method)
					require.Len(t, server.Requests(), before, method)
				}
			}
			_, err = c.Get(t.Context(), kind, key)
			require.NotErrorIs(t, err, apierror.ErrNoLease)
			require.Equal(t, "get", server.Requests()[len(server.Requests())-1].Verb)
		})
	}
}
