package apply_test

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/apply"
	"github.com/roperator/roperator/internal/engine/store"
	"github.com/roperator/roperator/internal/testing/fakeapi"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// someHash is that of some desired state.
const someHash = "00112233445566778899aabbccddeeff"

// otherParent stores another parent of the operator, with a field of its metadata.
func (f *fixture) otherParent(meta map[string]any) {
	f.t.Helper()
	maps.Copy(meta, map[string]any{"name": "q", "namespace": "ns", "uid": "q", "resourceVersion": "50"})
	other, err := resource.New(map[string]any{"apiVersion": f.parent.Type().APIVersion, "kind": f.parent.Type().Kind, "metadata": meta})
	require.NoError(f.t, err)
	f.store.Observe(store.Stream{Type: f.parent.Type()}, other)
}

// TestClaim: an object has the name of a child that is to be created. It becomes the
// child only if it is nobody's, and only if the parent stays. Adoption is allowed.
func TestClaim(t *testing.T) {
	const taken, awaited, claimed = "taken", "awaited", "claimed"
	going := map[string]any{"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": []any{"a/b"}}
	controlledBy := func(f *fixture, uid string) []any {
		return []any{map[string]any{"apiVersion": f.parent.Type().APIVersion, "kind": f.parent.Type().Kind, "name": "q", "uid": uid, "controller": true}}
	}
	labels := func(f *fixture, tracked, owned string) map[string]any {
		return map[string]any{f.settings.Config.TrackingLabel: tracked, f.settings.Config.OwnershipLabel: owned}
	}
	for name, tc := range map[string]struct {
		reason string
		held   func(f *fixture, meta map[string]any) // changes the metadata of the object
		want   string
	}{
		"Nobody's":              {"the configuration allows it", func(*fixture, map[string]any) {}, claimed},
		"Of a parent that goes": {"the garbage collector would take it with the parent", func(f *fixture, _ map[string]any) { f.goes = true }, awaited},
		"Another operator's label": {"that operator deletes what it doesn't want", func(f *fixture, meta map[string]any) {
			meta["labels"] = map[string]any{f.settings.Config.OwnershipLabel: "other"}
		}, taken},
		"Another parent's label": {"it is another operator's, by a label of that operator's", func(f *fixture, meta map[string]any) {
			meta["labels"] = map[string]any{f.settings.Config.TrackingLabel: "q"}
		}, taken},
		"Another operator's mark": {"somebody has taken its labels off", func(f *fixture, meta map[string]any) {
			meta["annotations"] = map[string]any{f.settings.Mark: "v2:other:0:" + someHash + ":"}
		}, taken},
		"A sibling's, without controller": {"somebody has taken its owner reference off", func(f *fixture, meta map[string]any) {
			f.otherParent(map[string]any{})
			meta["labels"] = labels(f, "q", "op")
		}, taken},
		"Going": {"the child is created once it is gone", func(f *fixture, meta map[string]any) {
			meta["labels"] = labels(f, string(f.parent.UID()), "op")
			meta["finalizers"] = []any{"a/b"}
		}, awaited},
		"A going sibling's": {"it goes with its parent", func(f *fixture, meta map[string]any) {
			f.otherParent(going)
			meta["labels"], meta["ownerReferences"] = labels(f, "q", "op"), controlledBy(f, "q")
		}, awaited},
		"A gone sibling's": {"its parent's name is that of another one by now", func(f *fixture, meta map[string]any) {
			_, err := f.server.Create(map[string]any{"apiVersion": f.parent.Type().APIVersion, "kind": f.parent.Type().Kind, "metadata": map[string]any{"name": "q", "namespace": "ns"}})
			require.NoError(t, err)
			meta["labels"], meta["ownerReferences"] = labels(f, "former", "op"), controlledBy(f, "former")
		}, awaited},
		"A sibling's": {"it is wanted there", func(f *fixture, meta map[string]any) {
			f.otherParent(map[string]any{})
			meta["labels"], meta["ownerReferences"] = labels(f, "q", "op"), controlledBy(f, "q")
		}, taken},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "ns", false, config.Child{Type: k8s.ConfigMap, Strategy: config.Replace, Adopt: true})
			meta := map[string]any{"name": "c", "namespace": "ns"}
			tc.held(f, meta)
			_, err := f.server.Create(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
			require.NoError(t, err)
			if meta["finalizers"] != nil {
				require.NoError(t, f.server.Delete(k8s.ConfigMap, key("c")))
			}
			r := f.run(t.Context(), f.plan(nil, configMap(map[string]any{"k": "v"}))).Results[0]
			var nameTaken *apply.NameTakenError
			require.Equal(t, tc.want == taken, errors.As(r.Err, &nameTaken), "%s: %v", tc.reason, r.Err)
			require.Equal(t, tc.want == awaited, r.Await, tc.reason)
			require.Equal(t, tc.want == claimed, r.Claimed, tc.reason)
			_, is := f.server.Get(k8s.ConfigMap, key("c")).Annotation(f.settings.Mark)
			require.Equal(t, name == "Another operator's mark", is, "whatever it is, it isn't written as a child yet")
			require.Equal(t, tc.want == claimed, len(f.server.Writes()) == 2, "%v", f.server.Writes())
		})
	}
}

