package plan

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roperator/roperator/config"
	"github.com/roperator/roperator/internal/engine/merge"
	"github.com/roperator/roperator/internal/testing/sample"
	"github.com/roperator/roperator/internal/testing/settings"
	"github.com/roperator/roperator/resource"
	"github.com/roperator/roperator/resource/k8s"
)

// TestWritesAreOfOneState: whatever changes a child names the very object and the state
// that the pass has seen, so that it is refused for any other.
func TestWritesAreOfOneState(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Apply})
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	live := lived(t, s, parent, testConfigMap("old"), nil)
	desired, err := Desire(s, parent, []any{testConfigMap("new")}, &ParentMemory{})
	require.NoError(t, err)
	a, ok := decide(s, desired[0], live, nil, ownership{}, nil, &Action{})
	require.True(t, ok)
	release := Action{Live: live, Diffs: []merge.Difference{{Path: finalizersPath, Desired: []any{}}}}
	for name, body := range map[string]func() (any, error){
		"Update":  func() (any, error) { return UpdateBody(s, &a, parent), nil },
		"Apply":   func() (any, error) { return ApplyBody(s, &a, parent, UpdateBody(s, &a, parent)).Body, nil },
		"Mark":    func() (any, error) { raw, err := MarkPatch(s, &a); return json.RawMessage(raw), err },
		"Claim":   func() (any, error) { raw, err := ClaimPatch(s, live, parent); return json.RawMessage(raw), err },
		"Mend":    func() (any, error) { raw, err := OwnerPatch(s, live, parent); return json.RawMessage(raw), err },
		"Release": func() (any, error) { raw, err := ReleasePatch(&release); return json.RawMessage(raw), err },
	} {
		t.Run(name, func(t *testing.T) {
			made, err := body()
			require.NoError(t, err)
			raw, err := json.Marshal(made)
			require.NoError(t, err)
			var sent struct {
				Metadata struct{ UID, ResourceVersion string } `json:"metadata"`
			}
			require.NoError(t, json.Unmarshal(raw, &sent))
			require.Equal(t, "uid", sent.Metadata.UID, "an object of the same name isn't this one")
			require.Equal(t, "10", sent.Metadata.ResourceVersion, "somebody may have changed it")
		})
	}
	patch, err := ManagedFieldsPatch([]metav1.ManagedFieldsEntry{{Manager: "other"}}, "10")
	require.NoError(t, err)
	require.Contains(t, string(patch), `"/metadata/resourceVersion"`)
}

// TestOwnerPatch_Others: the references to other owners stay.
func TestOwnerPatch_Others(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	live := lived(t, s, parent, testConfigMap("v"), func(o map[string]any) {
		meta, _ := o["metadata"].(map[string]any)
		meta["ownerReferences"] = []any{
			map[string]any{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "other"},
			map[string]any{"apiVersion": "example.com/v1", "kind": "Parent", "name": "former", "uid": "p", "controller": true},
		}
	})
	body, err := OwnerPatch(s, live, parent)
	require.NoError(t, err)
	var sent struct {
		Metadata struct{ OwnerReferences []metav1.OwnerReference } `json:"metadata"`
	}
	require.NoError(t, json.Unmarshal(body, &sent))
	require.Len(t, sent.Metadata.OwnerReferences, 2)
	require.Equal(t, "n", sent.Metadata.OwnerReferences[0].Name)
	require.Equal(t, "p", sent.Metadata.OwnerReferences[1].Name)
}

// TestMemory_OfOneObject: what is remembered of a child says nothing of another object
// that has taken its name, even at the same resourceVersion.
func TestMemory_OfOneObject(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	desired, err := Desire(s, parent, []any{testConfigMap("v")}, &ParentMemory{})
	require.NoError(t, err)
	memory := &ParentMemory{}
	memory.Accept(desired[0], lived(t, s, parent, testConfigMap("v"), nil), nil)
	for uid, settled := range map[string]bool{"uid": true, "another": false} {
		live := lived(t, s, parent, testConfigMap("v"), func(o map[string]any) {
			meta, _ := o["metadata"].(map[string]any)
			meta["uid"], o["data"] = uid, map[string]any{"k": "drifted"}
		})
		p := Build(s, Input{Parent: parent, Desired: desired, Children: []*resource.Resource{live}, Memory: memory})
		require.Equal(t, settled, len(p.Writes) == 0, uid)
	}
}

// TestDeferStatus: a status that is left to the next pass is written by that.
func TestDeferStatus(t *testing.T) {
	p := &ParentMemory{}
	require.True(t, p.DeferStatus(true))
	require.False(t, p.DeferStatus(true), "not twice in a row")
	require.True(t, p.DeferStatus(true))
	require.False(t, p.DeferStatus(false))
	require.True(t, p.DeferStatus(true))
}

