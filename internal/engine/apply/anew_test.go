package apply_test

import (
	"cmp"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/resource"
)

// TestRemake: an update lacks what the API server made of other words, and asks first
// only where it isn't known that the API server makes it again.
func TestRemake(t *testing.T) {
	const ask, update = "dry update Thing ns/c", "update Thing ns/c"
	const read, create = "get Thing ns/c", "dry create Thing ns/roperator-dry-run"
	size := func(n string, more ...string) map[string]any {
		data := map[string]any{"size": n}
		for _, name := range more {
			data[name] = "once"
		}
		return data
	}
	made := func(n string, more ...string) map[string]any {
		data := size(n, more...)
		data["made"] = "of " + n
		return data
	}
	for name, tc := range map[string]struct {
		reason string
		others bool           // somebody else has set what the server made, too
		live   map[string]any // data, beside what the server makes
		refuse func(data map[string]any) bool
		create map[string]any // data that a webhook sets at a creation alone
		full   bool           // a quota lets nothing be created
		first  string         // the size of the first change; empty: 2
		want   map[string]any // data in the end
		asked  []string       // for the first change, and for the second
		again  []string
	}{
		"made again": {
			reason: "the second time it is known", live: size("1"), want: made("3"),
			asked: []string{read, ask, create, update}, again: []string{read, update},
		},
		"others'": {
			reason: "what somebody else has set stays", live: size("1"), others: true,
			want: map[string]any{"size": "3", "made": "of 1"}, asked: []string{read, update}, again: []string{read, update},
		},
		"never made again": {
			reason: "what was injected at the creation isn't lost", live: size("1", "injected"), want: made("3", "injected"),
			create: map[string]any{"injected": "once"},
			asked:  []string{read, ask, create, update}, again: []string{read, update},
		},
		"made otherwise at a creation": {
			reason: "what a webhook made of it isn't undone", live: size("1"), want: map[string]any{"size": "3", "made": "of 1"},
			create: map[string]any{"made": "of 1"},
			asked:  []string{read, ask, create, update}, again: []string{update},
		},
		"made otherwise at a creation, after all": {
			reason: "so far the update had made the same; it is put back", live: size("1"), want: map[string]any{"size": "3", "made": "of 1"},
			create: map[string]any{"made": "of 1"}, first: "1 again",
			asked: []string{read, ask, update}, again: []string{read, update, create, update},
		},
		"can't be changed": {
			reason: "it stays, and isn't asked for again", live: size("1", "fixed"), want: made("3", "fixed"),
			refuse: func(data map[string]any) bool { return data["fixed"] == nil },
			asked:  []string{read, ask, ask, create, update}, again: []string{read, update},
		},
		"no creation can be tried": {
			reason: "what the API server doesn't make of these words goes", live: size("1", "bound"), want: made("3"), full: true,
			asked: []string{read, ask, create, update}, again: []string{read, update},
		},
		"must go": {
			reason: "what nothing makes again goes", live: size("1", "bound"), want: made("3"),
			refuse: func(data map[string]any) bool { return data["bound"] != nil && data["size"] != "1" },
			asked:  []string{read, ask, create, update}, again: []string{read, update},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "ns", false, config.Child{Type: thing(), Strategy: config.Replace})
			f.server.SetHooks(fakeapi.Hooks{Admit: func(r fakeapi.Request, object map[string]any) error {
				data, _ := object["data"].(map[string]any)
				if r.Type != thing() {
					return nil
				}
				if tc.refuse != nil && r.Verb == "update" && tc.refuse(data) {
					return apierrors.NewInvalid(schema.GroupKind{Group: "example.com", Kind: "Thing"}, "c", field.ErrorList{
						field.Invalid(field.NewPath("data", "fixed"), "", "field is immutable"),
					})
				}
				if r.Verb == "create" {
					maps.Copy(data, tc.create)
				}
				if r.Verb == "create" && r.DryRun && tc.full {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "c", errors.New("exceeded quota"))
				}
				if data["made"] == nil {
					data["made"] = "of " + data["size"].(string)[:1]
				}
				return nil
			}})
			manage := func(o map[string]any) { // as an API server would
				data, _ := o["data"].(map[string]any)
				ours := map[string]any{}
				for key := range data {
					ours["f:"+key] = map[string]any{}
				}
				entries := []any{managedBy("op", map[string]any{"f:data": ours})}
				if tc.others {
					entries = append(entries, managedBy("somebody", map[string]any{"f:data": map[string]any{"f:made": map[string]any{}}}))
				}
				meta, _ := o["metadata"].(map[string]any)
				meta["managedFields"] = entries
			}
			f.given(child(thing(), "c", size("1")), func(o map[string]any) {
				o["data"] = maps.Clone(tc.live)
				o["data"].(map[string]any)["made"] = "of 1"
			})
			change := func(n string) (data any, asked []string) {
				live, err := f.server.Change(thing(), key("c"), manage)
				require.NoError(t, err)
				before := len(f.asked())
				r := f.run(t.Context(), f.plan([]*resource.Resource{live}, child(thing(), "c", size(n)))).Results[0]
				require.NoError(t, r.Err, tc.reason)
				data, _ = r.Live.Field("data")
				asked = f.asked()[before:]
				for i, text := range asked {
					if strings.HasPrefix(text, create) {
						asked[i] = create // the rest of the name is a digest
					}
				}
				return data, asked
			}

			_, asked := change(cmp.Or(tc.first, "2"))
			require.Equal(t, tc.asked, asked, tc.reason)
			data, asked := change("3")
			require.Equal(t, tc.again, asked, tc.reason)
			require.Equal(t, tc.want, data, tc.reason)
		})
	}
}

// managedBy returns an entry of managedFields, as JSON values.
func managedBy(manager string, fields map[string]any) map[string]any {
	return map[string]any{
		"manager": manager, "operation": string(metav1.ManagedFieldsOperationUpdate), "apiVersion": "example.com/v1",
		"fieldsType": "FieldsV1", "fieldsV1": fields,
	}
}
