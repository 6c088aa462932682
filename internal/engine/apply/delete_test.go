package apply_test

import (
	"errors"
	"fmt"
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

func metaOf(o map[string]any) map[string]any {
	meta, _ := o["metadata"].(map[string]any)
	return meta
}

// What a pass deletes has changed since it was seen, as the watch may tell late. It goes if it is a child still.
func TestDelete_OfWhatHasChanged(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		change func(o map[string]any)
		goes   bool
	}{
		"unchanged":       {"it is what was seen", nil, true},
		"another value":   {"a controller writes into it", func(o map[string]any) { o["data"] = map[string]any{"k": "theirs"} }, true},
		"another label":   {"a label that isn't ours", func(o map[string]any) { metaOf(o)["annotations"] = map[string]any{"a": "b"} }, true},
		"orphaned":        {"the garbage collector has taken it from a parent that is deleted so that its children stay", func(o map[string]any) { delete(metaOf(o), "ownerReferences") }, false},
		"stripped":        {"somebody has taken the labels off", func(o map[string]any) { delete(metaOf(o), "labels") }, false},
		"somebody else's": {"another parent controls it now", func(o map[string]any) { changeOwner(o, "another") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "ns", false, config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
			live := f.given(configMap(nil), nil)
			p := f.plan([]*resource.Resource{live})
			if tc.change != nil {
				_, err := f.server.Change(k8s.ConfigMap, live.Key(), tc.change)
				require.NoError(t, err)
			}
			r := f.run(t.Context(), p).Results[0]
			require.NoError(t, r.Err, tc.reason)
			require.Equal(t, tc.goes, f.server.Get(k8s.ConfigMap, live.Key()) == nil, tc.reason)
			require.Equal(t, tc.goes, r.Wrote, tc.reason)
			require.Equal(t, !tc.goes, r.Await, "the watch tells of what it is now")
		})
	}
}

func changeOwner(o map[string]any, uid string) {
	owners, _ := metaOf(o)["ownerReferences"].([]any)
	owner, _ := owners[0].(map[string]any)
	owner["uid"] = uid
}

// A child that changes all the time is deleted in another pass, or by the next of few tries.
func TestDelete_OfWhatKeepsChanging(t *testing.T) {
	for changes, want := range map[int]struct {
		deletes int
		wrote   bool
	}{0: {1, true}, 1: {2, true}, 4: {5, true}, 5: {5, false}, 9: {5, false}} {
		t.Run(fmt.Sprint(changes), func(t *testing.T) {
			f := newFixture(t, "ns", false, config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
			live := f.given(configMap(nil), nil)
			left := changes
			f.server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
				if r.Verb == "delete" && left > 0 {
					left--
					_, err := f.server.Change(k8s.ConfigMap, live.Key(), func(o map[string]any) { o["data"] = map[string]any{"k": fmt.Sprint(left)} })
					return err
				}
				return nil
			}})
			r := f.run(t.Context(), f.plan([]*resource.Resource{live})).Results[0]
			require.NoError(t, r.Err)
			require.Equal(t, want.wrote, r.Wrote)
			require.Len(t, f.server.Writes(), want.deletes)
		})
	}
}

// A webhook that answers a delete like a conflict is asked once in a pass.
func TestDelete_RefusedAsAConflict(t *testing.T) {
	f := newFixture(t, "ns", false, config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	live := f.given(configMap(nil), nil)
	f.server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
		if r.Verb == "delete" {
			return apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "c", errors.New("not today"))
		}
		return nil
	}})
	p := f.plan([]*resource.Resource{live})
	require.True(t, f.run(t.Context(), p).Results[0].Await)
	require.Len(t, f.server.Writes(), 1)
	require.Equal(t, plan.VerbDelete, p.Deletes[0].Verb)
}