// TestObstacles_Itself: a write that is refused for a value of its own child isn't in its
// own way. Nor is a child of another type, or one in another namespace by a quota.
func TestObstacles_Itself(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Recreate}, config.Child{Type: k8s.Secret, Strategy: config.Recreate})
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	holding := func(name, port string) Action {
		cm := testConfigMap(port)
		cm.Name = name
		desired, err := Desire(s, parent, []any{testConfigMap("2")}, &ParentMemory{})
		require.NoError(t, err)
		live := lived(t, s, parent, cm, nil)
		return Action{Verb: VerbRecreate, Kind: s.Types.Of(k8s.ConfigMap), Ref: desired[0].ref, Live: live, Want: desired[0]}
	}
	own := holding("c", "1")
	other := own
	other.Ref.Key.Name = "d"
	secret := other
	secret.Ref.Type = k8s.Secret
	left := other // of handler.Leave, which gives a child a Kind of its own
	kind := *left.Kind
	left.Kind = &kind
	taken := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Field: "data.k", Message: `Invalid value: "1": provided port is already allocated`}}},
	}}
	for name, tc := range map[string]struct {
		o    Action
		want int
	}{"Itself": {own, 0}, "Another": {other, 1}, "Another type": {secret, 0}, "With Leave": {left, 1}} {
		found, _ := Obstacles(&own, taken, []Action{tc.o})
		require.Len(t, found, tc.want, name)
	}
}

// TestEffects_OfASecret: no plan shows the values of a Secret.
func TestEffects_OfASecret(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.Secret, Strategy: config.Replace}, config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	for typ, shown := range map[resource.Type]bool{k8s.Secret: false, k8s.ConfigMap: true} {
		fields := FieldsOf(&Action{Verb: VerbUpdate, Kind: s.Types.Of(typ), Diffs: []merge.Difference{{Path: "data.k", Live: "swordfish", Desired: "marlin"}}})
		require.Len(t, fields, 1)
		if shown {
			require.Equal(t, FieldChange{"data.k", "swordfish", "marlin"}, fields[0])
		} else {
			require.Equal(t, FieldChange{"data.k", Hidden, Hidden}, fields[0])
		}
	}
}

// TestDesire_Refuses: a response with a child that can't be one is invalid as a whole.
func TestDesire_Refuses(t *testing.T) {
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace}, config.Child{Type: k8s.Namespace, Strategy: config.Replace})
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	controller := func(uid string) []any {
		return []any{map[string]any{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": uid, "controller": true}}
	}
	for name, tc := range map[string]struct {
		reason string
		kind   resource.Type
		meta   map[string]any
		err    string // empty: it is a child
	}{
		"Child":             {"nothing is wrong with it", k8s.ConfigMap, map[string]any{"name": "c"}, ""},
		"Own namespace":     {"that is where it would be put", k8s.ConfigMap, map[string]any{"name": "c", "namespace": "ns"}, ""},
		"Other namespace":   {"owner references don't cross namespaces", k8s.ConfigMap, map[string]any{"name": "c", "namespace": "elsewhere"}, "a child must be in its parent's namespace"},
		"Cluster-scoped":    {"the garbage collector would delete it at once", k8s.Namespace, map[string]any{"name": "c"}, "a namespaced parent can't own it"},
		"Parent":            {"a parent isn't its own child", sample.ParentType(), map[string]any{"name": "c"}, "not a configured child type"},
		"Other type":        {"no watch tells of it", k8s.Secret, map[string]any{"name": "c"}, "not a configured child type"},
		"Path":              {"it would lead to another request", k8s.ConfigMap, map[string]any{"name": "../c"}, "metadata.name"},
		"Generated":         {"each call would make another child", k8s.ConfigMap, map[string]any{"generateName": "c-"}, "generateName"},
		"Another's child":   {"the label is what makes a child", k8s.ConfigMap, map[string]any{"name": "c", "labels": map[string]any{s.Config.TrackingLabel: "q"}}, "is the engine's to set"},
		"Another operator":  {"and so is this one", k8s.ConfigMap, map[string]any{"name": "c", "labels": map[string]any{s.Config.OwnershipLabel: "other"}}, "is the engine's to set"},
		"Own label":         {"it says what will be", k8s.ConfigMap, map[string]any{"name": "c", "labels": map[string]any{s.Config.TrackingLabel: "p"}}, ""},
		"Another's control": {"an object has one controller", k8s.ConfigMap, map[string]any{"name": "c", "ownerReferences": controller("other")}, "can't be the controller"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Desire(s, parent, []any{map[string]any{"apiVersion": tc.kind.APIVersion, "kind": tc.kind.Kind, "metadata": tc.meta}}, &ParentMemory{})
			if tc.err == "" {
				require.NoError(t, err, tc.reason)
				return
			}
			require.ErrorContains(t, err, tc.err, tc.reason)
		})
	}
}

// TestUntypedChild: the error about a child of a handler's own Go type says where its kind is to come from.
func TestUntypedChild(t *testing.T) {
	type own struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
	}
	s := settings.For(config.Child{Type: k8s.ConfigMap, Strategy: config.Replace})
	parent := sample.Object(t, sample.ParentType(), "p", "p", 1, "")
	named := metav1.ObjectMeta{Name: "x"}
	for want, child := range map[string]any{
		`child 0: "x": kind: missing; set the TypeMeta of the *plan.own, a type that client-go's scheme doesn't know`:          &own{ObjectMeta: named},
		`child 0: Own "x": apiVersion: missing; set the TypeMeta of the plan.own, a type that client-go's scheme doesn't know`: own{TypeMeta: metav1.TypeMeta{Kind: "Own"}, ObjectMeta: named},
		`child 0: "x": kind: missing`: map[string]any{"metadata": map[string]any{"name": "x"}},
	} {
		_, err := Desire(s, parent, []any{child}, &ParentMemory{})
		require.EqualError(t, err, "invalid response: "+want)
	}
}