// TestAdoptable: of the objects whose controller is a parent, only those may be taken
// that stay, and that no operator has labelled or marked, in whatever domain.
func TestAdoptable(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		offer  bool // the type has AdoptOffered instead of Adopt
		change func(f *fixture, meta map[string]any)
		want   bool
	}{
		"Unlabelled": {"another program has made it", false, func(*fixture, map[string]any) {}, true},
		"Offered": {"to this operator", true, func(f *fixture, meta map[string]any) {
			meta["annotations"] = map[string]any{f.settings.Offer: "op"}
		}, true},
		"Offered to another": {"that one may take it", true, func(f *fixture, meta map[string]any) {
			meta["annotations"], meta["labels"] = map[string]any{f.settings.Offer: "other"}, map[string]any{f.settings.Offer: "other"}
		}, false},
		"Not offered": {"its maker may want to keep it", true, func(*fixture, map[string]any) {}, false},
		"Going":       {"it would be a child that goes", false, func(_ *fixture, meta map[string]any) { meta["deletionTimestamp"] = "2026-01-01T00:00:00Z" }, false},
		"Tracked": {"it is a child", false, func(f *fixture, meta map[string]any) {
			meta["labels"] = map[string]any{f.settings.Config.TrackingLabel: "p"}
		}, false},
		"Owned": {"it is an operator's", false, func(f *fixture, meta map[string]any) {
			meta["labels"] = map[string]any{f.settings.Config.OwnershipLabel: "op"}
		}, false},
		"Marked by another": {"somebody has taken its labels off", false, func(f *fixture, meta map[string]any) {
			meta["annotations"] = map[string]any{f.settings.Mark: "v2:other:0:" + someHash + ":"}
		}, false},
		"Marked elsewhere": {"an operator of the same name in another domain", false, func(_ *fixture, meta map[string]any) {
			meta["annotations"] = map[string]any{"other.com/applied": "v2:op:0:" + someHash + ":"}
		}, false},
		"Labelled elsewhere": {"an operator of the same name in another domain", false, func(_ *fixture, meta map[string]any) {
			meta["labels"] = map[string]any{"other.com/parent-uid": "p", "other.com/operator": "op"}
		}, false},
		"Nobody's": {"a parent must be its controller", false, func(_ *fixture, meta map[string]any) { delete(meta, "ownerReferences") }, false},
		"Another kind's": {"a UID alone says nothing", false, func(_ *fixture, meta map[string]any) {
			meta["ownerReferences"] = []any{map[string]any{"apiVersion": "v1", "kind": "Node", "name": "p", "uid": "p", "controller": true}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "ns", false, config.Child{Type: k8s.ConfigMap, Strategy: config.Replace, Adopt: !tc.offer, AdoptOffered: tc.offer})
			meta := map[string]any{"name": "c", "namespace": "ns", "uid": "c", "resourceVersion": "5", "ownerReferences": []any{map[string]any{
				"apiVersion": f.parent.Type().APIVersion, "kind": f.parent.Type().Kind, "name": "p", "uid": "p", "controller": true,
			}}}
			tc.change(f, meta)
			live, err := resource.New(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
			require.NoError(t, err)
			parent, ok := apply.Adoptable(f.settings, f.settings.Types.Of(k8s.ConfigMap), live)
			require.Equal(t, tc.want, ok, tc.reason)
			require.Equal(t, tc.want, parent == types.UID("p"))
		})
	}
}

