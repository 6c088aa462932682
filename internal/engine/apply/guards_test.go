package apply_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/plan"
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

// A webhook takes the labels off what is written. No watch tells of such an object, so it
// isn't held.
func TestWrite_OfWhatIsNotWatched(t *testing.T) {
	for name, labelled := range map[string]bool{"Labelled": true, "Stripped": false} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "ns", false, config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
			f.server.SetHooks(fakeapi.Hooks{Admit: func(_ fakeapi.Request, o map[string]any) error {
				if !labelled {
					delete(o["metadata"].(map[string]any), "labels")
				}
				return nil
			}})
			r := f.run(t.Context(), f.plan(nil, configMap(nil))).Results[0]
			require.NoError(t, r.Err)
			require.True(t, r.Wrote)
			_, held := f.store.Object(r.Action.Ref)
			require.Equal(t, labelled, held)
		})
	}
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

// The last finalizer that the operator takes off a child takes the child along. The
// answer shows the child as it was, and isn't its newest state.
func TestRelease_OfTheLastFinalizer(t *testing.T) {
	f := newFixture(t, "ns", false, config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	object := configMap(nil)
	meta, _ := object["metadata"].(map[string]any)
	meta["finalizers"] = []any{"a/ours"}
	f.given(object, nil)
	require.NoError(t, f.server.Delete(k8s.ConfigMap, key("c")))
	live := f.server.Get(k8s.ConfigMap, key("c"))
	f.store.Read(live)
	r := f.run(t.Context(), f.plan([]*resource.Resource{live}, configMap(nil))).Results[0]
	require.NoError(t, r.Err)
	require.Equal(t, plan.VerbRelease, r.Action.Verb)
	require.Nil(t, f.server.Get(k8s.ConfigMap, key("c")))
	_, held := f.store.Object(r.Action.Ref)
	require.False(t, held, "it is gone")
}

// A name that is taken isn't tried again after another write of the pass: no write of
// this operator frees it. The error says what would let the operator take the object.
func TestRun_NameTaken(t *testing.T) {
	for name, tc := range map[string]struct {
		offered bool
		want    string
	}{
		"NoAdopt":      {false, "ConfigMap ns/c: already exists and is not managed by op (nobody manages it; Adopt or AdoptOffered in its config.Child would let the operator take it)"},
		"AdoptOffered": {true, "ConfigMap ns/c: already exists and is not managed by op (it isn't offered by roperator.com/adopt=op)"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "ns", false, config.Child{Type: k8s.ConfigMap, Strategy: config.Replace, AdoptOffered: tc.offered})
			_, err := f.server.Create(configMap(nil))
			require.NoError(t, err)
			report := f.run(t.Context(), f.plan(nil, configMap(nil), child(k8s.ConfigMap, "d", nil)))
			require.EqualError(t, report.Results[0].Err, tc.want)
			require.ElementsMatch(t, []string{"create ConfigMap ns/c", "create ConfigMap ns/d"}, f.server.Writes())
		})
	}
}

// A policy that denies every update is lifted between two requests. What follows from the
// desired state is made anew all the same.
func TestRemake_WhileAPolicyIsLifted(t *testing.T) {
	for _, known := range []bool{false, true} {
		for refusals := range 8 {
			t.Run(fmt.Sprintf("known=%t/%d", known, refusals), func(t *testing.T) {
				f := newFixture(t, "ns", false, config.Child{Type: thing(), Strategy: config.Replace})
				left := 0
				f.server.SetHooks(fakeapi.Hooks{
					Before: func(r fakeapi.Request) error {
						if r.Verb != "update" || left == 0 {
							return nil
						}
						left--
						return apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "c", errors.New("ValidatingAdmissionPolicy 'p' denied request: no"))
					},
					Admit: func(_ fakeapi.Request, object map[string]any) error {
						if data, ok := object["data"].(map[string]any); ok && data["made"] == nil {
							data["made"] = "of " + data["size"].(string)
						}
						return nil
					},
				})
				f.given(child(thing(), "c", map[string]any{"size": "1"}), nil)
				grow := func(size string) {
					live, err := f.server.Change(thing(), key("c"), func(o map[string]any) {
						meta, _ := o["metadata"].(map[string]any)
						meta["managedFields"] = []any{managedBy("op", map[string]any{"f:data": map[string]any{"f:size": map[string]any{}, "f:made": map[string]any{}}})}
					})
					require.NoError(t, err)
					for range 10 {
						r := f.run(t.Context(), f.plan([]*resource.Resource{live}, child(thing(), "c", map[string]any{"size": size}))).Results[0]
						if r.Err == nil {
							break
						}
					}
					made, _ := f.server.Get(thing(), key("c")).Field("data", "made")
					require.Equal(t, "of "+size, made)
				}
				grow("2")
				if known {
					grow("3")
				}
				left = refusals
				grow("4")
			})
		}
	}
}

// A dry run finds out what a creation makes of a child, and puts nothing back.
func TestRemake_DryRun(t *testing.T) {
	f := newFixture(t, "ns", false, config.Child{Type: thing(), Strategy: config.Replace})
	f.server.SetHooks(fakeapi.Hooks{Admit: func(r fakeapi.Request, object map[string]any) error {
		if data, ok := object["data"].(map[string]any); ok && r.Verb == "create" {
			data["made"] = "of 1"
		} else if ok && data["made"] == nil {
			data["made"] = "of " + data["size"].(string)[:1]
		}
		return nil
	}})
	f.given(child(thing(), "c", map[string]any{"size": "1"}), func(o map[string]any) { o["data"].(map[string]any)["made"] = "of 1" })
	change := func(size string) {
		live, err := f.server.Change(thing(), key("c"), func(o map[string]any) {
			meta, _ := o["metadata"].(map[string]any)
			meta["managedFields"] = []any{managedBy("op", map[string]any{"f:data": map[string]any{"f:size": map[string]any{}, "f:made": map[string]any{}}})}
		})
		require.NoError(t, err)
		r := f.run(t.Context(), f.plan([]*resource.Resource{live}, child(thing(), "c", map[string]any{"size": size}))).Results[0]
		require.NoError(t, r.Err)
	}
	change("1 again") // the update makes the same of it
	writes := len(f.server.Writes())
	f.settings.Config.DryRun = true
	change("3")
	require.Len(t, f.server.Writes(), writes, "nothing is persisted")
	require.Contains(t, f.asked()[len(f.asked())-1], "dry update Thing ns/c")
}