// TestDelete_Missed: a child counts as missing if somebody else has deleted it, and not if
// this operator has, whatever the watch tells before the answer comes.
func TestDelete_Missed(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		fails  error
		early  bool // the watch tells before the answer comes
		lost   int
	}{
		"Own":           {"the parent doesn't miss it", nil, false, 0},
		"Own, early":    {"nor if the watch was faster", nil, true, 0},
		"Failed":        {"somebody has deleted it afterwards", errors.New("cut off"), false, 1},
		"Failed, early": {"somebody was faster", errors.New("cut off"), true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, "ns", false, config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
			f.store.Observe(store.Stream{Type: f.parent.Type()}, f.parent)
			live := f.given(configMap(nil), nil)
			tell := func() { f.store.ObserveDeleted(store.Stream{Type: k8s.ConfigMap}, live) }
			f.server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
				if r.Verb != "delete" {
					return nil
				}
				if tc.early {
					tell()
				}
				return tc.fails
			}})
			f.run(t.Context(), f.plan([]*resource.Resource{live}))
			if !tc.early {
				tell()
			}
			require.Equal(t, tc.lost, f.store.Lost(f.parent.UID()), tc.reason)
		})
	}
}

// TestRecreate_WithoutTheRight: that the operator lacks a right is no answer about the
// child. The child stays, and nothing else is asked.
func TestRecreate_WithoutTheRight(t *testing.T) {
	for verb, asked := range map[string]int{"update": 1, "create": 2} {
		t.Run(verb, func(t *testing.T) {
			f := newFixture(t, "ns", false, config.Child{Type: thing(), Strategy: config.Recreate})
			live := f.given(child(thing(), "c", map[string]any{"k": "old"}), nil)
			f.server.SetHooks(fakeapi.Hooks{Before: func(r fakeapi.Request) error {
				if r.Verb == verb {
					return apierrors.NewForbidden(schema.GroupResource{Group: "example.com", Resource: "things"}, "c", errors.New(`User "op" cannot `+verb+` resource "things" in API group "example.com" in the namespace "ns"`))
				}
				return nil
			}})
			r := f.run(t.Context(), f.plan([]*resource.Resource{live}, child(thing(), "c", map[string]any{"k": "new"}))).Results[0]
			require.ErrorContains(t, r.Err, "add the rule")
			require.Len(t, f.asked(), asked, "%v", f.asked())
			require.NotNil(t, f.server.Get(thing(), key("c")))
		})
	}
}

// TestRun_Stopped: once the operator is told to stop, no delete begins.
func TestRun_Stopped(t *testing.T) {
	f := newFixture(t, "ns", false, config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	live := f.given(configMap(nil), nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.server.SetHooks(fakeapi.Hooks{After: func(r fakeapi.Request) error {
		if r.Verb == "create" {
			cancel()
		}
		return nil
	}})
	report := f.run(ctx, f.plan([]*resource.Resource{live}, child(k8s.ConfigMap, "d", nil)))
	require.NotNil(t, f.server.Get(k8s.ConfigMap, key("c")))
	require.Len(t, report.Results, 1, "a delete that wasn't begun has no result")
}
